"""A model as one HTML file: its weights, its forward pass and its page; nothing is fetched."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.numpy import save

from lamatext.explain.display import escaped
from lamatext.files import write_text
from lamatext.folder import WIDE
from lamatext.runtime.weights import Storage, stored_as
from lamatext.serve.page import asset
from lamatext.serve.web_model import describe
from lamatext.store import load_tensors

MODULES = (
    *("arrays.js", "tokens.js", "weights.js", "network.js", "wide.js", "explain.js", "model.js"),
    *("display.js", "panel.js", "app.js", "inline.js"),
)  # each after those that it imports
STYLES = ("house.css", "page.css")


@dataclass(frozen=True, slots=True)
class WebExport:
    """What was written."""

    file: Path
    bytes: int
    storage: Storage


def export_web(folder: Path, out: Path, *, storage: Storage = "float16") -> WebExport:
    """Write the saved model in ``folder`` as the page ``out``.

    Raises:
        ModelError: the model does not run in a page; the message says what to use instead.
    """
    description = {**describe(folder), "name": folder.resolve().name}
    weights = save(stored_as(load_tensors(folder), storage))
    wide = (folder / WIDE).read_bytes() if description["wide"] else None
    html = page_of(description, weights, wide)
    write_text(out, html)
    return WebExport(out, len(html.encode()), storage)


def page_of(description: Mapping[str, Any], weights: bytes, wide: bytes | None) -> str:
    """The page with a model in it: its description, and the bytes of its tensors."""
    style, script = "\n".join(map(asset, STYLES)), _script()
    parts = [_held("model", _json(description)), _held("weights", _base64(weights))]
    if wide is not None:
        parts.append(_held("wide", _base64(wide)))
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
