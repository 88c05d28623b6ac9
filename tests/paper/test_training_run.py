"""Training runs of the protocol: data, records, and resuming after an interruption."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import torch

from lamatext.data.token_ids import TokenIds
from lamatext.data.vocabulary import Vocabulary
from lamatext.data.word_vectors import Vectors, random_vectors
from lamatext.settings import TextSettings
from paper import protocol
from paper.confidence_intervals import unpack_bits
from paper.datasets import load_tokenized, remove_line_break_tags
from paper.experiments import Options, train_all
from paper.official_datasets import BERT_BASE
from paper.records import Records
from paper.training_run import TEST_SCORES, TrainingRun, encode, train
from tests.paper.tiny_datasets import write_datasets

FEW_EPOCHS = (("training.epochs", 2),)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_datasets(tmp_path / "data")
    monkeypatch.setenv("LAMATEXT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("LAMATEXT_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.filterwarnings("ignore:.*texts in its.*")
def test_a_tokenized_data_set_is_read_back_unchanged(folder: Path) -> None:
    tokenized = load_tokenized("r8", folder)

    again = load_tokenized("r8", folder)

    assert (again.train_size, again.classes) == (60, ("money-fx", "ship"))
    assert again.tokens.types == tokenized.tokens.types
    assert again.tokens.rows.ids.tolist() == tokenized.tokens.rows.ids.tolist()
    assert again.labels.tolist() == tokenized.labels.tolist()


@pytest.mark.filterwarnings("ignore:.*texts in its.*")
def test_folds_validate_every_training_row_once_and_never_use_the_test_part(folder: Path) -> None:
    data = load_tokenized("r8", folder)

    folds = [encode(TrainingRun("heads", "r8", "avg", 0, fold), data) for fold in range(3)]

    validation = [row for fold in folds for row in fold.split.validation.tolist()]
    assert sorted(validation) == list(range(data.train_size))
    assert all(
        not set(fold.split.train.tolist()) & set(fold.split.validation.tolist()) for fold in folds
    )


@pytest.mark.filterwarnings("ignore:.*texts in its.*")
def test_systems_that_cut_texts_share_the_word_vectors_of_whole_texts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, trained = load_tokenized("r8", folder), []

    def count_words(
        text: TextSettings, vocabulary: Vocabulary, rows: TokenIds, *, seed: int
    ) -> Vectors:
        trained.append(len(rows.ids))
        return random_vectors(len(vocabulary), text.vector_width, seed)

    monkeypatch.setattr("paper.training_run.make_vectors", count_words)
    cut = (("text.max_words", 3), *FEW_EPOCHS)
    short = TrainingRun("open-directions", "r8", "avg", settings=cut)
    whole = TrainingRun("open-directions", "r8", "avg", settings=FEW_EPOCHS)

    train(short, data, torch.device("cpu"))
    train(whole, data, torch.device("cpu"))

    texts = encode(whole, data)
    assert trained == [len(texts.token_ids.take(texts.split.train).ids)]


@pytest.mark.filterwarnings("ignore:.*texts in its.*")
def test_a_fold_is_not_scored_on_the_test_part(folder: Path) -> None:
    data = load_tokenized("r8", folder)

    outcome = train(TrainingRun("heads", "r8", "avg", 0, 1, FEW_EPOCHS), data, torch.device("cpu"))

    assert outcome.correct is None
    assert {record.metric for record in outcome.records} == {
        "validation_accuracy",
        "validation_curve",
    }


@pytest.mark.filterwarnings("ignore:.*texts in its.*")
def test_a_fold_of_the_papers_own_protocol_is_scored_on_the_test_part(folder: Path) -> None:
    data = load_tokenized("r8", folder)

    outcome = train(TrainingRun("folds", "r8", "avg", 0, 1, FEW_EPOCHS), data, torch.device("cpu"))

    assert outcome.correct is not None
    assert {record.fold for record in outcome.records} == {1}


def test_line_break_tags_become_one_blank() -> None:
    texts = pa.chunked_array([["Bad.<br /><br />Really <br/> bad", "a < b"]], pa.large_string())

    assert remove_line_break_tags(texts).to_pylist() == ["Bad. Really bad", "a < b"]


@pytest.mark.filterwarnings("ignore:.*texts in its.*")
def test_a_bigru_with_two_layers_has_the_parameters_of_both(folder: Path) -> None:
    data, device = load_tokenized("r8", folder), torch.device("cpu")

    one, two = (
        train(TrainingRun("layers", "r8", model, settings=FEW_EPOCHS), data, device).records[0]
        for model in ("bigru", "bigru-2")
    )

    hidden = 50
    second_layer = 2 * (3 * hidden * 2 * hidden + 3 * hidden * hidden + 6 * hidden)
    assert one.parameters is not None
    assert two.parameters == one.parameters + second_layer


@pytest.mark.filterwarnings("ignore:.*texts in its.*")
def test_bert_base_is_fine_tuned_from_the_weights_in_the_data_folder(folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    weights = folder / "data" / BERT_BASE
    config = transformers.BertConfig(
        vocab_size=40,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=32,
    )
    transformers.BertModel(config).save_pretrained(weights)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "tanker", "cargo", "dollar", "rate"]
    (weights / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizerFast(str(weights / "vocab.txt")).save_pretrained(weights)
    run = TrainingRun("accuracy", "r8", "bert", settings=(*protocol.BERT_BASE, *FEW_EPOCHS))

    data = load_tokenized(f"r8@{BERT_BASE}", folder)
    outcome = train(run, data, torch.device("cpu"))

    assert outcome.records[0].config["model.pretrained"] == BERT_BASE
    assert outcome.records[0].parameters is not None
    assert outcome.records[0].parameters < 5_000


@pytest.mark.filterwarnings("ignore:.*texts in its.*")
def test_a_run_without_a_fold_is_scored_on_the_test_part(folder: Path) -> None:
    data = load_tokenized("r8", folder)

    outcome = train(
        TrainingRun("accuracy", "r8", "avg", settings=FEW_EPOCHS), data, torch.device("cpu")
    )

    metrics = {record.metric: record.value for record in outcome.records}
    assert set(metrics) == {"validation_accuracy", "validation_curve", *TEST_SCORES}
    assert outcome.correct is not None
    correct = unpack_bits(outcome.correct, len(data.test_rows))
    assert metrics["accuracy"] == correct.mean()


def options(folder: Path, reports: list[str], *, minutes: float = 5) -> Options:
    records = Records(folder / "records")
    return Options(records, folder, "cpu", minutes=minutes, report=reports.append)


@pytest.mark.slow
def test_a_deleted_record_is_computed_again_with_the_same_result(folder: Path) -> None:
    reports: list[str] = []

    def runs(_: Records) -> Iterator[TrainingRun]:
        for model in ("avg", "lama-ctx"):
            yield TrainingRun("accuracy", "r8", model, settings=FEW_EPOCHS)

    train_all(options(folder, reports), runs)
    first = {record.key: record.value for record in Records(folder / "records").of("accuracy")}
    path = folder / "records" / "accuracy.json"
    remaining = [line for line in path.read_text().splitlines() if '"lama-ctx"' not in line]
    path.write_text("\n".join(remaining).replace("},\n]", "}\n]"))
    reports.clear()

    train_all(options(folder, reports), runs)

    assert not [line for line in reports if "avg" in line]  # it still has its records
    again = {record.key: record.value for record in Records(folder / "records").of("accuracy")}
    assert again == first
    assert reports[-1] == "0 jobs remain, 0 failed"


def test_a_call_that_is_out_of_time_reports_what_is_left(folder: Path) -> None:
    reports: list[str] = []

    def runs(_: Records) -> Iterator[TrainingRun]:
        yield TrainingRun("accuracy", "r8", "avg", settings=FEW_EPOCHS)

    train_all(options(folder, reports, minutes=0), runs)

    assert reports == ["1 jobs remain, 0 failed"]
