"""Web export: a model as one offline HTML file with its weights and the JavaScript to run it."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safetensors.numpy import save

from lamatext.atomic_write import write_text
from lamatext.data.text_encoder import TextEncoder
from lamatext.data.token_ids import FIRST_WORD
from lamatext.runtime.parity import Parity, measure_parity, random_texts
from lamatext.runtime.predictor import Predictor
from lamatext.saved.format import load_config, ngrams_file
from lamatext.saved.model_io import load_model, save_model
from lamatext.saved.quantization import Storage, quantize
from lamatext.views.formatting import escaped
from lamatext.views.html_templates import SHARED_STYLE, policy_hash, script_json, static_files
from lamatext.views.web_model import describe_model, model_summary

MODULES = (
    *(
        "arrays.js",
        "tokens.js",
        "weights.js",
        "network.js",
        "ngrams.js",
        "explain.js",
        "outliers.js",
    ),
    *("model.js", "display.js", "panel.js", "app.js", "inline.js"),
)  # each module after those that it imports
STYLES = (SHARED_STYLE, "page.css")


@dataclass(frozen=True, slots=True)
class WebExport:
    """Result of a web export, with the HTML file, its size and the precision of its weights."""

    file: Path
    bytes: int
    storage: Storage
    parity: Parity | None
    """Parity of predictions with exported and saved weights; None if the weights are the same."""


def export_web(folder: Path, out: Path, *, storage: Storage | None = None) -> WebExport:
    """Export a saved model as a single HTML file that runs it in a web browser.

    Args:
        folder: the saved model.
        out: the HTML file to write.
        storage: number format of the weights. None keeps the saved format, or uses float16
            instead of float32 if the predictions stay the same.

    Raises:
        ModelError: the model cannot run in JavaScript; the message says what to use instead.
    """
    name = folder.resolve().name
    description = {**describe_model(folder), **model_summary(folder), "name": name}
    if storage is None:
        storage, parity = _default_storage(folder)
    else:
        parity = _compare_storage(folder, storage)
    weights = save(quantize(load_model(folder).tensors, storage))
    ngrams = ngrams_file(folder, load_config(folder))
    html = build_html(description, weights, None if ngrams is None else ngrams.read_bytes())
    write_text(out, html)
    return WebExport(out, len(html.encode()), storage, parity)


def _default_storage(folder: Path) -> tuple[Storage, Parity | None]:
    """Choose the weight precision of a web export: as saved, or float16 instead of float32.

    Float16 is chosen only if the predictions stay the same; in that case, their parity with the
    saved model is returned, too.
    """
    saved: Storage = load_config(folder)["storage"]
    if saved == "float32":
        parity = _compare_storage(folder, "float16")
        if parity is not None and parity.holds:
            return "float16", parity
    return saved, None


def _compare_storage(folder: Path, storage: Storage) -> Parity | None:
    """Measure how the weight precision of a web export affects the predictions.

    Return None if the weights do not change.
    """
    if storage in ("float32", load_config(folder)["storage"]):
        return None
    model = load_model(folder)
    assert isinstance(model.encoder, TextEncoder)  # describe_model refuses all others
    with TemporaryDirectory() as temporary:
        save_model(temporary, model, storage=storage)
        words = model.encoder.vocabulary.words[FIRST_WORD:]
        return measure_parity(
            Predictor.load(temporary), Predictor.load(folder), random_texts(words)
        )


def build_html(description: Mapping[str, Any], weights: bytes, ngrams: bytes | None) -> str:
    """Build the HTML of a web export from a model description and its weights."""
    files = static_files()
    style, script = "\n".join(files[name] for name in STYLES), _bundle_modules()
    data = [
        _data_element("model", script_json(description)),
        _data_element("weights", base64.b64encode(weights).decode()),
    ]
    if ngrams is not None:
        data.append(_data_element("ngrams", base64.b64encode(ngrams).decode()))
    policy = (
        f"default-src 'none'; style-src '{policy_hash(style)}'; "
        f"script-src '{policy_hash(script)}'; base-uri 'none'; form-action 'none'"
    )
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    name = escaped(description["name"])
    end = "\n".join([*data, f'<script type="module">{script}</script>', "</body>"])
    html = re.sub(r"<link [^>]*>\n", "", files["index.html"])
    for old, new in (
        ('<meta charset="utf-8">', f'<meta charset="utf-8">\n{meta}'),
        ("<title>lamatext</title>", f"<title>{name}</title>"),
        ('<h1 id="title">lamatext</h1>', f'<h1 id="title">{name}</h1>'),
        ("Loading the model …", escaped(description.get("summary", ""))),
        ('<script type="module" src="static/serve.js"></script>', f"<style>{style}</style>"),
        ("</body>", end),
    ):
        html = html.replace(old, new, 1)
    return html


def _bundle_modules() -> str:
    """Bundle the JavaScript modules of a web export into one script."""
    modules = "\n".join(static_files()[name] for name in MODULES)
    return re.sub(r"^import [^;]*;\n|^export ", "", modules, flags=re.M)


def _data_element(name: str, text: str) -> str:
    return f'<script type="text/plain" id="{name}">{text}</script>'
