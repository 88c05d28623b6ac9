"use strict";
// A view is a row of numbers, one per word: first the contributions to each class, then the mean
// attention and the attention of each head. "best" is the row of the predicted class. If the model
// has several parts, each part has its own rows of contributions; the parts add up.
const data = JSON.parse(document.getElementById("numbers").textContent);
const texts = [...document.querySelectorAll(".text")];
const words = texts.map(text => [...text.querySelectorAll(".w")]);
const views = document.querySelector(".views");
const names = [...views.querySelectorAll("[data-class]")].map(option => option.textContent);
const partNames = [...views.querySelectorAll("[data-part]")].map(part => part.textContent);
const format = (value, row) => row < data.classes
  ? (value < 0 ? "−" : "+") + Math.abs(value).toFixed(2)
  : value >= 0.0095 || value === 0 ? value.toFixed(3) : String(Number(value.toPrecision(1)));

function shade(view, part) {
  data.texts.forEach(({best, rows, scales, sums, parts}, i) => {
    const row = view === "best" ? best : Number(view);
    texts[i].parentElement.querySelector(".sums").textContent = sums[row] ?? sums[best];
    const shaded = texts[i].parentElement.querySelector(".shaded bdi"); // of a model with several labels per text
    if (shaded) shaded.textContent = row < data.classes ? `words for and against ${names[row]}` : "attention";
    const values = row < data.classes && part >= 0 ? parts[part][row] : rows[row];
    words[i].forEach((word, t) => {
      const strength = values ? values[t] / scales[row] : 0;
      word.dataset.k = row >= data.classes ? "a" : strength < 0 ? "n" : "p";
      word.style.setProperty("--s", Math.min(Math.abs(strength), 1).toFixed(3));
    });
  });
}

function point(i, t) {
  texts[i].querySelector(".at")?.classList.remove("at");
  const figures = texts[i].parentElement.querySelector(".figures");
  figures.replaceChildren();
  const word = words[i][t];
  if (!word) return;
  word.classList.add("at");
  word.scrollIntoView({block: "nearest"});
  const name = document.createElement("b");
  name.textContent = word.textContent;
  const {rows, parts} = data.texts[i];
  const split = r => partNames.map((part, p) => part + " " + format(parts[p][r][t], r)).join(", ");
  const numbers = rows.map((row, r) => row && format(row[t], r)
    + (partNames.length && r < data.classes ? " (" + split(r) + ")" : ""));
  const classes = names.flatMap((label, r) => numbers[r] ? [label + " " + numbers[r]] : []);
  figures.append(name, " — contribution: " + classes.join(", "));
  const [mean, ...heads] = numbers.slice(data.classes);
  if (mean) figures.append(" — attention: mean " + mean + ", heads " + heads.join(" "));
}

function filter() {
  const outcome = filters.querySelector("[name=outcome]:checked")?.value ?? "";
  const label = filters.querySelector("select").value;
  const shown = articles.filter(article => {
    const {outcome: own, classes} = article.dataset;
    article.hidden = Boolean(outcome && own !== outcome || label && !JSON.parse(classes).includes(label));
    return !article.hidden;
  });
  filters.querySelector("output").textContent = shown.length + (shown.length === 1 ? " text" : " texts");
}

const articles = [...document.querySelectorAll("article")];
const filters = document.querySelector(".filters");
filters?.addEventListener("change", filter);
filters?.addEventListener("submit", event => event.preventDefault());
document.querySelector(".details").addEventListener("toggle", event =>
  document.body.classList.toggle("detailed", event.target.open));
if (filters) filter(); // a reloaded page keeps what was chosen
views.addEventListener("change", event => {
  const select = views.querySelector("select");
  if (event.target === select && select.value !== "")
    views.querySelectorAll("[name=view]").forEach(input => { input.checked = false; });
  else if (event.target.name === "view" && select) select.value = "";
  const view = views.querySelector("[name=view]:checked")?.value ?? select?.value;
  if (view) shade(view, Number(views.querySelector("[name=part]:checked")?.value ?? -1));
});
views.addEventListener("submit", event => event.preventDefault());
texts.forEach((text, i) => {
  const at = () => words[i].findIndex(word => word.classList.contains("at"));
  text.addEventListener("click", event => {
    const t = words[i].indexOf(event.target.closest(".w"));
    point(i, t === at() ? -1 : t);
  });
  text.addEventListener("keydown", event => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (event.key === "Escape") point(i, -1);
    if (!step) return;
    event.preventDefault();
    point(i, Math.min(Math.max(at() + step, 0), words[i].length - 1));
  });
});
