// The page: one or two panels, the choice of views, and the link that restores what is shown.

import { chosen, element } from "./display.js";
import { Panel } from "./panel.js";

const MAX_PILLS = 8; // with more classes, they are in a drop-down list
const FALLBACK_SUMMARY = "Type a text to see its class and the words that decide it.";
const ANNOUNCE_AFTER = 700; // milliseconds without a change before screen readers read the class

const byId = id => document.getElementById(id);

/** Start the page with `models`, each {name, labels, load() → model}. */
export async function start(models) {
  const page = new Page(models);
  await page.restore(location.hash);
  addEventListener("hashchange", () => page.restore(location.hash));
}

class Page {
  constructor(models) {
    Object.assign(this, { models, loaded: new Map(), mode: "one", view: "best", part: "", announcement: 0 });
    const handlers = { onInput: panel => this.textChanged(panel), onUpdate: panel => this.panelUpdated(panel) };
    const first = byId("panels").firstElementChild, second = first.cloneNode(true);
    this.panels = [first, second].map((root, i) => new Panel(root, `text-${i + 1}`, handlers));
    this.panels.forEach(panel => {
      panel.chooser.append(...models.map((model, m) => element("option", { value: m, textContent: model.name })));
      panel.chooser.addEventListener("change", () => this.chooseModel(panel, Number(panel.chooser.value))
        .catch(error => { byId("message").textContent = error.message; }));
    });
    byId("compare-models").hidden = models.length < 2;
    byId("compare-texts").addEventListener("click", () => this.compare(this.mode === "texts" ? "one" : "texts"));
    byId("compare-models").addEventListener("click", () => this.compare(this.mode === "models" ? "one" : "models"));
    byId("share").addEventListener("click", () => this.share());
    byId("views").addEventListener("change", event => this.viewChanged(event.target));
    byId("views").addEventListener("submit", event => event.preventDefault());
    byId("details").addEventListener("toggle", () => document.body.classList.toggle("detailed", byId("details").open));
  }

  get visiblePanels() {
    return this.mode === "one" ? this.panels.slice(0, 1) : this.panels;
  }

  /** Show the texts, models and view that a link contains. */
  async restore(hash) {
    const state = new URLSearchParams(hash.slice(1));
    const [first, second] = this.panels;
    first.input.value = state.get("text") ?? first.input.value;
    second.input.value = state.get("other") ?? second.input.value;
    const modelIndex = name => Math.max(this.models.findIndex(model => model.name === name), 0);
    const mode = ["texts", "models"].includes(state.get("compare")) ? state.get("compare") : "one";
    await this.chooseModel(first, modelIndex(state.get("model")));
    await this.compare(mode === "models" && this.models.length < 2 ? "one" : mode, modelIndex(state.get("second")));
    this.setView(state.get("view") ?? this.view, state.get("part") ?? this.part);
    if (this.view !== "best" || this.part) byId("details").open = true;
    for (const id of ["actions", "details", "footer"]) byId(id).hidden = false;
  }

  /** Use model m in a panel; load it first if needed. */
  async chooseModel(panel, m) {
    if (!this.loaded.has(m)) this.loaded.set(m, this.models[m].load());
    panel.result.classList.add("old"); // the other model's result and summary stay until this one is there
    panel.model = await this.loaded.get(m);
    byId("privacy").textContent = panel.model.privacyNote;
    panel.chooser.value = String(m);
    panel.showExamples(this.models[m].examples ?? [], this.models[m].examples_from ?? "test");
    this.arrange();
    await panel.update();
  }

  /** Show one text ("one"), two texts with one model ("texts"), or one text with two models ("models"). */
  async compare(mode, secondModel = 0) {
    const [first, second] = this.panels;
    this.mode = mode;
    const firstModel = Number(first.chooser.value);
    if (mode === "models") {
      second.input.value = first.input.value;
      await this.chooseModel(second, secondModel !== firstModel ? secondModel : Number(firstModel === 0));
    } else if (mode === "texts") {
      await this.chooseModel(second, firstModel);
    }
    this.arrange();
    if (mode === "texts" && document.activeElement === byId("compare-texts")) second.input.focus();
  }

  arrange() {
    const two = this.mode !== "one";
    document.body.classList.toggle("two", two);
    if (two) byId("panels").append(this.panels[1].root);
    else this.panels[1].root.remove();
    byId("compare-texts").setAttribute("aria-pressed", String(this.mode === "texts"));
    byId("compare-models").setAttribute("aria-pressed", String(this.mode === "models"));
    this.panels.forEach((panel, i) => {
      panel.chooser.hidden = !(this.models.length > 1 && (i === 0 || this.mode === "models"));
      panel.find(".what").textContent = this.mode === "texts" ? `Text ${i + 1}` : "Your text";
    });
    const summaries = this.visiblePanels.map(panel => this.models[Number(panel.chooser.value)].summary);
    byId("message").textContent = [...new Set(summaries.filter(Boolean))].join(" — ") || FALLBACK_SUMMARY;
    const names = [...new Set(this.visiblePanels.map(panel => panel.model?.name).filter(Boolean))];
    byId("title").textContent = names.join(" · ");
    document.title = [...names, "lamatext"].join(" · ");
    this.listViews();
  }

  /** List the views of the shown models: classes by name, heads by number. */
  listViews() {
    const models = this.visiblePanels.map(panel => panel.model).filter(Boolean);
    const labels = [...new Set(models.flatMap(model => model.labels.map(String)))];
    const heads = this.heads = Math.max(0, ...models.map(model => model.heads));
    const parts = this.parts = [...new Set(models.flatMap(model => model.parts))];
    const pillLabels = labels.length > MAX_PILLS ? [] : labels;
    const rows = [pillRow("by-class", "Contribution", "view", [["best", "predicted"],
      ...pillLabels.map(label => ["class:" + label, label])])];
    if (labels.length > MAX_PILLS) rows[0].append(classList(labels));
    if (parts.length) rows.push(pillRow("by-part", "from", "part", [["", "all"], ...parts.map(part => [part, part])]));
    if (heads) {
      const numbers = Array.from({ length: heads }, (_, j) => [`head:${j}`, String(j + 1)]);
      rows.push(pillRow("by-head", "Attention", "view", [["head:mean", "mean"], ...numbers]));
    }
    byId("views").replaceChildren(...rows);
    const several = models.some(model => model.thresholds); // labels per text
    byId("about-mean").hidden = several;
    byId("about-thresholds").hidden = !several;
    byId("about-colors").textContent = several ? "label that is named above the text" : "predicted class";
    byId("about-attention").hidden = !heads;
    byId("about-ngrams").hidden = !models.some(model => model.isByNgramsAlone);
    byId("details-title").textContent = heads ? "Details and attention" : "Details";
    byId("about-parts").hidden = !parts.length;
    this.setView(this.view, this.part);
  }

  /** Color the words by `view`; contributions are those of one part of the model, or ("") of all. */
  setView(view, part) {
    const inputs = [...byId("views").querySelectorAll("input")];
    const input = inputs.find(one => one.name === "view" && one.value === view);
    const list = byId("views").querySelector("select");
    const listed = list && [...list.options].some(option => option.value === view && view !== "");
    this.view = input || listed ? view : "best";
    this.part = this.parts.includes(part) ? part : "";
    for (const one of inputs) one.checked = one.value === this[one.name];
    if (list) list.value = listed ? view : "";
    for (const panel of this.panels) panel.shade(this.view, this.part);
  }

  viewChanged(control) {
    if (control.name === "part") this.setView(this.view, control.value);
    else if (control.value) this.setView(control.value, this.part);
  }

  textChanged(panel) {
    const other = this.panels.find(one => one !== panel);
    if (this.mode === "models") {
      other.input.value = panel.input.value;
      this.scheduleUpdate(other);
    }
    if (location.hash) history.replaceState(null, "", location.pathname + location.search); // it has the old text
    byId("link").hidden = true;
    this.scheduleUpdate(panel);
  }

  /** Update at most once per animation frame. */
  scheduleUpdate(panel) {
    panel.frame ??= requestAnimationFrame(() => {
      panel.frame = undefined;
      panel.update();
    });
  }

  panelUpdated(panel) {
    const { heads = 0, parts = [], isByNgramsAlone = false } = panel.model ?? {};
    // The heads and parts of a remote model are only known after its first response.
    const isNew = heads > this.heads || parts.some(part => !this.parts.includes(part));
    if (isNew || (isByNgramsAlone && byId("about-ngrams").hidden)) this.listViews();
    clearTimeout(this.announcement);
    this.announcement = setTimeout(() => {
      byId("announcement").textContent = this.visiblePanels.filter(panel => panel.explanation).map(({ explanation }) => {
        const isChosen = chosen(explanation.probabilities, explanation.thresholds);
        const names = explanation.labels.map((label, c) => [label, explanation.probabilities[c], isChosen[c]])
          .filter(([, , predicted]) => predicted)
          .map(([label, probability]) => `${label}, ${Math.round(100 * probability)} percent`).join("; ") || "no label";
        return `${explanation.unsure ? "unsure, perhaps " : ""}${names}`;
      }).join("; ");
    }, ANNOUNCE_AFTER);
  }

  /** Put texts, models and view into the address, and the address on the clipboard. */
  async share() {
    const [first, second] = this.panels;
    const state = new URLSearchParams({ text: first.input.value });
    if (this.models.length > 1) state.set("model", first.model.name);
    if (this.view !== "best") state.set("view", this.view);
    if (this.part) state.set("part", this.part);
    if (this.mode !== "one") state.set("compare", this.mode);
    if (this.mode === "texts") state.set("other", second.input.value);
    if (this.mode === "models") state.set("second", second.model.name);
    history.replaceState(null, "", "#" + state);
    const link = byId("link"), button = byId("share"), caption = button.textContent;
    try {
      await navigator.clipboard.writeText(location.href);
      button.textContent = "Link copied";
      setTimeout(() => { button.textContent = caption; }, 1600);
    } catch {
      link.value = location.href;
      link.hidden = false;
      link.select();
    }
  }
}

function pillRow(className, title, group, choices) {
  const pills = choices.map(([value, text]) => element("label", {},
    element("input", { type: "radio", name: group, value }), element("span", { textContent: text })));
  const row = element("div", { className: `row ${className}` }, element("b", { textContent: title }),
    element("div", { className: "pills" }, ...pills));
  row.setAttribute("role", "group");
  row.setAttribute("aria-label", title);
  return row;
}

function classList(labels) {
  const list = element("select", {}, element("option", { value: "", textContent: "another class …" }),
    ...labels.map(label => element("option", { value: "class:" + label, textContent: label })));
  list.setAttribute("aria-label", "Another class");
  return list;
}
