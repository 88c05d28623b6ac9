// A text, what the model says of it, and why: read again at each keystroke.

import { argmax, noteOf, shade, shades, share, showBars, showText, showWhy, showWord, sumsOf } from "./display.js";

const SLICE = 12; // milliseconds of work after which the page may breathe
const QUIET = 250; // milliseconds without a keystroke before an explanation that takes long
const LONG = 60; // milliseconds that make an explanation long
const VERY_LONG = 400; // milliseconds that even the class is worth a wait for the typing to rest

const sleep = milliseconds => new Promise(done => setTimeout(done, milliseconds));

/** Thrown inside work whose result nobody waits for any more. */
class Outdated extends Error {}

export class Panel {
  constructor(template, { onInput, onRead }) {
    this.root = template.content.firstElementChild.cloneNode(true);
    const part = name => this.root.querySelector(name);
    Object.assign(this, {
      input: part("textarea"), chooser: part("select"), result: part(".result"), text: part(".text"),
      model: null, explanation: null, words: [], at: -1, turn: 0, view: "best", of: "", took: 0, onRead,
    });
    this.part = part;
    this.input.addEventListener("input", () => onInput(this));
    this.text.addEventListener("click", event => {
      const t = this.words.indexOf(event.target.closest(".w"));
      this.point(t === this.at ? -1 : t);
    });
    this.text.addEventListener("keydown", event => this.move(event));
  }

  /** Read the text as it is now; the last call wins. */
  async update() {
    const turn = ++this.turn;
    const current = () => { if (turn !== this.turn) throw new Outdated(); };
    const { model, input: { value: text } } = this;
    this.at = -1;
    if (!model || !text.trim()) {
      this.explanation = null;
      this.result.hidden = true;
      this.onRead(this);
      return;
    }
    try {
      if (this.took > VERY_LONG) await sleep(QUIET);
      current();
      if (this.took > LONG) await this.glance(model, text, current);
      const start = performance.now();
      let rested = start;
      const pause = async () => {
        if (performance.now() - rested > SLICE) {
          await sleep(0);
          current();
          rested = performance.now();
        }
      };
      const explanation = await model.explain(text, pause);
      current();
      this.took = performance.now() - start;
      this.show(explanation);
    } catch (error) {
      if (error instanceof Outdated || error.name === "AbortError") return;
      this.part(".note").textContent = error.message;
      this.result.hidden = false;
    }
  }

  /** The class at once, the reasons once the typing rests. */
  async glance(model, text, current) {
    this.result.classList.add("old");
    const probabilities = await model.predict(text);
    current();
    this.showVerdict(model.labels, probabilities);
    await sleep(QUIET);
    current();
  }

  show(explanation) {
    this.explanation = explanation;
    this.words = showText(this.text, explanation);
    this.showVerdict(explanation.labels, explanation.probabilities);
    showWhy(this.part(".why"), explanation);
    this.part(".note").textContent = noteOf(explanation);
    this.part(".figures").replaceChildren();
    this.result.classList.remove("old");
    this.shade(this.view, this.of);
    this.onRead(this);
  }

  showVerdict(labels, probabilities) {
    const best = argmax(probabilities);
    this.part(".predicted").textContent = labels[best];
    this.part(".probability").textContent = share(probabilities[best]);
    showBars(this.part(".bars"), labels, probabilities);
    this.result.hidden = false;
  }

  /** Shade by a view and, of the contributions, by one part of the model or ("") all. */
  shade(view, of) {
    Object.assign(this, { view, of });
    if (!this.explanation) return;
    shade(this.words, shades(this.explanation, view, of));
    this.part(".sums").textContent = sumsOf(this.explanation, view);
  }

  /** Choose word t: what would the model say without it? */
  async point(t) {
    this.words[this.at]?.classList.remove("at");
    this.at = t;
    const { explanation, words } = this, turn = this.turn;
    if (!words[t]) {
      this.part(".figures").replaceChildren();
      if (explanation) showBars(this.part(".bars"), explanation.labels, explanation.probabilities);
      return;
    }
    words[t].classList.add("at");
    words[t].scrollIntoView({ block: "nearest" });
    const [start, end] = explanation.spans[t];
    const without = await this.model.predict(explanation.text.slice(0, start) + " " + explanation.text.slice(end));
    if (turn !== this.turn || this.at !== t) return;
    showWord(this.part(".figures"), explanation, t, without);
    showBars(this.part(".bars"), explanation.labels, explanation.probabilities, without);
  }

  move(event) {
    const last = this.words.length - 1;
    const next = {
      ArrowRight: Math.min(this.at + 1, last), ArrowLeft: Math.max(this.at - 1, 0), Home: 0, End: last, Escape: -1,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.point(next);
  }
}
