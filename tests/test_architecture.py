"""Imports only go down, and the light core stays light."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "lamatext"

LAYERS = (
    {"errors", "progress", "files", "provenance"},
    {"settings"},
    {"config"},
    {"data"},
    {"folder"},
    {"nn", "kernels"},
    {"explain"},
    {"runtime"},
    {"training"},
    {"card", "store", "baselines"},
    {"classifier", "runs"},
    {"jobs", "held_out"},
    {"report"},
    {"bench", "reproduce", "serve"},
    {"cli"},
    {"__main__"},
)
"""Every part imports from its own layer and from those above it in this list."""

BETWEEN = {("runtime.predictor", "store")}
"""Said by a function when it is called: the façade of loading belongs to what is loaded."""

HEAVY = ("torch", "sklearn", "scipy", "gensim", "numba", "matplotlib", "transformers", "onnx")


def part_of(module: str) -> str:
    return module.split(".")[0]


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(SRC.rglob("*.py")):
        name = ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")
        if name != "__init__":
            yield name, path


def imports_of(path: Path) -> Iterator[str]:
    """The parts of lamatext that a file imports, at its top or in a function, for types or not."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lamatext"):
            assert node.level == 0
            below = (node.module or "").removeprefix("lamatext").strip(".")
            yield from [below] if below else [a.name for a in node.names if a.name[0] != "_"]
        elif isinstance(node, ast.Import):
            yield from (
                alias.name.removeprefix("lamatext.")
                for alias in node.names
                if alias.name.startswith("lamatext.")
            )


def test_every_part_has_its_layer() -> None:
    parts = {part_of(name) for name, _ in modules()} - {"recipes"}

    assert parts == set().union(*LAYERS)


@pytest.mark.parametrize(("name", "path"), list(modules()), ids=[name for name, _ in modules()])
def test_imports_only_go_down(name: str, path: Path) -> None:
    depth = {part: number for number, layer in enumerate(LAYERS) for part in layer}

    for imported in imports_of(path):
        if (name, part_of(imported)) in BETWEEN:
            continue
        assert depth.get(part_of(imported), 0) <= depth.get(part_of(name), 0), (
            f"{name} must not import {imported}"
        )


def loaded_by(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has after running ``code``."""
    ending = "import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{ending}"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("code", ["import lamatext", "import lamatext.cli.main"])
def test_importing_is_light(code: str) -> None:
    loaded = loaded_by(code)

    assert not loaded & {*HEAVY, "pyarrow", "onnxruntime", "pydantic"}


def test_predicting_loads_nothing_of_the_training_stack() -> None:
    folder = Path(__file__).parent / "fixtures" / "format-1"

    loaded = loaded_by(
        "from lamatext import Predictor\n"
        f"model = Predictor.load({str(folder)!r})\n"
        "model.predict(['a film']); model.transform(['a film']); model.explain('a film')\n"
    )

    assert not loaded & set(HEAVY)


@pytest.mark.parametrize("verb", ["predict", "explain", "info", "evaluate"])
def test_a_verb_that_only_reads_a_model_is_light(verb: str, tmp_path: Path) -> None:
    folder = str(Path(__file__).parent / "fixtures" / "format-1")
    (tmp_path / "a.csv").write_text("text,label\na film,pos\na bore,neg\n")
    more = {
        "predict": ["--text", "a film"],
        "explain": ["--text", "a film"],
        "info": [],
        "evaluate": [str(tmp_path / "a.csv")],
    }

    loaded = loaded_by(
        f"from lamatext.cli.main import run\nassert run({[verb, folder, *more[verb]]!r}) == 0\n"
    )

    assert not loaded & set(HEAVY)
