"""A model as one HTML file: its weights, its forward pass and its page; nothing is fetched."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safetensors.numpy import save

from lamatext.atomic_write import write_text
from lamatext.data.text_encoder import TextEncoder
from lamatext.data.token_ids import FIRST_WORD
from lamatext.errors import require
from lamatext.runtime.parity import Parity, measure_parity, random_texts
from lamatext.runtime.predictor import Predictor
from lamatext.saved.format import load_config, ngrams_file
from lamatext.saved.model_io import load_model, load_tensors, save_model
from lamatext.saved.quantization import Storage, quantize
from lamatext.serve.web_page import asset
from lamatext.views.formatting import escaped
from lamatext.views.web_model import describe

MODULES = (
    *("arrays.js", "tokens.js", "weights.js", "network.js", "ngrams.js", "explain.js", "model.js"),
    *("display.js", "panel.js", "app.js", "inline.js"),
)  # each after those that it imports
STYLES = ("house.css", "page.css")


@dataclass(frozen=True, slots=True)
class WebExport:
    """What was written."""

    file: Path
    bytes: int
    storage: Storage
    parity: Parity | None  # with the model as saved; None: the numbers are its own


def export_web(folder: Path, out: Path, *, storage: Storage | None = None) -> WebExport:
    """Write the saved model in ``folder`` as the page ``out``.

    Args:
        folder: the saved model.
        out: an HTML file.
        storage: of the weights; None is as saved, or float16 where that keeps what it says.

    Raises:
        ModelError: the model does not run in a page; the message says what to use instead.
    """
    description = {**describe(folder), "name": folder.resolve().name}
    storage, found = (storage, _compared(folder, storage)) if storage else _usual(folder)
    weights = save(quantize(load_tensors(folder), storage))
    ngrams = ngrams_file(folder).read_bytes() if description["ngrams"] else None
    html = page_of(description, weights, ngrams)
    write_text(out, html)
    return WebExport(out, len(html.encode()), storage, found)


def _usual(folder: Path) -> tuple[Storage, Parity | None]:
    """As saved; half of float32 where that keeps what the model says, and can be tried."""
    saved: Storage = load_config(folder)["storage"]
    if saved == "float32" and find_spec("onnx"):
        found = _compared(folder, "float16")
        if found is not None and found.holds:
            return "float16", found
    return saved, None


def _compared(folder: Path, storage: Storage) -> Parity | None:
    """The model in that storage beside the model as saved; None where the numbers are the same."""
    if storage in ("float32", load_config(folder)["storage"]):
        return None
    require("onnx", extra="train", purpose="comparing a page with its model")
    model = load_model(folder)
    assert isinstance(model.encoder, TextEncoder)  # no other runs in a page
    with TemporaryDirectory() as place:
        save_model(place, model, storage=storage)
        words = model.encoder.vocabulary.words[FIRST_WORD:]
        return measure_parity(Predictor.load(place), Predictor.load(folder), random_texts(words))


def page_of(description: Mapping[str, Any], weights: bytes, ngrams: bytes | None) -> str:
    """The page with a model in it: its description, and the bytes of its tensors."""
    style, script = "\n".join(map(asset, STYLES)), _script()
    parts = [_held("model", _json(description)), _held("weights", _base64(weights))]
    if ngrams is not None:
        parts.append(_held("ngrams", _base64(ngrams)))
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    html = re.sub(r"<link [^>]*>\n", "", asset("index.html"))
    html = html.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n{meta}', 1)
    html = html.replace(
        "<title>lamatext</title>", f"<title>{escaped(description['name'])}</title>", 1
    )
    html = html.replace(
        '<script type="module" src="static/serve.js"></script>', f"<style>{style}</style>", 1
    )
    end = "\n".join([*parts, f'<script type="module">{script}</script>', "</body>"])
    return html.replace("</body>", end, 1)


def _script() -> str:
    """All modules as one: what they say to each other needs no import."""
    plain = [re.sub(r"^import [^;]*;\n", "", asset(name), flags=re.M) for name in MODULES]
    return "\n".join(re.sub(r"^export ", "", text, flags=re.M) for text in plain)


def _held(name: str, text: str) -> str:
    return f'<script type="text/plain" id="{name}">{text}</script>'


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _json(value: object) -> str:
    """JSON in ASCII that cannot end the ``<script>`` it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(text: str) -> str:
    return "sha256-" + _base64(hashlib.sha256(text.encode()).digest())
