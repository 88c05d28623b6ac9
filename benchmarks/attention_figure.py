"""Draw how attention grows: ``python -m benchmarks.attention_figure results/bench-….json``.

Beside each file of records, ``figures/NAME.png`` and ``.svg``: time and memory over words.
"""

import json
import sys
from pathlib import Path
from typing import Any

NAMES = {
    "LAMA": "LAMA (ours)",
    "LAMA, eager": "LAMA, eager PyTorch",
    "LAMA, as written": "LAMA, as the paper writes it",
    "SDPA": "dot-product (SDPA)",
}
COLOURS = {
    "LAMA": "#0b6e4f",
    "LAMA, eager": "#8fb996",
    "LAMA, as written": "#8a8a8a",
    "SDPA": "#c8553d",
}


def draw(records: Path) -> list[Path]:
    """Two log-log panels from the curves that the records of the slopes carry."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    found = json.loads(records.read_text(encoding="utf-8"))
    curves = [(record, record["details"]) for record in found if "words" in record["details"]]
    page = Figure(figsize=(9, 3.8), layout="constrained")
    FigureCanvasAgg(page)
    times, memory = page.subplots(1, 2)
    for record, curve in curves:
        name, colour = NAMES[curve["layer"]], COLOURS[curve["layer"]]
        label = f"{name}, slope {record['value']:.2f}"
        milliseconds = [1e3 * seconds for seconds in curve["seconds"]]
        times.loglog(curve["words"], milliseconds, "o-", color=colour, label=label, markersize=4)
        megabytes = [count / 1e6 for count in curve["bytes"]]
        memory.loglog(curve["words"], megabytes, "o-", color=colour, label=name, markersize=4)
    _finish(times, "ms for one text", f"Time, {curves[0][0]['device']}")
    _finish(memory, "MB beside the states", "Peak memory")
    folder = records.parent / "figures"
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{records.stem}{ending}" for ending in (".png", ".svg")]
    for path in paths:
        page.savefig(path, dpi=150)
    return paths


def _finish(panel: Any, unit: str, title: str) -> None:
    panel.set_xlabel("words of the text")
    panel.set_ylabel(unit)
    panel.set_title(title, fontsize=10)
    panel.grid(visible=True, which="major", alpha=0.3)
    panel.legend(fontsize=8, frameon=False)


if __name__ == "__main__":  # pragma: no cover
    for name in sys.argv[1:]:
        print(*draw(Path(name)), sep="\n")
