"""Imports between the parts of the package only go down, and the light core stays light."""

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lamatext.runtime.compiled_network import compiled_library

SRC = Path(__file__).parents[1] / "src" / "lamatext"

LAYERS = (
    {
        "errors",
        "progress",
        "settings",
        "metrics",
        "probabilities",
        "label_thresholds",
        "outliers",
        "atomic_write",
    },
    {"recipes", "data"},
    {"kernels", "ngrams"},
    {"nn", "explain"},
    {"saved"},
    {"training", "runtime"},
    {
        "classifier",
        "baselines",
        "comparison",
        "continuation",
        "fold_classes",
        "input_drift",
        "suspect_labels",
        "trials",
        "views",
    },
    {"pipeline", "evaluation", "contestants", "tuning"},
    {"serve"},
    {"cli", "__main__"},
)
"""The parts of the package from low to high: each imports from its own layer and lower ones."""

STRANGERS = [("training", "runtime"), ("runtime", "training"), ("baselines", "classifier")]
"""Parts of one layer that must not import each other: they share only the saved format."""

EXCEPTIONS = {
    ("explain.explanation", "views"),
    ("runtime.predictor", "views"),
    ("classifier", "views"),
}
"""A notebook asks these for their HTML and progress bars, which only ``views`` writes."""

MAX_LEVELS = 10

HEAVY = ("torch", "sklearn", "scipy", "gensim", "numba", "matplotlib", "transformers", "onnx")


def part_of(module: str) -> str:
    return module.split(".")[0]


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(SRC.rglob("*.py")):
        name = ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")
        if name != "__init__":
            yield name, path


def imports_of(path: Path) -> Iterator[str]:
    """Yield the lamatext modules that a file imports, also in functions and for type checking."""
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


def basenames() -> dict[str, list[str]]:
    """Return the modules by basename; a command and its library module may share one."""
    modules_by_name: dict[str, list[str]] = {}
    for name, path in modules():
        if path.stem not in ("__init__", "__main__") and part_of(name) != "cli":
            modules_by_name.setdefault(path.stem, []).append(name)
    return modules_by_name


def test_every_part_of_the_package_has_a_layer() -> None:
    parts = {part_of(name) for name, _ in modules()}

    assert parts == set().union(*LAYERS)
    assert len(LAYERS) <= MAX_LEVELS


@pytest.mark.parametrize(("name", "path"), list(modules()), ids=[name for name, _ in modules()])
def test_imports_only_go_down(name: str, path: Path) -> None:
    depth = {part: number for number, layer in enumerate(LAYERS) for part in layer}

    for imported in map(part_of, imports_of(path)):
        if (name, imported) in EXCEPTIONS:
            continue
        assert depth[imported] <= depth[part_of(name)], f"{name} must not import {imported}"
        assert (part_of(name), imported) not in STRANGERS, f"{name} must not import {imported}"


def test_the_longest_chain_of_imports_between_parts_has_at_most_ten_levels() -> None:
    imported_by: dict[str, set[str]] = {}
    for name, path in modules():
        if name == "__main__":  # only starts cli
            continue
        parts = {part_of(i) for i in imports_of(path) if (name, part_of(i)) not in EXCEPTIONS}
        imported_by.setdefault(part_of(name), set()).update(parts - {part_of(name)})
    order = graphlib.TopologicalSorter(imported_by).static_order()  # raises CycleError on a cycle

    level: dict[str, int] = {}
    for part in order:
        level[part] = 1 + max((level[below] for below in imported_by.get(part, ())), default=0)

    assert max(level.values()) <= MAX_LEVELS, level


@pytest.mark.parametrize("name", sorted(basenames()))
def test_no_two_modules_share_a_basename(name: str) -> None:
    assert len(basenames()[name]) == 1, basenames()[name]


def loaded_by(code: str) -> set[str]:
    """Return the top-level modules that a new interpreter has loaded after running ``code``."""
    ending = "import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{ending}"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("code", ["import lamatext", "import lamatext.cli.main"])
def test_importing_lamatext_loads_no_heavy_library(code: str) -> None:
    loaded = loaded_by(code)

    assert not loaded & {*HEAVY, "pyarrow", "onnxruntime", "pydantic"}


def test_predicting_loads_no_library_of_the_training_extra() -> None:
    folder = Path(__file__).parent / "fixtures" / "format-1"

    loaded = loaded_by(
        "from lamatext import Predictor\n"
        f"model = Predictor.load({str(folder)!r})\n"
        "model.predict(['a film']); model.transform(['a film']); model.explain('a film')\n"
    )

    assert not loaded & set(HEAVY)
    assert compiled_library() is None or "onnxruntime" not in loaded


@pytest.mark.parametrize("verb", ["predict", "explain", "info", "evaluate"])
def test_commands_that_only_read_a_model_load_no_heavy_library(verb: str, tmp_path: Path) -> None:
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
