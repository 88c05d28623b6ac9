// A model that runs on the server: the same answers, asked for.

import { withProbabilities } from "./model.js";

export class RemoteModel {
  constructor({ name, labels }, ask) {
    Object.assign(this, { name, labels, ask, heads: 0, parts: [], asking: null });
    this.where = "The server reads what you type, and keeps nothing of it.";
  }

  async predict(text) {
    const told = await this.ask("predict", { text, model: this.name, proba: true });
    const { probabilities } = told.predictions[0];
    return this.labels.map(label => probabilities[String(label)]);
  }

  async explain(text) {
    this.asking?.abort();
    this.asking = new AbortController();
    const told = await this.ask("explain", { text, model: this.name }, this.asking.signal);
    const [found] = told.explanations;
    this.heads = found.weights?.length ?? 0;
    this.parts = Object.keys(found.parts ?? {});
    return withProbabilities({ ...found, text, spans: inUnits(text, found.spans) });
  }
}

/** Spans in code points, as Python counts, as spans in UTF-16 units. */
function inUnits(text, spans) {
  const units = [0];
  for (const character of text) units.push(units[units.length - 1] + character.length);
  return spans.map(([start, end]) => [units[start], units[end]]);
}
