"""Batch prediction on Ray: equal to the local engine, and complete after workers and nodes die."""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lamatext.cli.main import run
from lamatext.errors import ConfigError, ProcessError
from lamatext.runtime import prediction_parts, ray_engine
from lamatext.runtime.prediction_parts import read_manifest
from lamatext.runtime.ray_engine import RayActors
from tests.trained_model import trained

needs_ray = pytest.mark.skipif(
    __import__("importlib.util").util.find_spec("ray") is None, reason="needs the extra ray"
)
ROWS, PART = 1200, 50


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained().save(tmp_path_factory.mktemp("model"))


@pytest.fixture
def shards(tmp_path: Path) -> str:
    """Three shards with numbered rows, one of them empty."""
    draw = np.random.default_rng(0)
    words = ("superb", "film", "dull", "story", "moving", "town", "boring")
    texts = [" ".join(draw.choice(words, 6)) for _ in range(ROWS)]
    table = pa.table({"id": np.arange(ROWS), "text": texts})
    pq.write_table(table[:500], tmp_path / "in-0.parquet")
    pq.write_table(table[:0], tmp_path / "in-1.parquet")
    pq.write_table(table[500:], tmp_path / "in-2.parquet")
    return str(tmp_path / "in-*.parquet")


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction_parts, "PART_ROWS", PART)


def check_complete(out: Path) -> None:
    """Check that every row came out exactly once, and that the manifest counts them."""
    ids = pq.read_table(sorted(out.glob("part-*.parquet"))).column("id").to_pylist()
    manifest = read_manifest(out)

    assert sorted(map(int, ids)) == list(range(ROWS))
    assert manifest["rows"] == ROWS == sum(part["rows"] for part in manifest["parts"])
    assert len(manifest["model"]["hash"]) == 64


@pytest.mark.usefixtures("small_parts")
def test_the_local_engine_reads_a_pattern_of_files(
    model: Path, shards: str, tmp_path: Path
) -> None:
    code = run(["predict", str(model), shards, "--out", f"{tmp_path / 'out'}/", "--quiet"])

    assert code == 0
    check_complete(tmp_path / "out")
    assert [f["name"] for f in read_manifest(tmp_path / "out")["input_files"]][1] == "in-1.parquet"


class SlowWorker(ray_engine.PartWorker):
    """Worker that leaves time to kill it, and says where it runs."""

    def predict(self, *arguments: Any) -> pa.Table:
        time.sleep(0.15)
        return super().predict(*arguments)

    def place(self) -> tuple[str, int]:
        import ray

        return ray.get_runtime_context().get_node_id(), os.getpid()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A Ray cluster of two nodes on this machine; the second one is ``cluster.extra``."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setattr(ray_engine, "PartWorker", SlowWorker)
    from ray.cluster_utils import Cluster

    made: Any = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    made.extra = made.add_node(num_cpus=1)
    made.wait_for_nodes()
    yield made
    made.shutdown()


@needs_ray
@pytest.mark.slow
@pytest.mark.usefixtures("small_parts")
def test_every_row_comes_out_once_if_a_worker_and_then_a_node_are_killed(
    model: Path, shards: str, tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, killed, lost = tmp_path / "out", list[str](), list[int]()
    collect, replace_actor = RayActors._collect, RayActors._replace_actor

    def killing_collect(self: RayActors) -> Iterator[Any]:
        parts = len(list((tmp_path / "out.partial").glob("part-*.parquet")))
        if parts >= 3 and not killed and len(self.ready) == 2:
            killed.append("worker")
            os.kill(self.ray.get(self.ready[0].place.remote())[1], signal.SIGKILL)
        if parts >= 10 and killed == ["worker"]:
            killed.append("node")
            threading.Thread(target=cluster.remove_node, args=(cluster.extra, False)).start()
        yield from collect(self)

    def counting_replace(self: RayActors, task: Any) -> None:
        lost.append(task.number)
        replace_actor(self, task)

    monkeypatch.setattr(RayActors, "_collect", killing_collect)
    monkeypatch.setattr(RayActors, "_replace_actor", counting_replace)

    code = run(["predict", str(model), shards, "--out", str(out), "--engine", "ray",
                "--address", cluster.address, "--quiet"])  # fmt: skip

    assert code == 0
    assert killed == ["worker", "node"]
    assert lost
    check_complete(out)


@needs_ray
@pytest.mark.slow
@pytest.mark.usefixtures("small_parts")
def test_an_interrupted_job_continues_and_its_parts_are_those_of_the_local_engine(
    model: Path,
    shards: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    local, out = tmp_path / "local", tmp_path / "out"
    command = ["predict", str(model), shards, "--proba"]
    on_ray = [*command, "--out", str(out), "--engine", "ray"]
    collect = RayActors._collect

    def stopping_collect(self: RayActors) -> Iterator[Any]:
        if len(list((tmp_path / "out.partial").glob("part-*.parquet"))) >= 5:
            raise ProcessError("stopped")
        yield from collect(self)

    with monkeypatch.context() as patch:
        patch.setattr(RayActors, "_collect", stopping_collect)
        assert run(on_ray) == 2
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("out.partial/part-*")}
    assert run(on_ray) == 0
    capsys.readouterr()
    assert run(on_ray) == 0
    assert "already complete" in capsys.readouterr().err
    assert run([*command, "--out", f"{local}/"]) == 0

    check_complete(out)
    assert len(before) >= 5
    assert all((out / path.name).stat().st_mtime_ns == time for path, time in before.items())
    for path in sorted(local.glob("part-*.parquet")):
        assert pq.read_table(path).equals(pq.read_table(out / path.name)), path.name


@needs_ray
def test_an_address_without_answer_is_named(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, "CONNECT_SECONDS", 1.0)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

        with pytest.raises(ConfigError, match=rf"127.0.0.1:{port}: no answer within 1 s"):
            ray_engine.ray_engine(model, ("text",), {}, address=f"127.0.0.1:{port}")


@needs_ray
def test_an_address_without_a_port_is_named(model: Path) -> None:
    with pytest.raises(ConfigError, match=r"--address cluster: expected HOST:PORT"):
        ray_engine.ray_engine(model, ("text",), {}, address="cluster")


def test_a_missing_ray_is_named_with_its_pip_command(
    model: Path,
    shards: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)

    code = run(["predict", str(model), shards, "--out", str(tmp_path / "out"), "--engine", "ray"])

    assert code == 2
    assert "pip install 'lamatext[ray]'" in capsys.readouterr().err


OPTIONS = {
    "stdin": (["-", "--engine", "ray", "--out", "x"], "needs a file as INPUT and --out"),
    "no output": (["in.csv", "--engine", "ray"], "needs a file as INPUT and --out"),
    "unknown": (["in.csv", "--engine", "spark"], "--engine spark: unknown"),
    "address": (["in.csv", "--address", "auto"], "--address needs --engine ray"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_that_do_not_fit_together_are_named(
    model: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    arguments, message = OPTIONS[name]

    assert run(["predict", str(model), *arguments]) == 2
    assert message in capsys.readouterr().err
