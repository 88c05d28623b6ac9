// A model that runs on the server: the interface of Model, answered by HTTP requests.

import { withDerivedFields } from "./model.js";

export class RemoteModel {
  /** `post(route, body, signal)` sends a JSON request to the server and returns its response. */
  constructor({ name, labels, thresholds = null }, post) {
    Object.assign(this, { name, labels, thresholds, post, heads: 0, parts: [], pendingExplanation: null });
    this.privacyNote = "The text you type is sent to the server, which does not store it.";
  }

  async predict(text) {
    const { predictions } = await this.post("predict", { text, model: this.name, proba: true });
    const { probabilities } = predictions[0];
    return this.labels.map(label => probabilities[String(label)]);
  }

  async explain(text) {
    this.pendingExplanation?.abort();
    this.pendingExplanation = new AbortController();
    const { explanations } = await this.post("explain", { text, model: this.name }, this.pendingExplanation.signal);
    const [explanation] = explanations;
    this.heads = explanation.weights?.length ?? 0;
    this.parts = Object.keys(explanation.parts ?? {});
    this.isByNgramsAlone = explanation.method === "contribution" && !this.heads;
    return withDerivedFields({ ...explanation, text, spans: toUtf16(text, explanation.spans) });
  }
}

/** Convert spans in code points (Python) to spans in UTF-16 units (JavaScript). */
function toUtf16(text, spans) {
  const offsets = [0];
  for (const character of text) offsets.push(offsets[offsets.length - 1] + character.length);
  return spans.map(([start, end]) => [offsets[start], offsets[end]]);
}
