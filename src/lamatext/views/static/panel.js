// One panel of the page: a text, its predicted class and its explanation, updated at each keystroke.

import {
  argmax, chosen, describeColors, describeSums, element, noteOf, percent, shade, shades, showBars, showText, showWhy, showWord,
} from "./display.js";

const HINT = "Click a word, or select it with Tab and the arrow keys, to see the prediction without it.";

// All times are in milliseconds.
const SLICE = 12; // work between two pauses that let the browser respond
const TYPING_PAUSE = 250; // wait after the last keystroke before a slow explanation
const SLOW = 60; // an explanation that takes longer waits for a pause in typing
const VERY_SLOW = 400; // if explanations take longer, the prediction waits for a pause too

const sleep = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds));

/** Thrown to stop an update that a newer one has replaced. */
class Outdated extends Error {}

export class Panel {
  constructor(root, id, { onInput, onUpdate }) {
    this.root = root;
    this.find = selector => this.root.querySelector(selector);
    Object.assign(this, {
      input: this.find("textarea"), chooser: this.find("select"), result: this.find(".result"), text: this.find(".text"),
      model: null, explanation: null, words: [], selected: -1, version: 0, view: "best", part: "", duration: 0, onUpdate,
    });
    this.input.id = this.find(".what").htmlFor = id;
    this.find(".examples").addEventListener("click", event => {
      if (!event.target.closest("button")) return;
      this.input.value = event.target.closest("button").title;
      onInput(this);
    });
    this.input.addEventListener("input", () => onInput(this));
    this.text.addEventListener("click", event => {
      const t = this.words.indexOf(event.target.closest(".w"));
      this.select(t === this.selected ? -1 : t);
    });
    this.text.addEventListener("keydown", event => this.moveSelection(event));
  }

  /** Predict and explain the current text; a later call cancels an earlier one. */
  async update() {
    const version = ++this.version;
    const checkCurrent = () => { if (version !== this.version) throw new Outdated(); };
    const { model, input: { value: text } } = this;
    this.selected = -1;
    if (!model || !text.trim()) {
      this.explanation = null;
      if (model) this.showNothing(model);
      this.onUpdate(this);
      return;
    }
    try {
      if (this.duration > VERY_SLOW) await sleep(TYPING_PAUSE);
      checkCurrent();
      if (this.duration > SLOW) await this.predictFirst(model, text, checkCurrent);
      const start = performance.now();
      let lastPause = start;
      const pause = async () => {
        if (performance.now() - lastPause > SLICE) {
          await sleep(0);
          checkCurrent();
          lastPause = performance.now();
        }
      };
      const explanation = await model.explain(text, pause);
      checkCurrent();
      this.duration = performance.now() - start;
      this.show(explanation);
    } catch (error) {
      if (error instanceof Outdated || error.name === "AbortError") return;
      this.find(".note").textContent = error.message;
      this.result.hidden = false;
    }
  }

  /** Show the prediction at once, then wait for a pause in typing before the explanation. */
  async predictFirst(model, text, checkCurrent) {
    this.result.classList.add("old");
    const probabilities = await model.predict(text);
    checkCurrent();
    this.showPrediction(model, probabilities, Math.max(...probabilities) < (model.threshold ?? 0));
    await sleep(TYPING_PAUSE);
    checkCurrent();
  }

  /** Offer example texts of the test or training data to click. */
  showExamples(examples, part) {
    const buttons = examples.map(({ text }) => element("button", { type: "button", title: text, textContent: text }));
    this.find(".examples").replaceChildren(...(buttons.length ? [element("span", { textContent: `Examples from the ${part} texts:` }), ...buttons] : []));
    this.find(".examples").hidden = !buttons.length;
  }

  /** Show the places of the result without a text, so that bars and reasons stay when the first one is typed. */
  showNothing({ labels, thresholds = null }) {
    this.words = [];
    this.find(".predicted").textContent = "–";
    for (const place of [".probability", ".shaded", ".text", ".figures", ".sums", ".note"]) this.find(place).replaceChildren();
    showBars(this.find(".bars"), labels, null, thresholds);
    showWhy(this.find(".why"), null);
    this.result.classList.remove("old");
    this.result.classList.add("nothing");
    this.result.hidden = false;
  }

  show(explanation) {
    this.explanation = explanation;
    this.words = showText(this.text, explanation);
    this.showPrediction(explanation, explanation.probabilities, explanation.unsure);
    this.find(".note").textContent = noteOf(explanation);
    this.find(".figures").textContent = HINT;
    this.result.classList.remove("old");
    this.shade(this.view, this.part);
    this.onUpdate(this);
  }

  /** Show the labels of a text; `thresholds` are those of a model that may give it several. */
  showPrediction({ labels, thresholds = null }, probabilities, unsure = false) {
    const isChosen = chosen(probabilities, thresholds);
    const names = labels.filter((_, c) => isChosen[c]).join(", ") || "no label";
    const probability = thresholds ? "" : percent(probabilities[argmax(probabilities)]);
    this.find(".predicted").textContent = unsure ? "unsure" : names;
    this.find(".probability").textContent = unsure ? `perhaps ${names}, ${probability}` : probability;
    showBars(this.find(".bars"), labels, probabilities, thresholds);
    this.result.classList.remove("nothing");
    this.result.hidden = false;
  }

  /** Color the words by a view; contributions are those of one part of the model, or ("") of all. */
  shade(view, part) {
    Object.assign(this, { view, part });
    if (!this.explanation) return;
    shade(this.words, shades(this.explanation, view, part));
    showWhy(this.find(".why"), this.explanation, this.explanation.thresholds ? view : "best");
    this.find(".shaded").textContent = describeColors(this.explanation, view);
    this.find(".sums").textContent = describeSums(this.explanation, view);
  }

  /** Select word t and show the prediction without it; -1 clears the selection. */
  async select(t) {
    this.words[this.selected]?.classList.remove("at");
    this.selected = t;
    const { explanation, words, version } = this;
    if (!words[t]) {
      this.find(".figures").textContent = explanation ? HINT : "";
      if (explanation) showBars(this.find(".bars"), explanation.labels, explanation.probabilities, explanation.thresholds);
      return;
    }
    words[t].classList.add("at");
    words[t].scrollIntoView({ block: "nearest" });
    const [start, end] = explanation.spans[t];
    const without = await this.model.predict(explanation.text.slice(0, start) + " " + explanation.text.slice(end));
    if (version !== this.version || this.selected !== t) return;
    showWord(this.find(".figures"), explanation, this.view, t, without);
    showBars(this.find(".bars"), explanation.labels, explanation.probabilities, explanation.thresholds, without);
  }

  moveSelection(event) {
    const last = this.words.length - 1;
    const next = {
      ArrowRight: Math.min(this.selected + 1, last), ArrowLeft: Math.max(this.selected - 1, 0),
      Home: 0, End: last, Escape: -1,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.select(next);
  }
}
