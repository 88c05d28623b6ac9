"""User errors on the command line and the message that each one gets."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Command

CSV = "text,label\n"
TWO = CSV + "".join(f"a good film {w},pos\na bad film {w},neg\n" for w in "abcdefghijklmno")

FILES: dict[str, str | bytes] = {
    "two.csv": TWO,
    "empty.csv": "",
    "header.csv": CSV,
    "labels.csv": "label\npos\nneg\n",
    "one-class.csv": CSV + "".join(f"a film {w},pos\n" for w in "abcdefghijklmnopqrst"),
    "own-labels.csv": CSV + "".join(f"a film {w},id-{w}\n" for w in "abcdefghijklmno"),
    "blank.csv": CSV + ",pos\n ,neg\n" * 15,
    "few.csv": CSV + "a,x\nb,y\nc,x\nd,y\n",
    "latin.csv": "text,label\né film,pos\n".encode() + b"caf\xe9,neg\n",
    "utf16.csv": TWO.encode("utf-16")[:-1],
    "ragged.csv": CSV + "a,b,c\n",
    "quote.csv": CSV + '"a, b",x\n"b,y\n',
    "no-label.csv": "text,length\n" + "a film,3\n" * 30,
    "odd.csv": "a,b,c\n1,2,3\n",
    "missing-label.csv": CSV + "a film,pos\nb film,\n",
    "unseen.csv": CSV + "a film,meh\n" * 5,
    "late-unseen.csv": CSV + "a film,neg\n\nanother,pos\na film,meh\n",
    "unlabelled.csv": "text\n" + "a film\n" * 5,
    "same.csv": "text,text,label\na,b,c\n",
    "bad.jsonl": '{"text": "a", "label": "x"}\n{oops\n',
    "mixed.jsonl": '{"text": "a", "label": "x"}\n{"text": "b", "label": ["x", "y"]}\n',
    "matrix.csv": "text,a,b\none,1,0\ntwo,0,2\n",
    "bad.parquet": "no parquet",
    "notes.docx": b"PK\x03\x04",
    "cut.csv.gz": b"\x1f\x8b\x08\x00",
    "plain.csv.gz": "text,label\n",
    "bad.toml": "[model\n",
    "unknown.toml": "[model]\nhead = 3\n",
    "loop.toml": 'extends = "loop.toml"\n',
    "narrow.vec": "film 0.1 0.2\ngood 0.3 0.4\nbad 0.1 0.1\n",
    "words.vec": "film one two\n",
    "full/notes.txt": "mine",
}

TRAIN = ("train", "two.csv", "--out", "run")

CASES: dict[str, tuple[tuple[str, ...], str]] = {
    # the data
    "no file": (("train", "nothere.csv", "--out", "run"), r"nothere.csv: no such file"),
    "near file": (("train", "tow.csv", "--out", "run"), r"Did you mean two.csv\?"),
    "far from files": (("train", "nosuch.csv", "--out", "run"), "no such file. Check the path"),
    "far from sets": (("train", "great", "--out", "run"), "name of a data set. `lamatext data`"),
    "a URL": (("train", "https://a.org/b.csv?c=1", "--out", "run"), "URLs are not read. Download"),
    "a model": (("train", "model", "--out", "run"), "model: this is a saved model, not data"),
    "no folder": (("train", "no/where.csv", "--out", "run"), "and no folder no"),
    "no set": (("train", "imbd", "--out", "run"), "name of a data set. Did you mean"),
    "empty file": (("train", "empty.csv", "--out", "run"), r"empty.csv: the file is empty"),
    "header only": (("train", "header.csv", "--out", "run"), r"header.csv: no rows"),
    "empty stdin": (("train", "-", "--format", "csv", "--out", "run"),
                    "standard input: the file is empty"),
    "one class": (("train", "one-class.csv", "--out", "run"),
                  "one-class.csv: 20 texts, all with the label 'pos'.*at least two classes"),
    "a label per row": (("train", "own-labels.csv", "--out", "run"),
                        "each of the 15 texts has a label of its own.* --label-column"),
    "empty texts": (("train", "blank.csv", "--out", "run"), "every text is empty.*--text-column"),
    "not a number": ((*TRAIN, "--set", "training.epochs=abc"), "training.epochs = .abc.: input"),
    "four texts": (("train", "few.csv", "--out", "run"), "4 texts from column .*too few .* --test"),
    "wrong encoding": (("train", "latin.csv", "--out", "run"), r"not UTF-8 \(line 3\).*rows 50%"),
    "utf-16": (("train", "utf16.csv", "--out", "run"), "not utf-16-le text .*--encoding"),
    "ragged": (("train", "ragged.csv", "--out", "run"), r"expected 2 fields .*\(line 2\)"),
    "open quote": (("train", "quote.csv", "--out", "run"), r"and not closed \(line 3"),
    "no text column": (("train", "odd.csv", "--out", "run"), "no text column found. .*a, b, c"),
    "no label column": (("train", "no-label.csv", "--out", "run", "--label-column", "sentiment"),
                        "no column 'sentiment'. It has text, length"),
    "no such column": ((*TRAIN, "--text-column", "txt"), "no column 'txt'.*Did you mean.*text"),
    "same column": ((*TRAIN, "--text-column", "text", "--label-column", "text"),
                    "cannot hold both texts and labels"),
    "twice the column": (("train", "same.csv", "--out", "run"), "2 columns are named 'text'"),
    "missing label": (("train", "missing-label.csv", "--out", "run"), r"2 rows .*label \(line 3"),
    "bad JSON": (("train", "bad.jsonl", "--out", "run"), r"expected a JSON object \(line 2"),
    "one label and lists": (("train", "mixed.jsonl", "--out", "run"), "rows before hold one value"),
    "no 0/1 column": (
        ("train", "matrix.csv", "--label-column", "a", "--label-column", "b", "--out", "run"),
        "column 'b', row 2: expected 0 or 1, got '2'",
    ),
    "no Parquet": (("train", "bad.parquet", "--out", "run"), "not a readable Parquet file"),
    "office document": (("train", "notes.docx", "--out", "run"), "'.docx' is not that of a known"),
    "cut archive": (("train", "cut.csv.gz", "--out", "run"), "cut short or damaged"),
    "no archive": (("train", "plain.csv.gz", "--out", "run"), "its content does not"),
    "unknown format": ((*TRAIN, "--format", "xml"), "unknown format 'xml'. Known formats are csv"),
    "unseen in --validation": ((*TRAIN, "--validation", "unseen.csv"),
                               "unseen.csv:2 has the label 'meh', which is not among"),
    "late in --validation": ((*TRAIN, "--validation", "late-unseen.csv"),
                             "late-unseen.csv:5 has the label 'meh', .* labels: 'neg', 'pos'"),
    "unseen in --test": ((*TRAIN, "--test", "unseen.csv"), "label 'meh', which is not among"),
    "--test unlabelled": ((*TRAIN, "--test", "unlabelled.csv"), "unlabelled.csv: no labels"),
    "--test missing": ((*TRAIN, "--test", "nothere.csv"), "nothere.csv: no such file"),
    # the settings
    "unknown setting": ((*TRAIN, "--set", "model.head=3"), "Did you mean model.heads"),
    "setting without table": ((*TRAIN, "--set", "heads=3"), "unknown setting heads. Did you mean"),
    "no value": ((*TRAIN, "--set", "model.heads"), "expected key=value, for example model.heads=8"),
    "bad number": ((*TRAIN, "--set", "model.heads=many"), "model.heads = 'many'"),
    "too small": ((*TRAIN, "--set", "model.heads=0"), "model.heads = 0"),
    "bad share": ((*TRAIN, "--set", "model.dropout=1.5"), "model.dropout = 1.5"),
    "bad choice": ((*TRAIN, "--set", "training.optimizer=sdg"), "Did you mean sgd"),
    "no number": ((*TRAIN, "--set", "training.learning_rate=nan"), "training.learning_rate"),
    "unknown model": ((*TRAIN, "--model", "lamma"), "unknown model 'lamma'. Did you mean lama"),
    "setting of others": ((*TRAIN, "--model", "cnn", "--set", "model.heads=3"),
                          "--set: model.heads has no effect in cnn, only in lama, .*, san, te. "),
    "unknown recipe": ((*TRAIN, "--recipe", "papr"), "unknown recipe 'papr'. Did you mean paper"),
    "recipe missing": ((*TRAIN, "--recipe", "my.toml"), "my.toml: no such recipe file"),
    "recipe no TOML": ((*TRAIN, "--recipe", "bad.toml"), "bad.toml: not valid TOML"),
    "recipe setting": ((*TRAIN, "--recipe", "unknown.toml"), "unknown setting model.head. Did you"),
    "recipe of itself": ((*TRAIN, "--recipe", "loop.toml"), "extends itself"),
    "negative seed": ((*TRAIN, "--seed", "-1"), "seed = -1"),
    "word seed": ((*TRAIN, "--seed", "one"), "'--seed'.*integer"),
    "unknown baseline": ((*TRAIN, "--baselines", "tfidf,xgboost"),
                         "unknown baseline 'xgboost'. Known"),
    "unknown device": ((*TRAIN, "--device", "gpu"), "unknown device 'gpu'. Use auto, cpu or cuda"),
    "no such GPU": ((*TRAIN, "--device", "cuda:99"), "device 'cuda:99': PyTorch finds .* GPUs"),
    "no vectors": ((*TRAIN, "--word-vectors", "glove.txt"),
                   "'glove.txt': no such file. Use word2vec"),
    "narrow vectors": ((*TRAIN, "--word-vectors", "narrow.vec"),
                       "2 numbers, text.vector_width is 100. Use"),
    "word vectors": ((*TRAIN, "--word-vectors", "words.vec"),
                     "words.vec:1: expected a word and 100"),
    "divergence": ((*TRAIN, "--set", "training.learning_rate=1e30",
                    "--set", "training.gradient_clip=none",
                    "--set", "text.word_vectors=random", "--set", "training.optimizer=sgd"),
                   r"training diverged in epoch \d.*Lower training.learning_rate"),
    # the folders
    "--out a file": (("train", "two.csv", "--out", "two.csv"), "two.csv: is a file. Give --out a"),
    "--out in a file": (("train", "two.csv", "--out", "two.csv/run"), "run: cannot be written"),
    "--out not empty": (("train", "two.csv", "--out", "full"), "full: not empty, and not a model"),
    "nothing to resume": ((*TRAIN, "--resume"), "no such folder, so there is no run to resume"),
    "another run's": (("train", "two.csv", "--out", "model", "--resume"), "model of another run"),
    "no model": (("predict", "nothere", "two.csv"), "nothere: no such folder. Expected a folder"),
    "model a file": (("info", "two.csv"), "two.csv: is a file. Expected a folder"),
    "not a model": (("evaluate", "full", "two.csv"), "full: no config.json, so it is not a saved"),
    "damaged model": (("predict", "damaged", "two.csv"), "model.safetensors: damaged"),
    "model half there": (("explain", "partial", "--text", "a"), "vocab.txt is missing"),
    # predict, explain, evaluate
    "INPUT and --text": (("predict", "model", "two.csv", "--text", "a"), "not both"),
    "neither": (("predict", "model"), "nothing to predict. Give an INPUT"),
    "a text": (("predict", "model", "it's a film."), "Give a text as: --text 'it'.*'s a film.'$"),
    "text without spaces": (("predict", "model", "这部电影"), "Give a text as: --text '?这部电影"),
    "a long text": (("explain", "model", "a film " * 100), r"Give a text as: --text 'a .*\.\.\.'$"),
    "a path": (("predict", "model", "my file.csv"), "my file.csv: no such file. Check the path"),
    "no input file": (("predict", "model", "nothere.csv"), "nothere.csv: no such file"),
    "input empty": (("predict", "model", "empty.csv"), "empty.csv: the file is empty"),
    "input latin": (
        ("predict", "model", "latin.csv", "--out", "o.csv"),
        r"not UTF-8 \(line 3\).*name it with --encoding",
    ),
    "input column": (("predict", "model", "two.csv", "--text-column", "x"), "no column 'x'"),
    "--out unknown": (("predict", "model", "two.csv", "--out", "o.xlsx"), "cannot write .xlsx"),
    "--out bare": (("predict", "model", "two.csv", "--out", "o"), "a file without extension"),
    "--out a folder": (("predict", "model", "two.csv", "--out", "folder.csv"), "is a folder. Name"),
    "--out nowhere": (("predict", "model", "two.csv", "--out", "two.csv/o.csv"), "cannot be"),
    "top-k nothing": (("predict", "model", "two.csv", "--top-k", "0"), "'--top-k'.*greater"),
    "explain what": (("explain", "model"), "nothing to explain. Give an INPUT"),
    "explain whom": (("explain", "model", "--text", "a", "--label", "meh"),
                     "no such label. It has neg, pos"),
    "label of a page": (("explain", "model", "--text", "a", "--label", "pos", "--html", "x.html"),
                        "choose the label on the page"),
    "page and lines": (("explain", "model", "two.csv", "--html", "x.html", "--out", "x.jsonl"),
                       "--out with --html: one or the other"),
    "page and JSON": (("explain", "model", "--text", "a", "--html", "x.html", "--json"),
                      "--json with --html: one or the other"),
    "label column only": (("train", "labels.csv", "--label-column", "label", "--out", "run"),
                          r"labels.csv: .*--text-column|labels.csv: no"),
    "page nowhere": (("explain", "model", "--text", "a", "--html", "two.csv/x.html"), "cannot be"),
    "evaluate unlabelled": (("evaluate", "model", "unlabelled.csv"), "unlabelled.csv: no labels"),
    "evaluate unseen": (("evaluate", "model", "unseen.csv"), "unseen.csv:2 has the label 'meh'"),
    # the command line itself
    "unknown verb": (("trian", "two.csv"), "No such command 'trian'. Did you mean 'train'"),
    "unknown option": ((*TRAIN, "--epochs", "3"), "No such option.*--epochs"),
    "no --out": (("train", "two.csv"), "Missing option '--out'. See: lamatext train --help"),
    "no DATA": (("train", "--out", "run"), "Missing argument 'DATA'"),
    "too much": (("info", "model", "more"), "unexpected extra argument"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _faulty_files(place: Path, saved: Path) -> None:
    for name, content in FILES.items():
        path = place / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    (place / "folder.csv").mkdir()
    for name, spoil in SPOILED.items():
        spoil(Path(shutil.copytree(saved, place / name)))


def _damage(model: Path) -> None:
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-9] + b"123456789")


SPOILED: dict[str, Callable[[Path], None]] = {
    "damaged": _damage,
    "partial": lambda model: (model / "vocab.txt").unlink(),
}


def test_at_least_forty_user_errors_are_covered() -> None:
    assert len(CASES) >= 40


@pytest.mark.parametrize("case", CASES)
def test_a_user_error_is_reported_in_one_or_two_sentences(case: str, lamatext: Command) -> None:
    arguments, message = CASES[case]

    answer = lamatext(*arguments)

    assert answer.status == 2, answer.err
    last = [line for line in answer.err.splitlines() if line.startswith("lamatext: ")]
    assert len(last) == 1, answer.err
    assert re.search(message, last[0]), answer.err
    assert answer.err.rstrip().endswith(last[0]), answer.err  # one line, the last
    assert len(last[0]) < 500
    assert "Traceback" not in answer.err
    assert not answer.out


def test_a_failed_run_leaves_no_new_folder(lamatext: Command, place: Path) -> None:
    lamatext("train", "nothere.csv", "--out", "runs/new")

    assert not (place / "runs" / "new").exists()


def test_a_refused_run_leaves_an_existing_folder_unchanged(lamatext: Command, place: Path) -> None:
    lamatext("train", "two.csv", "--out", "full")

    assert (place / "full" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "many.jsonl", "--out", "run"),
        ("train", "many.jsonl", "--out", "run", "--stream"),
        ("compare", "many.jsonl"),
        ("clean", "many.jsonl", "--out", "suspects.csv"),
        ("tune", "many.jsonl", "--out", "best"),
    ],
    ids=lambda arguments: " ".join(arguments[::4]),
)
def test_more_labels_than_a_model_can_learn_are_an_error_before_training(
    arguments: tuple[str, ...], lamatext: Command, place: Path
) -> None:
    rows = [{"text": f"a film about {n}", "label": f"id-{n // 2}"} for n in range(16_000)]
    (place / "many.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    answer = lamatext(*arguments, "--label-column", "label")

    assert answer.status == 2
    assert re.search(
        r"many.jsonl: [5-8],\d{3} different labels in [\d,]+ texts, at most", answer.err
    )
    assert "choose another column (--label-column)" in answer.err
    assert "epoch" not in answer.err
