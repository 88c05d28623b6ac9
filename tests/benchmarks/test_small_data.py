import re
from pathlib import Path
from statistics import mean

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import small_data
from benchmarks.accuracy_jobs import RECORDS, AccuracyJob
from lamatext import TextClassifier
from lamatext.data.dataset import Dataset
from lamatext.metrics import calibration_error, measure_reliability
from paper.records import Record, Records, Value
from tests.corpora import TINY


def dataset(labels: list[str]) -> Dataset:
    texts = [f"text {number}" for number in range(len(labels))]
    return Dataset(
        pa.chunked_array([texts], pa.large_string()),
        pa.chunked_array([labels], pa.string()),
        "made",
    )


def test_imbalanced_rows_keep_a_fiftieth_of_the_second_class() -> None:
    labels = ["a", "b"] * 500

    kept = [labels[row] for row in small_data.imbalanced_rows(dataset(labels), 0)]

    assert (kept.count("a"), kept.count("b")) == (500, 10)


def test_a_fifth_of_the_labels_is_replaced_by_other_labels() -> None:
    labels = ["a", "b", "c"] * 1000

    flipped = small_data.flip_labels(dataset(labels), 0).require_labels().to_pylist()

    wrong = [new for old, new in zip(labels, flipped, strict=True) if old != new]
    assert len(wrong) / len(labels) == pytest.approx(0.2, abs=0.02)
    assert min(map(wrong.count, "abc")) > 150


def test_the_area_under_the_roc_curve_is_the_share_of_ordered_pairs() -> None:
    truth, scores = np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.4, 0.9])

    assert small_data.area_under_roc(truth, scores) == pytest.approx(3.5 / 4)


def test_the_pooled_calibration_error_of_one_draw_is_its_calibration_error() -> None:
    draw = np.random.default_rng(0)
    probabilities, truth = draw.dirichlet(np.ones(3), 500), draw.integers(0, 3, 500)

    sums = small_data.reliability_sums(truth, probabilities)

    expected = calibration_error(measure_reliability(truth, probabilities))
    assert small_data.pooled_calibration_error([sums]) == pytest.approx(expected, abs=1e-4)
    assert small_data.pooled_calibration_error([sums, sums]) == pytest.approx(expected, abs=1e-4)


def test_the_table_shows_accuracy_difference_and_calibration_error(tmp_path: Path) -> None:
    records = Records(tmp_path)
    sums = [0.0] * 14 + [100.0] + [0.0] * 14 + [95.0] + [0.0] * 14 + [90.0]
    values: dict[str, Value] = {"accuracy": 0.9, "ngrams_accuracy": 0.91, "reliability": sums}
    for name in ("sib-tha", "sib-jpn"):
        records.add(
            Record(small_data.EXPERIMENT, name, "50", metric, value, 0)
            for metric, value in values.items()
        )

    table = small_data.small_data_table(records)

    assert "| sib | 0.900 (−1.00; 0.050) | – |" in table


def test_baselines_are_fitted_to_few_texts_all_texts_of_sib_and_special_draws() -> None:
    def names(dataset: str, model: str, seed: int) -> list[str]:
        return list(small_data._baselines(AccuracyJob(dataset, model, seed)))

    assert names("sib-tha", "all", 0) == ["characters"]
    assert not names("sib-tha", "all", 1)
    assert len(names("mr", small_data.FLIPPED, 3)) == 4
    assert len(names("mr", "50", 3)) == 8
    assert len(names("sib-tha", "50", 3)) == 10
    assert not names("mr", "all", 0)


def test_a_baseline_whose_words_occur_once_predicts_the_most_frequent_class() -> None:
    train = Dataset(
        pa.chunked_array([["eins", "zwei", "drei"]]), pa.chunked_array([["a", "b", "b"]]), ""
    )
    test = Dataset(pa.chunked_array([["eins", "zwei"]]), pa.chunked_array([["a", "b"]]), "")
    job = AccuracyJob("clothing", "50", 0)

    scores = small_data.score_baselines(small_data.Parts(train, test), job)

    assert scores["words accuracy"] == 0.5
    assert scores["words, all accuracy"] == 1


def test_the_table_of_few_texts_has_the_best_mean_of_the_baselines(tmp_path: Path) -> None:
    records = Records(tmp_path)
    values = {
        "accuracy": (0.7, 0.8, 0.1),  # the baselines were not measured on the last draw
        "ngrams_accuracy": (0.9, 0.9, 0.9),
        "words accuracy": (0.5, 0.7),
        "words and characters accuracy": (0.6, 0.5),
        "balanced_accuracy": (0.99, 0.99, 0.99),
    }
    records.add(
        Record(small_data.EXPERIMENT, name, "50", metric, value + shift, seed)
        for name, shift in (("r8", 0.0), ("sib-tha", 0.0), ("sib-jpn", 0.1))
        for metric, scores in values.items()
        for seed, value in enumerate(scores)
    )

    table = small_data.few_texts_table(records)

    assert "| r8 | 0.750 (0.600) | – |" in table
    assert "| sib | 0.800 (0.650) | – |" in table


def test_the_table_of_wrong_labels_names_the_best_baseline(tmp_path: Path) -> None:
    records = Records(tmp_path)
    sums = [0.0] * 14 + [100.0] + [0.0] * 14 + [80.0] + [0.0] * 14 + [75.0]
    values: dict[str, Value] = {
        "accuracy": 0.97,
        "ngrams_accuracy": 0.99,
        "words accuracy": 0.94,
        "words, logistic accuracy": 0.95,
        "reliability": sums,
    }
    records.add(
        [
            Record(small_data.EXPERIMENT, "r8", small_data.FLIPPED, metric, value, 0)
            for metric, value in values.items()
        ]
    )

    table = small_data.wrong_labels_table(records)

    assert "| r8 | 0.970 | 0.950 | 0.050 | 1 |" in table


def test_the_table_of_imbalance_compares_the_areas_and_the_class_weights(tmp_path: Path) -> None:
    records = Records(tmp_path)
    values = {
        (small_data.IMBALANCED, "auc"): (0.81, 0.83),
        (small_data.IMBALANCED, "words auc"): (0.75, 0.77),
        (small_data.IMBALANCED, "balanced_accuracy"): (0.5, 0.52),
        (small_data.BALANCED, "balanced_accuracy"): (0.7, 0.74),
    }
    records.add(
        Record(small_data.EXPERIMENT, "mr", variant, metric, value, seed)
        for (variant, metric), scores in values.items()
        for seed, value in enumerate(scores)
    )

    table = small_data.imbalance_table(records)

    assert "| mr | 0.820 | 0.760 | 0.510 | 0.720 | 2 |" in table
    assert "imdb" not in table  # has no records


def test_the_scores_are_those_of_the_classifiers_probabilities() -> None:
    labels = ["a", "b", "c"] * 30
    draw = np.random.default_rng(0)
    words = [f"{a}{b}" for a in "bdfgkl" for b in "aeiou"]
    texts = [" ".join([label, *draw.choice(words, 6)]) for label in labels]
    classifier = TextClassifier(settings=TINY | {"ngrams.enabled": True}, random_state=0)
    classifier.fit(texts, labels)
    classifier.facts_["label_noise"] = 0.1
    test = Dataset(pa.chunked_array([texts]), pa.chunked_array([labels[1:] + labels[:1]]), "made")

    scores = small_data.score_classifier(classifier, test)

    probabilities = classifier.predict_proba(texts).astype(np.float64)
    truth = np.searchsorted(classifier.classes_, test.require_labels().to_pylist())
    assert scores["accuracy"] == (probabilities.argmax(axis=1) == truth).mean()
    assert scores["reliability"] == pytest.approx(
        small_data.reliability_sums(truth, probabilities), abs=1e-3
    )


def test_the_guide_quotes_the_gains_over_the_ngrams_and_the_limits_of_the_calibration_error() -> (
    None
):
    values = small_data.read_values(Records(RECORDS))
    gains: dict[tuple[str, str], float] = {}  # by data set and size, in points
    for name, sizes in small_data.CELLS.items():
        for size in sizes:
            pooled = "sib" if name in small_data.SIB else name
            together, alone = (
                mean(r.number for r in values[pooled, size, metric] if r.dataset == name)
                for metric in ("accuracy", "ngrams_accuracy")
            )
            gains[name, size] = 100 * (together - alone)
    many = {
        (name, size)
        for name, size in gains
        if size == "2000" or (size == "all" and name not in small_data.SIB)
    }
    worst = min(
        (mean(gains[name, size] for size in sizes), name)
        for name, sizes in small_data.CELLS.items()
    )
    page = Path("docs/train.md").read_text(encoding="utf-8")
    text = re.sub(r"\s+", " ", page)

    few_gain = mean(gain for cell, gain in gains.items() if cell not in many)
    many_gain = mean(gains[cell] for cell in many)
    assert f"({few_gain:.2f} points better on average" in text
    assert f"with 2,000 or more they are {many_gain:.2f} points better" in text
    assert f"averaged over its sizes, is {-worst[0]:.2f} points worse" in text
    assert f"points worse ({worst[1]})" in text
    for (dataset, size, metric), records in values.items():
        if metric == "reliability" and size in small_data.SIZES:
            limit = 0.06 if size in ("50", "100", "200") else 0.03
            if size in ("500", "1000") or (dataset, size) == ("sib", "all"):
                limit = 0.04
            error = small_data.pooled_calibration_error([r.value for r in records])  # type: ignore[misc]
            assert error <= limit, (dataset, size)


def test_the_guide_quotes_the_calibration_errors_of_single_models() -> None:
    errors: dict[str, list[float]] = {}  # of every draw of a data set, by size
    for (dataset, size, metric), records in small_data.read_values(Records(RECORDS)).items():
        if metric == "reliability" and size in small_data.SIZES and dataset != "sib":
            single = [small_data.pooled_calibration_error([r.value]) for r in records]  # type: ignore[list-item]
            errors.setdefault(size, []).extend(single)
    text = re.sub(r"\s+", " ", Path("docs/train.md").read_text(encoding="utf-8"))

    assert f"{mean(errors['50']):.3f} on average with 50 texts" in text
    for size in ("100", "200", "500", "all"):
        assert f"{mean(errors[size]):.3f} with {size} (up to {max(errors[size]):.3f})" in text
    assert f"with 50 texts (up to {max(errors['50']):.3f})" in text
    readme = re.sub(r"\s+", " ", Path("README.md").read_text(encoding="utf-8"))
    few, many = [*errors["50"], *errors["100"]], errors["all"]
    assert f"{mean(few):.2f} on average with 50 to 100 texts and up to {max(few):.2f}" in readme
    assert f"with all texts {mean(many):.2f} and up to {max(many):.2f}" in readme


def test_the_guide_quotes_in_how_many_cells_a_tfidf_model_is_ahead() -> None:
    leads = {  # in points, by data set and size
        cell: 100 * (ours - best)
        for cell, (ours, best) in small_data.few_texts_accuracies(Records(RECORDS)).items()
    }
    text = re.sub(r"\s+", " ", Path("docs/train.md").read_text(encoding="utf-8"))

    ahead = [lead for lead in leads.values() if lead > 0]
    behind = {cell: lead for cell, lead in leads.items() if lead <= 0}
    assert f"ahead in {len(ahead)} of {len(leads)} cells" in text
    assert f"by up to {max(ahead):.1f} points" in text
    assert set(behind) == {("mr", "100"), ("mr", "200"), ("mr", "500"), ("clothing", "50")}
    assert f"at most {-min(behind.values()):.2f} points" in text
