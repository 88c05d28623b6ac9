// The page: one panel or two, the switch of views, the link that holds it all.

import { argmax, element } from "./display.js";
import { Panel } from "./panel.js";

const PILLS = 8; // more classes than this are chosen from a list
const SPEAK_AFTER = 700; // milliseconds without a change before the class is read out

const byId = id => document.getElementById(id);

/** Show `models`, each {name, labels, load() → model}. */
export async function start(models) {
  const page = new Page(models);
  await page.open(location.hash);
  addEventListener("hashchange", () => page.open(location.hash));
}

class Page {
  constructor(models) {
    Object.assign(this, { models, loaded: new Map(), mode: "one", view: "best", part: "", speaking: 0 });
    const heard = { onInput: panel => this.typed(panel), onRead: panel => this.wasRead(panel) };
    this.panels = [0, 1].map(() => new Panel(byId("panel"), heard));
    this.panels.forEach((panel, i) => {
      const id = `text-${i + 1}`;
      panel.input.id = id;
      panel.part(".what").htmlFor = id;
      panel.chooser.append(...models.map((model, m) => element("option", { value: m, textContent: model.name })));
      panel.chooser.addEventListener("change", () => this.choose(panel, Number(panel.chooser.value)));
    });
    byId("panels").append(this.panels[0].root);
    byId("compare-models").hidden = models.length < 2;
    byId("compare-texts").addEventListener("click", () => this.compare(this.mode === "texts" ? "one" : "texts"));
    byId("compare-models").addEventListener("click", () => this.compare(this.mode === "models" ? "one" : "models"));
    byId("share").addEventListener("click", () => this.share());
    byId("views").addEventListener("change", event => this.switched(event.target));
    byId("views").addEventListener("submit", event => event.preventDefault());
  }

  get shown() {
    return this.mode === "one" ? this.panels.slice(0, 1) : this.panels;
  }

  /** Show what a link holds. */
  async open(hash) {
    const held = new URLSearchParams(hash.slice(1));
    const [first, second] = this.panels;
    first.input.value = held.get("text") ?? first.input.value;
    second.input.value = held.get("other") ?? second.input.value;
    const place = name => Math.max(this.models.findIndex(model => model.name === name), 0);
    const mode = ["texts", "models"].includes(held.get("compare")) ? held.get("compare") : "one";
    await this.choose(first, place(held.get("model")));
    await this.compare(mode === "models" && this.models.length < 2 ? "one" : mode, place(held.get("beside")));
    this.look(held.get("view") ?? this.view, held.get("of") ?? this.part);
    for (const id of ["actions", "footer"]) byId(id).hidden = false;
  }

  /** Let a panel use model m. */
  async choose(panel, m) {
    if (!this.loaded.has(m)) {
      byId("message").hidden = false;
      this.loaded.set(m, this.models[m].load());
    }
    panel.model = await this.loaded.get(m);
    byId("message").hidden = true;
    byId("where").textContent = panel.model.where;
    panel.chooser.value = String(m);
    this.arrange();
    await panel.update();
  }

  /** One text by one model, two texts by one, or one text by two. */
  async compare(mode, beside = 0) {
    const [first, second] = this.panels;
    this.mode = mode;
    const one = Number(first.chooser.value);
    if (mode === "models") {
      second.input.value = first.input.value;
      await this.choose(second, beside !== one ? beside : Number(one === 0));
    } else if (mode === "texts") {
      await this.choose(second, one);
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
      const choice = this.models.length > 1 && (i === 0 || this.mode === "models");
      panel.chooser.hidden = !choice;
      panel.part(".model-name").hidden = true;
      panel.part(".what").textContent = this.mode === "texts" ? `Text ${i + 1}` : "Text";
    });
    const names = [...new Set(this.shown.map(panel => panel.model?.name).filter(Boolean))];
    byId("title").textContent = names.join(" · ");
    document.title = [...names, "lamatext"].join(" · ");
    this.listViews();
  }

  /** The views that the shown models have: classes by name, heads by number. */
  listViews() {
    const models = this.shown.map(panel => panel.model).filter(Boolean);
    const labels = [...new Set(models.flatMap(model => model.labels.map(String)))];
    const heads = this.heads = Math.max(0, ...models.map(model => model.heads));
    const parts = this.parts = [...new Set(models.flatMap(model => model.parts))];
    const rows = [rowOf("by-class", "Contribution", "view", [["best", "predicted"],
      ...labels.slice(0, labels.length > PILLS ? 0 : PILLS).map(label => ["class:" + label, label])])];
    if (labels.length > PILLS) rows[0].append(listOf(labels));
    if (parts.length) rows.push(rowOf("by-part", "of it", "part", [["", "all"], ...parts.map(part => [part, part])]));
    if (heads) {
      const numbers = Array.from({ length: heads }, (_, j) => [`head:${j}`, String(j + 1)]);
      rows.push(rowOf("by-head", "Attention", "view", [["head:mean", "mean"], ...numbers]));
    }
    byId("views").replaceChildren(...rows);
    byId("about-attention").hidden = !heads;
    byId("about-parts").hidden = !parts.length;
    this.look(this.view, this.part);
  }

  /** Shade by `view`, of the contributions by one part of the model or ("") all. */
  look(view, part) {
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

  switched(control) {
    if (control.name === "part") this.look(this.view, control.value);
    else if (control.value) this.look(control.value, this.part);
  }

  typed(panel) {
    const other = this.panels.find(one => one !== panel);
    if (this.mode === "models") {
      other.input.value = panel.input.value;
      this.soon(other);
    }
    if (location.hash) history.replaceState(null, "", location.pathname + location.search); // another text's
    byId("link").hidden = true;
    this.soon(panel);
  }

  /** Read at most once a frame. */
  soon(panel) {
    panel.frame ??= requestAnimationFrame(() => {
      panel.frame = undefined;
      panel.update();
    });
  }

  wasRead(panel) {
    const { heads = 0, parts = [] } = panel.model ?? {};
    if (heads > this.heads || parts.some(part => !this.parts.includes(part))) this.listViews(); // a server's answer tells
    byId("views").hidden = !this.shown.some(panel => panel.explanation);
    clearTimeout(this.speaking);
    this.speaking = setTimeout(() => {
      byId("spoken").textContent = this.shown.filter(panel => panel.explanation).map(({ explanation }) => {
        const best = argmax(explanation.probabilities);
        return `${explanation.labels[best]}, ${Math.round(100 * explanation.probabilities[best])} percent`;
      }).join("; ");
    }, SPEAK_AFTER);
  }

  /** Put all that is shown into the address, and the address on the clipboard. */
  async share() {
    const [first, second] = this.panels;
    const held = new URLSearchParams({ text: first.input.value });
    if (this.models.length > 1) held.set("model", first.model.name);
    if (this.view !== "best") held.set("view", this.view);
    if (this.part) held.set("of", this.part);
    if (this.mode !== "one") held.set("compare", this.mode);
    if (this.mode === "texts") held.set("other", second.input.value);
    if (this.mode === "models") held.set("beside", second.model.name);
    history.replaceState(null, "", "#" + held);
    const link = byId("link"), button = byId("share"), said = button.textContent;
    try {
      await navigator.clipboard.writeText(location.href);
      button.textContent = "Link copied";
      setTimeout(() => { button.textContent = said; }, 1600);
    } catch {
      link.value = location.href;
      link.hidden = false;
      link.select();
    }
  }
}

function rowOf(kind, name, group, choices) {
  const pills = choices.map(([value, text]) => element("label", {},
    element("input", { type: "radio", name: group, value }), element("span", { textContent: text })));
  const row = element("div", { className: `row ${kind}` }, element("b", { textContent: name }),
    element("div", { className: "pills" }, ...pills));
  row.setAttribute("role", "group");
  row.setAttribute("aria-label", name);
  return row;
}

function listOf(labels) {
  const list = element("select", {}, element("option", { value: "", textContent: "another class …" }),
    ...labels.map(label => element("option", { value: "class:" + label, textContent: label })));
  list.setAttribute("aria-label", "Another class");
  return list;
}
