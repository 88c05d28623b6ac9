// Entry point of the page on a server: fetches each model once and runs it in the browser;
// a model that is too large or has no JavaScript implementation stays on the server.

import { start } from "./app.js";
import { Model } from "./model.js";
import { RemoteModel } from "./remote.js";

const MAX_BYTES = 64e6; // larger weights are not fetched

let apiKey = null;

async function request(path, options = {}) {
  const headers = { ...options.headers, ...(apiKey && { Authorization: `Bearer ${apiKey}` }) };
  const response = await fetch(path, { ...options, headers });
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({ detail: response.statusText }));
  throw Object.assign(new Error(problem.detail), { status: response.status });
}

async function post(route, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return (await request(route, { method: "POST", headers, body: JSON.stringify(body), signal })).json();
}

async function load(model) {
  if (!model.runs_in_page) return new RemoteModel(model, post);
  const path = `models/${encodeURIComponent(model.name)}`;
  const description = await (await request(path)).json();
  if (description.bytes > MAX_BYTES) return new RemoteModel(model, post);
  const files = ["weights", ...(description.ngrams ? ["ngrams"] : [])];
  const buffers = await Promise.all(files.map(async file => (await request(`${path}/${file}`)).arrayBuffer()));
  const privacyNote = "The text you type stays in this page.";
  return new Model({ ...description, name: model.name, privacyNote }, ...buffers);
}

/** Show the form for the API key and wait until it is submitted. */
function askForKey() {
  const form = document.getElementById("key");
  form.hidden = false;
  document.getElementById("panels").hidden = true;
  const message = document.getElementById("message"), loading = message.textContent;
  message.textContent = "";
  document.getElementById("secret").focus();
  return new Promise(resolve => form.addEventListener("submit", event => {
    event.preventDefault();
    apiKey = document.getElementById("secret").value;
    form.hidden = true;
    message.textContent = loading;
    document.getElementById("panels").hidden = false;
    resolve();
  }, { once: true }));
}

async function main() {
  try {
    const models = await (await request("models")).json();
    await start(models.map(model => ({ ...model, load: () => load(model) })));
  } catch (error) {
    if (error.status === 401) {
      await askForKey();
      return main();
    }
    document.getElementById("message").textContent = error.message;
  }
}

main();
