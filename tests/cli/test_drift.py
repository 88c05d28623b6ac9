"""``lamatext drift``: new texts compared with the validation texts of a model."""

import json
import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import Command
from tests.corpora import reviews
from tests.serve.saved import save, validation_facts

FORMAT_1 = str(Path(__file__).parents[1] / "fixtures" / "format-1")


def test_the_command_prints_a_table_and_json(lamatext: Command) -> None:
    Path("same.csv").write_text("text\n" + "\n".join(reviews(150, seed=8)[0]) + "\n")
    Path("other.csv").write_text("text\n" + "zonk quux blarg\n" * 100)

    same = lamatext("drift", "model", "same.csv", "--json")
    other = lamatext("drift", "model", "other.csv", "--json")
    shown = lamatext("drift", "model", "other.csv")

    assert same.status == 0, same.err
    assert json.loads(other.out)["unknown_words"]["new"] == 1.0
    assert json.loads(other.out)["outliers"]["has_changed"]
    assert json.loads(same.out)["unknown_words"]["new"] < 0.5
    assert "outliers" in shown.out
    assert "100.0 %" in shown.out
    assert "shares changed more than chance explains" in shown.out
    assert "and on comparing 4 shares at once." in " ".join(shown.out.split())
    assert "--outlier" in shown.err


def test_the_command_reads_lines_from_stdin(lamatext: Command) -> None:
    answer = lamatext("drift", "model", "-", "--json", stdin="a film\nzonk quux\n")

    assert json.loads(answer.out)["texts"] == 2


def test_the_command_names_a_model_without_statistics(lamatext: Command) -> None:
    answer = lamatext("drift", FORMAT_1, "reviews.csv")

    assert answer.status == 2
    assert "no statistics of its validation texts" in answer.err


def test_the_command_needs_neither_torch_nor_scikit_learn(tmp_path: Path) -> None:
    model = save(tmp_path / "model", ngrams=True, facts=validation_facts(0.5))
    (tmp_path / "new.csv").write_text("text\na good film\nquux\n")
    code = (
        "import sys\nfor name in ('torch', 'sklearn', 'scipy'): sys.modules[name] = None\n"
        f"from lamatext.cli.main import run\n"
        f"sys.exit(run(['drift', {str(model)!r}, {str(tmp_path / 'new.csv')!r}, '--json']))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["texts"] == 2
