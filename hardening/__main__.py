"""``python -m hardening NAME``: run a hardening campaign, print counts and write its records."""

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hardening.campaign_records import RECORDS, add_records, read_records
from hardening.fuzz_target import CAMPAIGNS
from lamatext.cli.main import run_app
from lamatext.errors import ConfigError

EXAMPLE = "Example: python -m hardening readers --only csv --count 1000"
COUNTS = {
    **{"readers": 50_000, "texts": 50_000, "folders": 20_000, "http": 50_000},
    **{"kills": 200, "disk": 10, "server": 1},
}
NO_LIMIT = 1e9
ATTACK_SECONDS = 20.0
SOAK_FACTOR = 30  # the load on many connections lasts so many times longer than an attack
SOAK = "64 connections"


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a campaign."""

    name: str
    seed: int
    count: int
    seconds: float | None
    only: tuple[str, ...]
    out: Path
    engine: str = "auto"
    memory_mb: int = 1024
    jobs: int = 1


def run(  # noqa: PLR0913 - one argument per option of the command
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"One of {', '.join(COUNTS)}, all, or table.")
    ],
    seed: Annotated[int, typer.Option(help="Seed of the inputs or moments.")] = 0,
    count: Annotated[
        int | None,
        typer.Option(help="Inputs per target, kills, or rounds per disk fault or attack."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(help="Time limit per target or campaign; for server, seconds per round."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Run only this target, command, scenario or attack.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Fuzzing engine: atheris, mutation, or auto.")
    ] = "auto",
    memory_mb: Annotated[
        int, typer.Option(help="Memory limit of one fuzz input; 0 for none, as sanitizers need.")
    ] = 1024,
    jobs: Annotated[int, typer.Option(help="Kills at the same time.")] = 1,
    case: Annotated[
        int | None, typer.Option(help="Repeat one case of --only with its traceback.")
    ] = None,
    input_file: Annotated[
        Path | None, typer.Option("--input", help="Run this input with --only, with its traceback.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for NAME.json.")] = RECORDS,
) -> None:
    """Run a hardening campaign against lamatext on this machine and write its records."""
    if name == "table":
        _write_tables(out)
        return
    if name not in (*COUNTS, "all"):
        raise ConfigError(f"unknown campaign {name!r}. Known: {', '.join(COUNTS)}, all, table.")
    if case is not None or input_file is not None:
        _repeat(only or [], seed, case, input_file)
        return
    problems = 0
    for campaign in COUNTS if name == "all" else (name,):
        number = COUNTS[campaign] if count is None else count
        options = Options(
            campaign, seed, number, seconds, tuple(only or ()), out, engine, memory_mb, jobs
        )
        problems += CAMPAIGN_RUNS.get(campaign, run_fuzzing)(options)
    if problems:
        raise typer.Exit(1)


def run_fuzzing(options: Options) -> int:
    """Run the fuzz targets of a campaign; return the number of findings."""
    from hardening.fuzz_driver import is_atheris_installed, run_fuzz_target
    from hardening.fuzz_worker import Job

    guided = options.engine == "atheris" or (options.engine == "auto" and is_atheris_installed())
    findings = 0
    for target in options.only or CAMPAIGNS[options.name]:
        job = Job(target, options.seed, 0, options.count, "", options.memory_mb)
        job.is_coverage_guided = guided
        job.seconds = options.seconds or NO_LIMIT
        result = run_fuzz_target(job, inputs_folder=options.out / "inputs")
        add_records(options.name, [result], options.out)
        findings += result.findings
        print(
            f"{target}: {result.inputs:,} inputs in {result.seconds:.0f} s by {result.engine}: "
            f"{result.accepted:,} accepted, {result.rejected:,} rejected with a named error, "
            f"{result.findings:,} findings"
        )
        for signature, number in sorted(result.signatures.items(), key=lambda pair: -pair[1]):
            print(f"  {number:6,}  {signature}")
    return findings


def run_kills(options: Options) -> int:
    """Run the kill campaign; return the number of problems."""
    from hardening.command_runs import RunSize, Workspace
    from hardening.kill_campaign import COMMANDS, Limits, run_kill_campaign

    earlier = Counter[str]()
    for record in read_records(options.name, options.out):
        earlier.update(record["by_stage"] if record["seed"] != options.seed else {})
    limits = Limits(
        time.monotonic() + (options.seconds or NO_LIMIT),
        options.jobs,
        lambda result: add_records(options.name, [result], options.out),
        earlier,
    )
    commands, problems = options.only or COMMANDS, 0
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder) / "train", RunSize())
        for r in run_kill_campaign(workspace, options.count, options.seed, limits, commands):
            problems += _report(options, [(f"{r.command}: {r.kills} kills", r.problems, r)])
    return problems


def run_disk(options: Options) -> int:
    """Run the disk campaign; return the number of problems."""
    from hardening.command_runs import RunSize, Workspace
    from hardening.disk_campaign import run_disk_campaign

    limit = options.seconds or NO_LIMIT
    size = RunSize(texts=1000, epochs=5)
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder), size)
        results = run_disk_campaign(workspace, options.count, options.seed, limit, options.only)
    lines = [(f"{r.scenario}: {r.skipped or f'{r.rounds} rounds'}", r.problems, r) for r in results]
    return _report(options, lines)


def run_server(options: Options) -> int:
    """Run the attacks on the server; return the number of problems."""
    from hardening.base_models import make_base_models
    from hardening.server_attacks import ATTACKS, measure_soak, run_server_campaign

    seconds, rounds = options.seconds or ATTACK_SECONDS, options.count
    attacks = tuple(name for name in options.only or ATTACKS if name != SOAK)
    if unknown := [name for name in attacks if name not in ATTACKS]:
        raise ConfigError(f"unknown attack {unknown[0]!r}. Known: {', '.join(ATTACKS)}.")
    with tempfile.TemporaryDirectory() as folder:
        models = make_base_models(Path(folder))[:2]
        results = []
        if attacks:
            results = run_server_campaign(models, seconds, options.seed, attacks, rounds)
        if not options.only or SOAK in options.only:
            results.append(measure_soak(models, SOAK_FACTOR * seconds, options.seed))
    lines = [(f"{r.attack}: p99 {r.p99_ms} ms", r.problems, r) for r in results]
    return _report(options, lines)


CAMPAIGN_RUNS: dict[str, Callable[[Options], int]] = {
    "kills": run_kills,
    "disk": run_disk,
    "server": run_server,
}


def _report(options: Options, lines: Sequence[tuple[str, list[str], object]]) -> int:
    add_records(options.name, [result for _, _, result in lines], options.out)
    for line, problems, _ in lines:
        print(f"{line}, {len(problems)} problems")
        for problem in problems:
            print(f"  {problem}")
    return sum(len(problems) for _, problems, _ in lines)


def _repeat(only: list[str], seed: int, case: int | None, input_file: Path | None) -> None:
    from hardening.fuzz_driver import repeat_case

    if len(only) != 1:
        raise ConfigError("--case and --input need the target: --only NAME.")
    is_accepted = repeat_case(only[0], seed, case or 0, input_file)
    print("accepted" if is_accepted else "rejected with a named error")


def _write_tables(folder: Path) -> None:
    from hardening.results_table import PAGE, fill_tables

    PAGE.write_text(fill_tables(PAGE.read_text(encoding="utf-8"), folder), encoding="utf-8")


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command(epilog=EXAMPLE)(run)


def main(arguments: list[str] | None = None) -> int:
    """Run ``python -m hardening`` and return its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    return run_app(app, arguments, prog_name="python -m hardening")


if __name__ == "__main__":
    sys.exit(main())
