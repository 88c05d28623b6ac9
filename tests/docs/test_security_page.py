"""The paths that SECURITY.md lists are those of the server."""

import re
from pathlib import Path

from lamatext.serve.app import create_app
from lamatext.serve.middleware import PUBLIC_FOLDER, PUBLIC_PATHS
from lamatext.serve.registry import ServedModel

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "tests" / "fixtures" / "format-1"
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_the_page_lists_every_route_and_whether_it_needs_the_key() -> None:
    served = ServedModel.load("model", MODEL)
    rows = re.findall(r"^\| (`/.*?) \| (yes|no) \|", PAGE, re.MULTILINE)
    keys = {path: key for paths, key in rows for path in re.findall(r"`(/[^`]*)`", paths)}

    for route in create_app([served]).routes:
        path = route.path  # type: ignore[attr-defined]
        listed = max((name for name in keys if path.startswith(name)), key=len)
        is_public = path in PUBLIC_PATHS or path.startswith(PUBLIC_FOLDER)
        assert (listed != "/") or path == "/", f"{path} is not in SECURITY.md"
        assert keys[listed] == ("no" if is_public else "yes"), path
