"""Report page: the whole report as one self-contained HTML file without scripts and requests."""

from datetime import datetime
from pathlib import Path

from markupsafe import Markup

from lamatext import __version__
from lamatext.atomic_write import write_text
from lamatext.data.read_options import source_title
from lamatext.views.explanation_page import style
from lamatext.views.formatting import day, share, signed
from lamatext.views.html_assets import asset, policy_hash
from lamatext.views.html_templates import render_template
from lamatext.views.report import sections
from lamatext.views.report.collect import Findings
from lamatext.views.report.confusion import confusion_section, open_cell_style


def write_report(findings: Findings, out: Path, *, title: str | None = None) -> None:
    """Write the HTML report page to the file ``out``."""
    write_text(out, report_page(findings, title=title))


def report_page(findings: Findings, *, title: str | None = None) -> str:
    """Return the HTML of the complete report page; the title defaults to the data source.

    The page's Content-Security-Policy allows its own style sheet and nothing else.
    """
    saved = findings.config.get("saved")
    css = f"\n{style()}\n{asset('report/report.css')}\n{open_cell_style(findings)}\n"
    style_element = Markup(css)  # nosec B704 # files of the package and numbered selectors
    return render_template(
        "report/report.html",
        findings=findings,
        title=title or source_title(findings.scored.source),
        saved_on=day(datetime.fromisoformat(saved)) if saved else "",
        version=__version__,
        style=style_element,
        style_hash=policy_hash(css),
        share_format=share,
        signed_format=signed,
        headline=sections.headline(findings),
        data=sections.data_section(findings),
        baselines=sections.baselines_section(findings),
        learning=sections.learning_section(findings),
        confusion=confusion_section(findings),
        classes=sections.classes_section(findings),
        calibration=sections.calibration_section(findings),
        mistakes=sections.mistakes_section(findings),
        faithfulness=sections.faithfulness_section(findings),
        size=sections.size_section(findings),
        usage=sections.usage_section(findings),
    )
