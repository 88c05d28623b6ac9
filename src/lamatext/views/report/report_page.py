"""The report as one self-contained page: no script, no request, one style that its policy names."""

from pathlib import Path
from string import Template

from lamatext import __version__
from lamatext.atomic_write import write_text
from lamatext.errors import DataError
from lamatext.evaluation import EvaluationData
from lamatext.progress import SILENT, Progress
from lamatext.saved.model_io import add_metrics
from lamatext.views.explanation_page import style
from lamatext.views.html_assets import asset, policy_hash
from lamatext.views.markup import Html, html, join, many, tag
from lamatext.views.report import confusion, reason_sections, score_sections
from lamatext.views.report.collect import Findings, gather

SECTIONS = (
    ("data", "Data", score_sections.data),
    ("baselines", "Baselines", score_sections.baselines),
    ("curves", "Learning", score_sections.curves),
    ("confusion", "Confusion", confusion.confusion),
    ("classes", "Classes", score_sections.classes),
    ("calibration", "Calibration", score_sections.calibration),
    ("words", "Words", reason_sections.words),
    ("mistakes", "Mistakes", reason_sections.mistakes),
    ("reasons", "Reasons", reason_sections.reasons),
    ("cost", "Size", reason_sections.cost),
    ("use", "Use", reason_sections.use),
)


def write_report(
    folder: Path,
    held: EvaluationData,
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
    css = "\n".join(
        [style(), asset("lamatext.views.report", "report.css"), confusion.open_cells(found)]
    )
    css = f"\n{css}\n"
    source = found.held.texts.source
    return Template(asset("lamatext.views.report", "report.html")).substitute(
        hash=policy_hash(css),
        style=css,
        title=html(f"Report: {source}"),
        heading=tag("bdi", source),
        subtitle=join([_subtitle(found)]),
        contents=join(tag("a", short, href=f"#{anchor}") for anchor, short, _ in SECTIONS),
        headline=score_sections.headline(found),
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
