// An explanation on the page. What comes from a text or a label is only ever set as text.

import { sum } from "./arrays.js";

const BARS = 8; // more classes than this: only the most probable are shown
const STRONGEST = 5;

export const share = value =>
  value >= 0.0095 || value === 0 ? value.toFixed(3) : String(Number(value.toPrecision(1)));
export const signed = value => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(3);
export const argmax = values => values.reduce((best, value, i) => (value > values[best] ? i : best), 0);

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/** The column of the class that a view is about. */
function columnOf({ labels, probabilities }, view) {
  return view.startsWith("class:") ? labels.map(String).indexOf(view.slice(6)) : argmax(probabilities);
}

/** The numbers that shade the words in a view: {values (T), full, kind}, or null if it has none.
 *  A class's are those of all the model, or of one `part`. */
export function shades(explanation, view, part = "") {
  const { relative, relativeParts, weights, pooled } = explanation;
  if (view.startsWith("head:")) {
    const head = view.slice(5);
    const values = head === "mean" ? pooled : weights?.[Number(head)];
    if (!values) return null;
    const full = Math.max(...values, Math.min(3 / values.length, 1));
    return { values, full, attention: true };
  }
  const rows = part ? relativeParts[part] : relative, column = columnOf(explanation, view);
  if (!rows?.[column]) return null;
  let full = 0.05;
  for (const row of relative) for (const value of row) full = Math.max(full, Math.abs(value));
  return { values: rows[column], full, attention: false };
}

/** The text with every word in a span of its own; returns the spans. */
export function showText(place, { text, spans }) {
  place.replaceChildren();
  let at = 0;
  const words = spans.map(([start, end]) => {
    if (start > at) place.append(text.slice(at, start));
    const word = element("span", { className: "w", textContent: text.slice(Math.max(at, start), end) });
    place.append(word);
    at = Math.max(at, end);
    return word;
  });
  place.append(text.slice(at));
  return words;
}

export function shade(words, found) {
  words.forEach((word, t) => {
    const strength = found ? found.values[t] / found.full : 0;
    word.dataset.k = found?.attention ? "a" : strength < 0 ? "n" : "p";
    word.style.setProperty("--s", Math.min(Math.abs(strength), 1).toFixed(3));
  });
}

/** A bar for each class, in their order while there are few; `without` marks what a word changes. */
export function showBars(place, labels, probabilities, without = null) {
  const order = labels.map((_, c) => c);
  const best = argmax(probabilities);
  if (labels.length > BARS) {
    order.sort((a, b) => probabilities[b] - probabilities[a]);
    order.length = BARS;
  }
  place.replaceChildren(...order.map(c => {
    const bar = element("span", { className: "bar" });
    bar.style.setProperty("--v", probabilities[c].toFixed(4));
    if (without) {
      bar.dataset.without = "";
      bar.style.setProperty("--w", without[c].toFixed(4));
    }
    const figure = without ? `${share(probabilities[c])} → ${share(without[c])}` : share(probabilities[c]);
    return element("li", { className: c === best ? "best" : "" },
      element("bdi", { className: "name", textContent: labels[c] }), bar,
      element("span", { className: "value", textContent: figure }));
  }));
}

/** The strongest words on either side, as text: for readers who see no shades. */
export function showWhy(place, { text, spans, relative, probabilities }) {
  const scores = relative[argmax(probabilities)];
  const order = scores.map((_, t) => t).filter(t => spans[t][1] > spans[t][0]);
  const sides = [
    ["for", order.filter(t => scores[t] > 0).sort((a, b) => scores[b] - scores[a])],
    ["against", order.filter(t => scores[t] < 0).sort((a, b) => scores[a] - scores[b])],
  ];
  place.replaceChildren(...sides.filter(([, chosen]) => chosen.length).flatMap(([side, chosen]) => [
    element("dt", { textContent: side }),
    element("dd", {}, ...chosen.slice(0, STRONGEST).flatMap(t => [
      element("span", {}, element("bdi", { textContent: text.slice(...spans[t]) }), " ",
        element("small", { textContent: signed(scores[t]) })), " "])),
  ]));
}

/** What the score of the class in a view is made of: the words, by the parts of the model, and the rest. */
export function sumsOf(explanation, view) {
  const { relative, relativeBase } = explanation, column = columnOf(explanation, view);
  if (column < 0) return "";
  const words = sum(relative[column]), base = relativeBase[column];
  const told = parted(explanation, rows => sum(rows[column]));
  return `all words ${signed(words)}${told && ": of this, " + told}; `
    + `apart from the words ${signed(base)}; score ${signed(words + base)}`;
}

/** The shares of the model's parts, each found in its rows: "n-grams +1.200, network +0.800"; "" if it has but one. */
function parted({ relativeParts }, find) {
  const names = Object.keys(relativeParts).sort();
  return names.length > 1 ? names.map(name => `${name} ${signed(find(relativeParts[name]))}`).join(", ") : "";
}

/** What is known of word t, and what the model says without it. */
export function showWord(place, explanation, t, without) {
  const { text, spans, labels, probabilities, relative, weights, pooled } = explanation;
  const best = argmax(probabilities), now = argmax(without);
  const change = without[best] - probabilities[best];
  const parts = [
    "Without ", element("b", {}, element("bdi", { textContent: text.slice(...spans[t]) })), ": ",
    element("bdi", { textContent: labels[best] }), ` ${share(probabilities[best])} → ${share(without[best])} (`,
    element("span", { className: change < 0 ? "down" : "up", textContent: signed(change) }), ")",
  ];
  if (now !== best) parts.push(", so it would be ", element("b", {}, element("bdi", { textContent: labels[now] })));
  const told = parted(explanation, rows => rows[best][t]);
  parts.push(`. Contribution ${signed(relative[best][t])}${told && ` (${told})`}`);
  if (weights) {
    const most = argmax(weights.map(row => row[t]));
    parts.push(`; attention ${share(pooled[t])}, most in head ${most + 1} (${share(weights[most][t])})`);
  }
  place.replaceChildren(...parts, ".");
}

/** What a reader must know beside the numbers. */
export function noteOf({ spans, window }) {
  if (!spans.some(([start, end]) => end > start)) return "No word of this text is known to the model.";
  return window > 1 ? `A long text: ${window} words were left out at a time.` : "";
}
