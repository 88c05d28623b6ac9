// The page that is one file: the model lies in it.

import { start } from "./app.js";
import { Model } from "./model.js";
import { fromBase64 } from "./weights.js";

const held = id => document.getElementById(id)?.textContent;

const description = JSON.parse(held("model"));
const ngrams = held("ngrams");

description.where = "What you type stays in this page: it asks no server.";
start([{
  ...description,
  load: async () => new Model(description, fromBase64(held("weights")), ngrams && fromBase64(ngrams)),
}]);
