// Entry point of the page that is one HTML file: the model is embedded in it.

import { start } from "./app.js";
import { Model } from "./model.js";
import { fromBase64 } from "./weights.js";

const embedded = id => document.getElementById(id)?.textContent;

const description = JSON.parse(embedded("model"));
const ngrams = embedded("ngrams");

description.privacyNote = "The text you type stays in this page, which contacts no server.";
start([{
  ...description,
  load: async () => new Model(description, fromBase64(embedded("weights")), ngrams && fromBase64(ngrams)),
}]);
