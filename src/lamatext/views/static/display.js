// Renders an explanation as page elements. Texts and labels are only ever set as text, never as HTML.

import { sum } from "./arrays.js";

const MAX_BARS = 8; // with more classes, only the most probable are shown
const MAX_LABEL_BARS = 30; // likewise, if a text may have several labels
const STRONGEST_WORDS = 5;
const EXPLAINED_LABELS = 3; // of a text with several labels
const WEAKEST = 0.05; // words with a smaller share of the largest contribution are not listed

const share = value => (value >= 0.0095 || value === 0 ? value.toFixed(3) : String(Number(value.toPrecision(1))));
export const signed = value => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(2);
/** A probability for people: "77.4 %", "< 0.1 %" or "> 99.9 %", also if it is rounded to 0 or 1. */
export const percent = value =>
  value < 0.0005 ? "< 0.1 %" : value >= 0.9995 ? "> 99.9 %" : `${(100 * value).toFixed(1)} %`;
export const argmax = values => values.reduce((best, value, i) => (value > values[best] ? i : best), 0);

/** The labels that a model gives a text: the most probable one, or those that reach their thresholds;
 *  none reaches a threshold of 1. */
export const chosen = (probabilities, thresholds) =>
  thresholds ? probabilities.map((value, c) => value >= thresholds[c] && thresholds[c] < 1)
    : probabilities.map((_, c) => c === argmax(probabilities));

export function element(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

/** The classes that an explanation is for, the most probable first: the one of the view, or the predicted
 *  one; if a text may have several labels, up to `EXPLAINED_LABELS` predicted ones, or the most probable. */
export function explainedClasses({ labels, probabilities, thresholds }, view) {
  if (view.startsWith("class:")) return [labels.map(String).indexOf(view.slice(6))];
  const isChosen = chosen(probabilities, thresholds);
  const predicted = labels.map((_, c) => c).filter(c => isChosen[c]).sort((a, b) => probabilities[b] - probabilities[a]);
  return predicted.length ? predicted.slice(0, EXPLAINED_LABELS) : [argmax(probabilities)];
}

/** Index of the class whose contributions a view shows as colors. */
const classOf = (explanation, view) => explainedClasses(explanation, view)[0];

/** Say which label the colors are for, if a text may have several; "" otherwise. */
export function describeColors(explanation, view) {
  if (!explanation.thresholds) return "";
  if (view.startsWith("head:")) return "Colors: attention";
  const label = explanation.labels[classOf(explanation, view)];
  return label === undefined ? "" : `Colors: words for and against ${label}`;
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

/** Show one bar per class, in a stable order; `without` marks the probabilities without the selected word,
 *  `thresholds` the probability from which each label is predicted.
 *  With many classes only the most probable are shown: a class keeps its row while it is one of them. */
export function showBars(place, labels, probabilities, thresholds = null, without = null) {
  const isChosen = probabilities && chosen(probabilities, thresholds);
  const limit = thresholds ? MAX_LABEL_BARS : MAX_BARS;
  place.replaceChildren(...rowsOf(place, labels, probabilities, isChosen, limit).map(c => {
    const bar = element("span", { className: "bar" });
    bar.style.setProperty("--v", probabilities ? probabilities[c].toFixed(4) : 0);
    if (without) {
      bar.dataset.without = "";
      bar.style.setProperty("--w", without[c].toFixed(4));
    }
    const figure = probabilities ? percent(probabilities[c]) : "–";
    if (thresholds) {
      const mark = element("i", { className: "threshold", title: `threshold ${(100 * thresholds[c]).toFixed(1)} %` });
      mark.style.setProperty("--t", thresholds[c].toFixed(4));
      bar.append(mark);
    }
    const row = element("li", { className: isChosen?.[c] ? "best" : "" },
      element("bdi", { className: "name", textContent: labels[c] }), bar,
      element("span", { className: "value", textContent: figure }));
    row.dataset.class = c;
    return row;
  }));
}

/** The classes to show as rows: all, or the predicted and the most probable ones, each in the row that it had
 *  before. */
function rowsOf(place, labels, probabilities, isChosen, limit) {
  const all = labels.map((_, c) => c);
  if (labels.length <= limit) return all;
  if (!probabilities) return all.slice(0, limit);
  const top = all.sort((a, b) => isChosen[b] - isChosen[a] || probabilities[b] - probabilities[a]).slice(0, limit);
  const rows = [...place.children].map(row => Number(row.dataset.class)).slice(0, limit);
  const entering = top.filter(c => !rows.includes(c));
  if (rows.length < limit) return top;
  return rows.map(c => (top.includes(c) ? c : entering.shift()));
}

/** List the strongest words for and against the explained classes, for readers who cannot see the colors. */
export function showWhy(place, explanation, view) {
  const classes = explanation ? explainedClasses(explanation, view) : [-1];
  place.replaceChildren(...classes.flatMap(c => strongestWords(explanation, c)));
}

/** The rows of the strongest words for and against class c; the label is named if a text may have several.
 *  Repeated words, in upper or lower case, are added up. */
function strongestWords(explanation, c) {
  const words = explanation?.relative[c] ? addRepeated(explanation, c) : [];
  const name = explanation?.thresholds && c >= 0 ? ` ${explanation.labels[c]}` : "";
  const least = WEAKEST * Math.max(0, ...words.map(({ score }) => Math.abs(score)));
  const sides = [
    ["for", words.filter(({ score }) => score > least).sort((a, b) => b.score - a.score)],
    ["against", words.filter(({ score }) => score < -least).sort((a, b) => a.score - b.score)],
  ];
  return sides.flatMap(([side, chosen]) => [
    element("dt", {}, element("bdi", { textContent: side + name })),
    element("dd", {}, ...chosen.slice(0, STRONGEST_WORDS).flatMap(({ word, times, score }) => [
      element("span", {}, element("bdi", { textContent: word }), " ",
        element("small", { textContent: (times > 1 ? `× ${times} ` : "") + signed(score) })), " "]),
      chosen.length ? "" : "–"),
  ]);
}

function addRepeated({ text, spans, relative }, c) {
  const words = new Map();
  relative[c].forEach((score, t) => {
    const word = text.slice(...spans[t]), key = word.toLowerCase();
    if (!word) return;
    const known = words.get(key) ?? { word, times: 0, score: 0 };
    words.set(key, { ...known, times: known.times + 1, score: known.score + score });
  });
  return [...words.values()];
}

/** Describe the score of the class in a view as a sum: words, by part of the model, and constant. */
export function describeSums(explanation, view) {
  const { relative, relativeBase, labels, thresholds } = explanation, c = classOf(explanation, view);
  if (c < 0) return "";
  const name = thresholds ? `${labels[c]}: ` : "";
  const words = sum(relative[c]), base = relativeBase[c];
  const byPart = describeParts(explanation, rows => sum(rows[c]));
  return `${name}all words ${signed(words)}${byPart && ` (${byPart})`}; `
    + `constant ${signed(base)}; score ${signed(words + base)}`;
}

/** The share of each part of the model, such as "n-grams +1.20, network +0.80"; "" if there is one part. */
function describeParts({ relativeParts }, shareOf) {
  const names = Object.keys(relativeParts).sort();
  return names.length > 1 ? names.map(name => `${name} ${signed(shareOf(relativeParts[name]))}`).join(", ") : "";
}

/** Show the contribution and attention of word t, and the prediction without it: for the class of the view if
 *  a text may have several labels, otherwise for the predicted class. */
export function showWord(place, explanation, view, t, without) {
  const { text, spans, labels, probabilities, relative, weights, pooled, thresholds } = explanation;
  const best = classOf(explanation, thresholds ? view : "best"), now = argmax(without);
  if (best < 0) return place.replaceChildren();
  const change = without[best] - probabilities[best];
  const parts = [
    "Without ", element("b", {}, element("bdi", { textContent: text.slice(...spans[t]) })), ": ",
    element("bdi", { textContent: labels[best] }), ` ${percent(probabilities[best])} → `,
    element("span", { className: change < 0 ? "down" : "up", textContent: percent(without[best]) }),
  ];
  if (now !== best && !thresholds) parts.push(", so it would be ", element("b", {}, element("bdi", { textContent: labels[now] })));
  const byPart = describeParts(explanation, rows => rows[best][t]);
  let numbers = ` Contribution ${signed(relative[best][t])}${byPart && ` (${byPart})`}`;
  if (weights) {
    const most = argmax(weights.map(row => row[t]));
    numbers += `; attention ${share(pooled[t])}, most in head ${most + 1} (${share(weights[most][t])})`;
  }
  place.replaceChildren(...parts, ".", element("span", { className: "numbers", textContent: `${numbers}.` }));
}

/** Remarks for outliers, for texts without known words, and for long texts. */
export function noteOf({ spans, weights, window, outlier, outlier_score: score }) {
  const notes = [];
  if (!spans.some(([start, end]) => end > start)) {
    notes.push("The model knows none of the words in this text: its prediction does not depend on them.");
  } else if (weights?.length && !weights.some(row => row.some(Boolean))) {
    notes.push("The network knows none of the words in this text: there is no attention to show.");
  }
  if (outlier) {
    const than = score > 1 ? "every validation text" : `${Math.min(100 * score, 99.9).toFixed(1)} % of the validation texts`;
    notes.push(`Unusual text: more unusual than ${than}. It may belong to none of the classes.`);
  }
  if (window > 1) notes.push(`Long text: contributions are measured by leaving out ${window} words at a time.`);
  return notes.join(" ");
}
