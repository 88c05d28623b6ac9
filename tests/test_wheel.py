"""The installed wheel works without the repository, with and without the training libraries."""

import os
import shutil
import subprocess
import sys
import urllib.request
import venv
import zipfile
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.corpora import write_csv

ROOT = Path(__file__).parents[1]
MODEL = Path(__file__).parent / "fixtures" / "format-1"
HEAVY = ("torch", "sklearn", "scipy", "gensim", "numba", "matplotlib", "onnx", "pandas")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build from a copy, so that the repository is not changed."""
    copy = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    leave = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", copy / "src", ignore=leave)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", "dist", "."], cwd=copy, check=True)
    return next((copy / "dist").glob("*.whl"))


def core_distributions(wheel: Path) -> set[str]:
    """Return the names of all distributions that installing the wheel without extras installs."""
    metadata = zipfile.Path(wheel, "-".join(wheel.name.split("-")[:2]) + ".dist-info/")
    pending: list[Distribution] = [PathDistribution(metadata)]
    names: set[str] = set()
    while pending:
        for line in pending.pop().requires or []:
            required = Requirement(line)
            if required.marker is not None and not required.marker.evaluate({"extra": ""}):
                continue
            if required.name not in names:
                names.add(required.name)
                pending.append(distribution(required.name))
    return names


@pytest.fixture(scope="module")
def light(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the command in an environment with the wheel and only the core dependencies."""
    folder = tmp_path_factory.mktemp("light")
    venv.create(folder, with_pip=False, symlinks=True)
    site = next(folder.glob("lib/python*/site-packages"))
    for name in core_distributions(wheel):
        _link(name, site)
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(site),
    ]
    subprocess.run([*install, str(wheel)], check=True)
    command = folder / "bin" / "lamatext"
    command.write_text(
        f"#!{folder}/bin/python\nfrom lamatext.cli.main import main\nmain()\n", encoding="utf-8"
    )
    command.chmod(0o755)
    return command


def _link(name: str, site: Path) -> None:
    """Link everything that a distribution installed into another site-packages folder."""
    installed = distribution(name)
    tops = {path.parts[0] for path in installed.files or [] if path.parts[0] not in ("..", ".")}
    for top in tops - {"__pycache__"}:
        if not (site / top).exists():
            (site / top).symlink_to(Path(str(installed.locate_file(top))))


def call(command: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [command, *arguments], cwd=cwd, env=outside(), capture_output=True, text=True, check=False
    )


def outside() -> dict[str, str]:
    """Return the environment variables without those of this Python."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL"))}


def test_the_wheel_contains_every_file_of_the_package(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    outside = {"__pycache__", "lamatext.egg-info"}

    for path in (ROOT / "src" / "lamatext").rglob("*"):
        if path.is_file() and not outside & set(path.parts):
            assert path.relative_to(ROOT / "src").as_posix() in names


def test_the_light_environment_has_no_training_libraries(light: Path, tmp_path: Path) -> None:
    code = f"import importlib.util as u; print([n for n in {HEAVY!r} if u.find_spec(n)])"

    done = call(light.with_name("python"), "-c", code, cwd=tmp_path)

    assert done.stdout.strip() == "[]"


VERBS: dict[str, tuple[str, ...]] = {
    "predict": ("--text", "a superb film"),
    "explain": ("--text", "a superb film"),
    "evaluate": ("reviews.csv",),
    "info": (),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_command_runs_without_the_training_libraries(
    verb: str, light: Path, tmp_path: Path
) -> None:
    (tmp_path / "reviews.csv").write_text("text,label\na superb film,pos\na dull film,neg\n")

    done = call(light, verb, str(MODEL), *VERBS[verb], cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_datasets_and_version_are_shown(light: Path, tmp_path: Path) -> None:
    assert "rotten-tomatoes" in call(light, "data", cwd=tmp_path).stdout
    assert call(light, "--version", cwd=tmp_path).stdout.startswith("lamatext ")


def test_training_without_its_libraries_names_the_pip_command(light: Path, tmp_path: Path) -> None:
    (tmp_path / "reviews.csv").write_text("text,label\na superb film,pos\na dull film,neg\n")

    done = call(light, "train", "reviews.csv", "--out", "run", cwd=tmp_path)

    assert done.returncode == 2
    assert "pip install 'lamatext[train]'" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def full(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the command of the wheel, with the training libraries of this environment."""
    folder = tmp_path_factory.mktemp("full")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", "there"]
    subprocess.run([*install, str(wheel)], cwd=folder, check=True)
    command = folder / "lamatext"
    first = f"import sys; sys.path.insert(0, {str(folder / 'there')!r}); import lamatext"
    check = f"assert lamatext.__file__.startswith({str(folder)!r}), lamatext.__file__"
    last = "from lamatext.cli.main import main; main()"
    command.write_text(f"#!{sys.executable}\n{first}\n{check}\n{last}\n", encoding="utf-8")
    command.chmod(0o755)
    return command


FULL_VERBS: dict[str, tuple[tuple[str, ...], str]] = {
    "train": (
        ("train", "reviews.csv", "--out", "run", "--set", "training.epochs=1"),
        "run/model.safetensors",
    ),
    "report": (("report", "model", "reviews.csv", "--out", "report.html"), "report.html"),
    "export": (("export", "model", "--out", "folder"), "folder/model.onnx"),
    "export --web": (("export", "model", "--web", "web.html"), "web.html"),
}


@pytest.mark.parametrize("verb", FULL_VERBS)
def test_a_command_runs_with_the_training_libraries(verb: str, full: Path, tmp_path: Path) -> None:
    arguments, written = FULL_VERBS[verb]
    shutil.copytree(MODEL, tmp_path / "model")
    write_csv(tmp_path / "reviews.csv", 60)

    done = call(full, *arguments, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert (tmp_path / written).exists()


def test_the_server_runs_from_the_wheel(full: Path, tmp_path: Path) -> None:
    server = subprocess.Popen(
        [full, "serve", str(MODEL), "--port", "0", "--drain", "0"],
        cwd=tmp_path,
        env=outside(),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stderr is not None
        address = server.stderr.readline().split()[-1]
        assert address.startswith("http://127.0.0.1:")
        for path, inside in (("/healthz", "{"), ("/", "<html")):
            with urllib.request.urlopen(address + path, timeout=20) as answer:
                assert inside in answer.read().decode()
    finally:
        server.terminate()
        server.communicate(timeout=20)

    assert server.returncode == 0
