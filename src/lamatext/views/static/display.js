// Renders an explanation as page elements. Texts and labels are only ever set as text, never as HTML.

import { sum } from "./arrays.js";

const MAX_BARS = 8; // with more classes, only the most probable are shown
const STRONGEST_WORDS = 5;

export const share = value =>
  value >= 0.0095 || value === 0 ? value.toFixed(3) : String(Number(value.toPrecision(1)));
export const signed = value => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(3);
export const argmax = values => values.reduce((best, value, i) => (value > values[best] ? i : best), 0);

export function element(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

/** Index of the class that a view shows. */
function classOf({ labels, probabilities }, view) {
  return view.startsWith("class:") ? labels.map(String).indexOf(view.slice(6)) : argmax(probabilities);
}

/** Values that shade the words in a view: {values (T), full, attention}, or null if there are none.
 *  Contributions to a class come from the whole model, or from one `part` of it. */
export function shades(explanation, view, part = "") {
  const { relative, relativeParts, weights, pooled } = explanation;
  if (view.startsWith("head:")) {
    const head = view.slice(5);
    const values = head === "mean" ? pooled : weights?.[Number(head)];
    if (!values) return null;
    const full = Math.max(...values, Math.min(3 / values.length, 1));
    return { values, full, attention: true };
  }
  const rows = part ? relativeParts[part] : relative, c = classOf(explanation, view);
  if (!rows?.[c]) return null;
  let full = 0.05;
  for (const row of relative) for (const value of row) full = Math.max(full, Math.abs(value));
  return { values: rows[c], full, attention: false };
}

/** Show the text with each word in its own <span>; return these elements. */
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

/** Color the words by the result of `shades`. */
export function shade(words, shading) {
  words.forEach((word, t) => {
    const strength = shading ? shading.values[t] / shading.full : 0;
    word.dataset.k = shading?.attention ? "a" : strength < 0 ? "n" : "p";
    word.style.setProperty("--s", Math.min(Math.abs(strength), 1).toFixed(3));
  });
}

/** Show one bar per class; `without` marks the probabilities without the selected word. */
export function showBars(place, labels, probabilities, without = null) {
  const order = labels.map((_, c) => c);
  const best = argmax(probabilities);
  if (labels.length > MAX_BARS) {
    order.sort((a, b) => probabilities[b] - probabilities[a]);
    order.length = MAX_BARS;
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

/** List the strongest words for and against the class, for readers who cannot see the colors. */
export function showWhy(place, { text, spans, relative, probabilities }) {
  const scores = relative[argmax(probabilities)];
  const order = scores.map((_, t) => t).filter(t => spans[t][1] > spans[t][0]);
  const sides = [
    ["for", order.filter(t => scores[t] > 0).sort((a, b) => scores[b] - scores[a])],
    ["against", order.filter(t => scores[t] < 0).sort((a, b) => scores[a] - scores[b])],
  ];
  place.replaceChildren(...sides.filter(([, chosen]) => chosen.length).flatMap(([side, chosen]) => [
    element("dt", { textContent: side }),
    element("dd", {}, ...chosen.slice(0, STRONGEST_WORDS).flatMap(t => [
      element("span", {}, element("bdi", { textContent: text.slice(...spans[t]) }), " ",
        element("small", { textContent: signed(scores[t]) })), " "])),
  ]));
}

/** Describe the score of the class in a view as a sum: words, by part of the model, and constant. */
export function describeSums(explanation, view) {
  const { relative, relativeBase } = explanation, c = classOf(explanation, view);
  if (c < 0) return "";
  const words = sum(relative[c]), base = relativeBase[c];
  const byPart = describeParts(explanation, rows => sum(rows[c]));
  return `all words ${signed(words)}${byPart && ` (${byPart})`}; `
    + `constant ${signed(base)}; score ${signed(words + base)}`;
}

/** The share of each part of the model, such as "n-grams +1.200, network +0.800"; "" if there is one part. */
function describeParts({ relativeParts }, shareOf) {
  const names = Object.keys(relativeParts).sort();
  return names.length > 1 ? names.map(name => `${name} ${signed(shareOf(relativeParts[name]))}`).join(", ") : "";
}

/** Show the contribution and attention of word t, and the prediction without it. */
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
  const byPart = describeParts(explanation, rows => rows[best][t]);
  parts.push(`. Contribution ${signed(relative[best][t])}${byPart && ` (${byPart})`}`);
  if (weights) {
    const most = argmax(weights.map(row => row[t]));
    parts.push(`; attention ${share(pooled[t])}, most in head ${most + 1} (${share(weights[most][t])})`);
  }
  place.replaceChildren(...parts, ".");
}

/** A remark for texts without known words, and for long texts. */
export function noteOf({ spans, window }) {
  if (!spans.some(([start, end]) => end > start)) return "The model knows none of the words in this text.";
  return window > 1 ? `Long text: contributions are measured by leaving out ${window} words at a time.` : "";
}
