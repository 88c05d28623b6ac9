"use strict";
// Review of suspect labels: decisions, filters, keyboard shortcuts and downloads.
const data = JSON.parse(document.getElementById("data").textContent);
const articles = [...document.querySelectorAll("article")];
const filters = document.querySelector(".filters");
const at = Object.fromEntries(data.columns.map((name, i) => [name, i]));
const stored = "lamatext review " + data.suspects.map(row => row[at.row] + row[at.text_hash]).join(" ");
const decisions = restore() ?? articles.map(() => null); // null or [action, label]
let current = 0;

function restore() {
  try {
    const found = JSON.parse(localStorage.getItem(stored));
    return Array.isArray(found) && found.length === articles.length ? found : null;
  } catch { return null; } // a browser may forbid storage
}

function save() {
  try { localStorage.setItem(stored, JSON.stringify(decisions)); } catch { /* decisions last until the page is closed */ }
}

const selectOf = i => articles[i].querySelector("select");

function fillLabels(i) {
  const select = selectOf(i);
  if (select.options.length > 1) return;
  const chosen = select.value, own = articles[i].dataset.label;
  select.replaceChildren(...data.classes.filter(label => label !== own).map(label => new Option(label)));
  select.value = chosen;
}

function decide(i, action) {
  const same = decisions[i]?.[0] === action;
  decisions[i] = action === null || same ? null : [action, action === "relabel" ? selectOf(i).value : articles[i].dataset.label];
  save();
  show(i);
  count();
}

function show(i) {
  const [action, label] = decisions[i] ?? [];
  if (action) articles[i].dataset.decision = action; else delete articles[i].dataset.decision;
  if (action === "relabel" && selectOf(i).value !== label) { fillLabels(i); selectOf(i).value = label; }
  articles[i].querySelectorAll("[data-action]").forEach(button =>
    button.setAttribute("aria-pressed", String(button.dataset.action === action)));
}

function count() {
  const total = action => decisions.filter(decision => decision?.[0] === action).length;
  const parts = [[total("keep"), "kept"], [total("relabel"), "relabelled"], [total("remove"), "removed"]];
  const decided = decisions.filter(Boolean).length;
  const details = parts.filter(([n]) => n).map(([n, name]) => n + " " + name).join(", ");
  filters.querySelector("output").textContent =
    decided + " of " + articles.length + " decided" + (details ? ": " + details : "");
}

function filter() {
  const status = filters.querySelector("[name=status]:checked").value;
  const label = filters.querySelector("select").value;
  articles.forEach((article, i) => {
    const {label: own, suggestion} = article.dataset;
    article.hidden = Boolean(label && own !== label && suggestion !== label
      || status && (status === "done") !== Boolean(decisions[i]));
  });
}

function select(i, focus = true) {
  articles[current]?.classList.remove("current");
  current = i;
  articles[i].classList.add("current");
  if (focus) articles[i].focus({preventScroll: true});
  if (focus) articles[i].scrollIntoView({block: "nearest"});
}

function move(step, isWanted = () => true) {
  for (let i = current + step; i >= 0 && i < articles.length; i += step)
    if (!articles[i].hidden && isWanted(i)) return select(i);
}

// CSV as in RFC 4180, with the separator and the quote of the data; cells are quoted if needed.
function csv(rows, {separator = ",", quote = '"'} = {}) {
  const special = [separator, quote, "\r", "\n"];
  const cell = value => {
    const text = String(value ?? "");
    const isPlain = text === text.trim() && !special.some(character => text.includes(character));
    return isPlain ? text : quote + text.replaceAll(quote, quote + quote) + quote;
  };
  return rows.map(row => row.map(cell).join(separator) + "\r\n").join("");
}

// The bytes of a text in UTF-16 or in an encoding of one byte per character; otherwise in UTF-8.
function encode(text, encoding) {
  if (/^utf-?16/i.test(encoding)) {
    const view = new DataView(new ArrayBuffer(2 * text.length + 2));
    const isLittle = !/be$/i.test(encoding);
    view.setUint16(0, 0xfeff, isLittle);
    for (let i = 0; i < text.length; i++) view.setUint16(2 * i + 2, text.charCodeAt(i), isLittle);
    return view;
  }
  const codes = codesOf(encoding);
  if (codes && [...text].every(character => codes.has(character)))
    return Uint8Array.from([...text], character => codes.get(character));
  return (encoding === "utf-8" ? "" : "\ufeff") + text; // the mark tells a spreadsheet that it is UTF-8
}

function codesOf(encoding) {
  try {
    const decoder = new TextDecoder(encoding.replaceAll("_", "-").replace(/^cp(\d+)$/, "windows-$1"));
    if (decoder.encoding.startsWith("utf")) return null;
    return new Map(Array.from({length: 256}, (_, byte) => [decoder.decode(Uint8Array.of(byte)), byte])
      .filter(([character]) => character !== "\ufffd"));
  } catch { return null; } // an encoding that the browser does not know
}

function download(name, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], {type: "text/csv"}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

function correctedRows() {
  const {columns, header, label, lines, rows} = data.table;
  const changes = new Map(data.suspects.map((row, i) => [row[at.row], decisions[i]]));
  const corrected = rows.flatMap((row, i) => {
    const [action, name] = changes.get(lines[i]) ?? [];
    if (action === "remove") return [];
    return [action === "relabel" ? row.map((value, c) => c === label ? name : value) : row];
  });
  return header ? [columns, ...corrected] : corrected;
}

const stem = data.source.split(/[\\/]/).pop().replace(/\.[^.]*$/, "") || "data";
const kind = data.table?.separator === "\t" ? ".tsv" : ".csv";
const downloads = {
  corrected: () => download(stem + "-corrected" + kind, encode(csv(correctedRows(), data.table), data.table.encoding)),
  removed: () => download(stem + "-removed.csv", csv([data.columns,
    ...data.suspects.filter((_, i) => decisions[i]?.[0] === "remove")])),
};
document.querySelectorAll("[data-download]").forEach(button =>
  button.addEventListener("click", downloads[button.dataset.download]));

articles.forEach((article, i) => {
  article.addEventListener("click", event => {
    const action = event.target.closest("[data-action]")?.dataset.action;
    select(i, false);
    if (action) decide(i, action);
  });
  const labels = selectOf(i);
  for (const name of ["pointerdown", "focus"]) labels.addEventListener(name, () => fillLabels(i));
  labels.addEventListener("change", () => { decisions[i] = null; decide(i, "relabel"); });
  show(i);
});
filters.addEventListener("change", filter);
filters.addEventListener("submit", event => event.preventDefault());
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select, input, textarea")) return;
  const key = event.key.toLowerCase(), action = {k: "keep", r: "relabel", x: "remove", u: null}[key];
  if (key === "n") move(1);
  else if (key === "p") move(-1);
  else if (action !== undefined && articles.length && !articles[current].hidden) {
    if (action === null || decisions[current]?.[0] !== action) decide(current, action);
    if (action) move(1, i => !decisions[i]);
  } else return;
  event.preventDefault();
});
count();
filter();
if (articles.length) select(0, false);
