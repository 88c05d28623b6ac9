// The page on a server: models are fetched once and run here; what cannot run here is asked for.

import { start } from "./app.js";
import { Model } from "./model.js";
import { RemoteModel } from "./remote.js";

const LARGE = 64e6; // bytes of weights that are too many to fetch

let key = null;

async function get(path, options = {}) {
  const headers = { ...options.headers, ...(key && { Authorization: `Bearer ${key}` }) };
  const answer = await fetch(path, { ...options, headers });
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({ detail: answer.statusText }));
  throw Object.assign(new Error(told.detail), { status: answer.status });
}

async function ask(route, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return (await get(route, { method: "POST", headers, body: JSON.stringify(body), signal })).json();
}

async function load(model) {
  if (!model.runs_in_page) return new RemoteModel(model, ask);
  const path = `models/${encodeURIComponent(model.name)}`;
  const description = await (await get(path)).json();
  if (description.bytes > LARGE) return new RemoteModel(model, ask);
  const parts = ["weights", ...(description.ngrams ? ["ngrams"] : [])];
  const files = await Promise.all(parts.map(async part => (await get(`${path}/${part}`)).arrayBuffer()));
  const where = "What you type stays in this page.";
  return new Model({ ...description, name: model.name, where }, ...files);
}

/** Ask for the server's key until it is the right one. */
function askForKey() {
  const form = document.getElementById("key");
  form.hidden = false;
  document.getElementById("message").hidden = true;
  document.getElementById("secret").focus();
  return new Promise(done => form.addEventListener("submit", event => {
    event.preventDefault();
    key = document.getElementById("secret").value;
    form.hidden = true;
    done();
  }, { once: true }));
}

async function main() {
  try {
    const models = await (await get("models")).json();
    await start(models.map(model => ({ ...model, load: () => load(model) })));
  } catch (error) {
    if (error.status === 401) {
      await askForKey();
      return main();
    }
    document.getElementById("message").hidden = false;
    document.getElementById("message").textContent = error.message;
  }
}

main();
