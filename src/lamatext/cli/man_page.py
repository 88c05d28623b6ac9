"""Help of the commands as manual pages: name, synopsis, description, options and examples."""

import inspect
import shutil
import textwrap
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

MAX_WIDTH, INDENT = 84, 4
METAVARS = {  # by the last word of an option's name
    "html": "FILE", "report": "FILE", "web": "FILE", "out": "FILE", "onnx": "FILE",
    "drain": "SECONDS", "timeout": "SECONDS", "precision": "SHARE", "baselines": "NAMES",
    "vectors": "NAME", "weights": "FORMAT", "seed": "N", "devices": "N",
}  # fmt: skip
OPTIONS = "options"  # the section of options that belong to no other section


class ManPageCommand(TyperCommand):
    """A Typer command whose ``--help`` is formatted as a manual page."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the manual page of the command."""
        formatter.write(_page(ctx, self, _parameter_sections(self.get_params(ctx))))


class ManPageGroup(TyperGroup):
    """A Typer program with several commands whose ``--help`` is formatted as a manual page."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the manual page of the program, with one line per command."""
        names = self.list_commands(ctx)
        commands = [(name, self.get_command(ctx, name)) for name in names]
        lines = [f"{name:10}{_first_sentence(command)}" for name, command in commands]
        sections = [("commands", "\n".join(_wrap(line, hanging=10) for line in lines))]
        sections += _parameter_sections(self.get_params(ctx))
        formatter.write(_page(ctx, self, sections))


def _page(ctx: Any, command: Any, sections: Sequence[tuple[str, str]]) -> str:
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    summary = " ".join(paragraphs[0].split())
    name = _wrap(f"{ctx.command_path} - {summary[0].lower()}{summary[1:].rstrip('.')}")
    pieces = ["" if one == "[OPTIONS]" else one for one in command.collect_usage_pieces(ctx)]
    required = [_describe(one)[0] for one in command.get_params(ctx) if _is_required_option(one)]
    arguments = [one.replace("{", "").replace("}", "") for one in pieces if one]
    usage = " ".join([ctx.command_path, *arguments, *required, "[OPTION]..."])
    description = "\n\n".join(_wrap(" ".join(one.split())) for one in paragraphs[1:])
    examples = "\n".join(" " * INDENT + line for line in (command.epilog or "").splitlines())
    parts = [
        ("name", name),
        ("synopsis", _wrap(usage, hanging=INDENT)),
        ("description", description),
        *sections,
        ("examples", examples),
    ]
    return "\n\n".join(f"{_bold(title.upper())}\n{body}" for title, body in parts if body) + "\n"


def _parameter_sections(parameters: Sequence[Any]) -> list[tuple[str, str]]:
    sections: dict[str, list[str]] = {}
    for parameter in parameters:
        is_option = parameter.param_type_name == "option"
        panel = getattr(parameter, "rich_help_panel", None) or OPTIONS
        names, meaning = _describe(parameter)
        entry = f"{' ' * INDENT}{_bold(names)}\n{_wrap(meaning, indent=2 * INDENT)}"
        sections.setdefault(panel if is_option else "arguments", []).append(entry)
    order = sorted(sections, key=lambda title: (title != "arguments", title != OPTIONS))
    return [(title, "\n".join(sections[title])) for title in order]


def _describe(parameter: Any) -> tuple[str, str]:
    """Return the names and the description of an option for the manual page."""
    meaning = " ".join((parameter.help or "").split())
    if parameter.param_type_name == "argument":
        return parameter.metavar or parameter.name.upper(), meaning
    names = ", ".join([*sorted(parameter.opts, key=len), *parameter.secondary_opts])
    default = parameter.default
    if parameter.is_flag:
        state = f" [default: {'on' if default else 'off'}]" if parameter.secondary_opts else ""
        return names, f"{meaning}{state}"
    if default is not None and not callable(default) and "[default:" not in meaning:
        meaning = f"{meaning} [default: {default}]"
    return f"{names} {_metavar(parameter)}{' ...' if parameter.multiple else ''}", meaning


def _is_required_option(parameter: Any) -> bool:
    return parameter.param_type_name == "option" and bool(parameter.required)


def _metavar(parameter: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    last_word = max(parameter.opts, key=len).strip("-").rpartition("-")[2]
    is_number = isinstance(parameter.default, int)
    return METAVARS.get(last_word, "N" if is_number else last_word.upper())


def _first_sentence(command: Any) -> str:
    return " ".join(inspect.cleandoc(command.help or "").split("\n\n")[0].split())


def _wrap(text: str, *, indent: int = INDENT, hanging: int = 0) -> str:
    width = min(shutil.get_terminal_size().columns, MAX_WIDTH)
    margin = " " * indent
    filled = textwrap.fill(
        text.replace(" %", "\u00a0%"),  # not at the beginning of a line
        width,
        initial_indent=margin,
        subsequent_indent=margin + " " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return filled.replace("\u00a0", " ")


def _bold(text: str) -> str:
    return typer.style(text, bold=True)
