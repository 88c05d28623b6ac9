"""The report as one self-contained page: no script, no request, one style that its policy names."""

from pathlib import Path
from string import Template

from lamatext import __version__
from lamatext.errors import DataError
from lamatext.explain.embed import asset, policy_hash
from lamatext.explain.html import style
from lamatext.files import write_text
from lamatext.held_out import HeldOut
from lamatext.progress import SILENT, Progress
from lamatext.report import confused, reasoned, scored
from lamatext.report.gather import Findings, gather
from lamatext.report.markup import Html, html, join, many, tag
from lamatext.store import add_metrics

SECTIONS = (
    ("data", "Data", scored.data),
    ("rivals", "Rivals", scored.rivals),
    ("curves", "Learning", scored.curves),
    ("confusion", "Confusion", confused.confusion),
    ("classes", "Classes", scored.classes),
    ("calibration", "Calibration", scored.calibration),
    ("words", "Words", reasoned.words),
    ("mistakes", "Mistakes", reasoned.mistakes),
    ("reasons", "Reasons", reasoned.reasons),
    ("cost", "Size", reasoned.cost),
    ("use", "Use", reasoned.use),
)


def write_report(
    folder: Path,
    held: HeldOut,
    out: Path,
    *,
    seed: int = 0,
    progress: Progress = SILENT,
) -> Findings:
    """Write the page to ``out``, and keep with the model how far its reasons hold."""
    found = gather(folder, held, seed=seed, progress=progress)
    progress.stage("writing the page")
    write_text(out, report_page(found))
    try:
        add_metrics(folder, {"faithfulness": found.faithfulness.as_dict()})
    except DataError as error:  # a folder that others own: the page is written all the same
        progress.note(f"how far the reasons hold is not kept with the model: {error}")
    return found


def report_page(found: Findings) -> str:
    """The whole page."""
    css = "\n".join([style(), asset("lamatext.report", "report.css"), confused.open_cells(found)])
    css = f"\n{css}\n"
    source = found.held.texts.source
    return Template(asset("lamatext.report", "report.html")).substitute(
        hash=policy_hash(css),
        style=css,
        title=html(f"Report: {source}"),
        heading=tag("bdi", source),
        subtitle=join([_subtitle(found)]),
        contents=join(tag("a", short, href=f"#{anchor}") for anchor, short, _ in SECTIONS),
        headline=scored.headline(found),
        sections=join(write(found) for _, _, write in SECTIONS),
        footer=_footer(found),
    )


def _subtitle(found: Findings) -> str:
    recipe = found.config["recipe"]
    beside = " and n-grams" if "n-grams" in found.config.get("parameters", {}) else ""
    classes = many(len(found.labels), "class", "classes")
    return f"A {recipe['model']['name']} model{beside}, {classes}, scored on {found.held.about}."


def _footer(found: Findings) -> Html:
    versions = found.config.get("versions", {})
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    data = found.config.get("data", {})
    lines = [
        f"Made by lamatext {__version__}. The page holds all it shows: no request leaves it.",
        f"Trained with {told}; seed {found.config['recipe']['seed']}; training texts "
        f"{data.get('fingerprint', 'unknown')}.",
    ]
    return join(tag("p", line) for line in lines)
