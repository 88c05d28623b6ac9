"""scikit-learn's own checks of an estimator, done again on texts."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from lamatext import ConfigError, DataError, LamatextError, Predictor, TextClassifier
from lamatext.data.duplicates import TextGroups
from lamatext.data.splits import Split, hold_out_validation
from lamatext.data.validation import group_column
from lamatext.recipes import resolve_recipe
from lamatext.settings import MODEL_NAMES
from tests.corpora import TINY, reviews
from tests.trained_model import trained

TEXTS, LABELS = reviews(60)
NEW, _ = reviews(20, seed=9)


def tiny(**values: Any) -> TextClassifier:
    more = values.pop("settings", {})
    return TextClassifier(device="cpu", settings=TINY | more, **values)


@pytest.fixture(scope="module")
def fitted() -> TextClassifier:
    return tiny().fit(TEXTS, LABELS)


# The conventions


def test_init_only_stores_its_parameters() -> None:
    given: dict[str, Any] = {
        "model": object(),
        "recipe": object(),
        "heads": object(),
        "rank": object(),
        "hidden_size": object(),
        "dropout": object(),
        "min_count": object(),
        "word_vectors": object(),
        "epochs": object(),
        "batch_size": object(),
        "learning_rate": object(),
        "class_weight": object(),
        "random_state": object(),
        "verbose": object(),
        "teacher": object(),
        "warm_start": object(),
        "device": object(),
        "settings": object(),
    }

    made = TextClassifier(**given)

    assert vars(made) == given
    assert made.get_params() == given


def test_fit_returns_self_and_changes_no_parameter() -> None:
    classifier = tiny(heads=2, class_weight={"neg": 1.0, "pos": 2.0})
    before = copy.deepcopy(classifier.get_params())

    returned = classifier.fit(TEXTS, LABELS)

    assert returned is classifier
    assert classifier.get_params() == before


def test_fit_leaves_its_input_alone() -> None:
    texts, labels = np.array(TEXTS), np.array(LABELS)
    texts.flags.writeable = labels.flags.writeable = False

    tiny().fit(texts, labels)

    assert texts.tolist() == TEXTS


def test_a_clone_is_unfitted_and_alike(fitted: TextClassifier) -> None:
    made = clone(fitted)

    assert made.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        check_is_fitted(made)


def test_set_params_and_repr() -> None:
    classifier = TextClassifier().set_params(heads=3, random_state=4)

    assert (classifier.heads, classifier.random_state) == (3, 4)
    assert repr(classifier) == "TextClassifier(heads=3, random_state=4)"


def test_it_is_a_classifier_of_strings(fitted: TextClassifier) -> None:
    tags = fitted.__sklearn_tags__()

    assert is_classifier(fitted)
    assert tags.input_tags.string
    assert not tags.input_tags.two_d_array


def test_a_second_fit_forgets_the_first() -> None:
    colours = [f"{colour} {x}{y}" for x in "abcd" for y in "efgh" for colour in ("red", "blue")]
    fresh = tiny().fit(colours, ["r", "b"] * 16)

    refitted = tiny().fit(TEXTS, LABELS).fit(colours, ["r", "b"] * 16)

    assert refitted.classes_.tolist() == ["b", "r"]
    np.testing.assert_array_equal(refitted.predict_proba(NEW), fresh.predict_proba(NEW))


def test_a_fit_that_fails_leaves_the_old_model(fitted: TextClassifier) -> None:
    before = fitted.predict_proba(NEW)

    with pytest.raises(DataError):
        fitted.fit(TEXTS, ["a"] * len(TEXTS))

    np.testing.assert_array_equal(fitted.predict_proba(NEW), before)
    assert fitted.classes_.tolist() == ["neg", "pos"]


@pytest.mark.parametrize("method", ["predict", "predict_proba", "transform", "score"])
def test_nothing_is_predicted_before_fit(method: str) -> None:
    given = (TEXTS, LABELS) if method == "score" else (TEXTS,)

    with pytest.raises(NotFittedError, match=r"Call fit\(texts, labels\), or load a saved one"):
        getattr(TextClassifier(), method)(*given)


def test_nothing_is_explained_or_saved_before_fit(tmp_path: Any) -> None:
    with pytest.raises(NotFittedError):
        TextClassifier().explain("a film")
    with pytest.raises(NotFittedError):
        TextClassifier().save(tmp_path)


# What comes out


def test_it_learns() -> None:
    plain = {"model.embedding_dropout": 0.0, "model.dropout": 0.0}
    classifier = tiny(epochs=15, learning_rate=0.02, settings=plain).fit(TEXTS, LABELS)

    assert classifier.score(*reviews(40, seed=3)) >= 0.95


def test_predictions_do_not_depend_on_the_order_or_the_subset(fitted: TextClassifier) -> None:
    together = fitted.predict_proba(NEW)
    order = np.random.default_rng(0).permutation(len(NEW))

    shuffled = fitted.predict_proba([NEW[i] for i in order])
    alone = np.concatenate([fitted.predict_proba([text]) for text in NEW])

    np.testing.assert_allclose(shuffled, together[order], atol=1e-6)
    np.testing.assert_allclose(alone, together, atol=1e-6)


def test_probabilities_add_up_and_agree_with_the_labels(fitted: TextClassifier) -> None:
    probabilities = fitted.predict_proba(NEW)

    assert probabilities.shape == (len(NEW), 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    assert fitted.predict(NEW).tolist() == fitted.classes_[probabilities.argmax(axis=1)].tolist()


def test_transform_gives_the_flattened_embedding(fitted: TextClassifier) -> None:
    heads, width = 3, 2 * 4

    assert fitted.transform(NEW).shape == (len(NEW), heads * width)
    assert fitted.transform([]).shape == (0, heads * width)


def test_no_texts_give_no_predictions(fitted: TextClassifier) -> None:
    assert fitted.predict([]).shape == (0,)
    assert fitted.predict_proba([]).shape == (0, 2)


def test_a_prediction_comes_with_its_reasons(fitted: TextClassifier) -> None:
    explanation = fitted.explain("a wonderful film")

    assert explanation.words == ["a", "wonderful", "film"]
    assert explanation.predicted == fitted.predict(["a wonderful film"])[0]
    np.testing.assert_allclose(
        explanation.probabilities, fitted.predict_proba(["a wonderful film"])[0], atol=1e-5
    )


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (["neg", "pos"], "U"),
        ([3, -1], "i"),
        ([0, 1], "i"),
        ([np.int64(4), np.int64(5)], "i"),
        ([False, True], "b"),
        ([1.0, 2.0], "i"),
        (["1", "0"], "U"),
        (["ünï 🙂", "日本"], "U"),
    ],
)
def test_predict_returns_labels_of_the_kind_that_came_in(labels: list[Any], kind: str) -> None:
    y = [labels[label == "pos"] for label in LABELS]

    classifier = tiny().fit(TEXTS, y)

    assert classifier.predict(NEW).dtype.kind == kind
    assert set(classifier.predict(NEW).tolist()) <= set(labels)
    assert classifier.classes_.tolist() == sorted(labels)


CONTAINERS: dict[str, Callable[[list[str]], Any]] = {
    "list": list,
    "tuple": tuple,
    "array": np.array,
    "objects": lambda values: np.array(values, dtype=object),
    "column": lambda values: np.array(values)[:, None],
    "Series": lambda values: pd.Series(values, index=range(100, 100 + len(values))),
    "DataFrame": lambda values: pd.DataFrame({"only": values}),
    "category": lambda values: pd.Series(values, dtype="category"),
    "Arrow": lambda values: pa.chunked_array([values]),
    "generator": iter,
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_texts_come_in_any_container(container: str, fitted: TextClassifier) -> None:
    wrap = CONTAINERS[container]

    classifier = tiny().fit(wrap(TEXTS), wrap(LABELS))

    np.testing.assert_array_equal(classifier.predict_proba(wrap(NEW)), fitted.predict_proba(NEW))


def test_a_parameter_goes_before_a_setting_of_the_same_meaning() -> None:
    loaded = TextClassifier.of_recipe(tiny().resolve())

    assert loaded.set_params(heads=9, random_state=3).resolve().model.heads == 9
    assert loaded.resolve().seed == 3


def test_a_seed_fixes_everything() -> None:
    first, again, other = (tiny(random_state=seed).fit(TEXTS, LABELS) for seed in (1, 1, 2))

    np.testing.assert_array_equal(first.predict_proba(NEW), again.predict_proba(NEW))
    assert not np.array_equal(first.predict_proba(NEW), other.predict_proba(NEW))


# The company it keeps


def test_it_survives_a_pickle(fitted: TextClassifier) -> None:
    again = pickle.loads(pickle.dumps(fitted))

    np.testing.assert_array_equal(again.predict_proba(NEW), fitted.predict_proba(NEW))
    assert again.get_params() == fitted.get_params()


def test_joblib_workers_predict_the_same(fitted: TextClassifier) -> None:
    halves = NEW[:10], NEW[10:]

    found = joblib.Parallel(n_jobs=2, backend="threading")(
        joblib.delayed(fitted.predict_proba)(half) for half in halves
    )

    np.testing.assert_allclose(np.concatenate(found), fitted.predict_proba(NEW), atol=1e-6)


@pytest.mark.slow
def test_joblib_processes_fit_and_predict() -> None:
    scores = cross_val_score(tiny(), TEXTS, LABELS, cv=2, n_jobs=2)

    assert len(scores) == 2


def test_cross_validation_scores_it() -> None:
    scores = cross_val_score(tiny(), np.array(TEXTS), np.array(LABELS), cv=3)
    probabilities = cross_val_predict(tiny(), TEXTS, LABELS, cv=2, method="predict_proba")

    assert scores.shape == (3,)
    assert ((scores >= 0) & (scores <= 1)).all()
    assert probabilities.shape == (len(TEXTS), 2)


def test_a_grid_is_searched() -> None:
    grid = {"heads": [1, 2], "dropout": [0.0, 0.5]}

    search = GridSearchCV(tiny(), grid, cv=2).fit(TEXTS, LABELS)

    assert set(search.best_params_) == {"heads", "dropout"}
    assert search.best_estimator_.recipe_.model.heads == search.best_params_["heads"]
    assert search.predict(NEW).shape == (len(NEW),)


def test_it_ends_a_pipeline() -> None:
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])

    pipeline = make_pipeline(lower, tiny()).fit([text.upper() for text in TEXTS], LABELS)

    assert pipeline.predict(NEW).shape == (len(NEW),)
    assert pipeline.predict_proba(NEW).shape == (len(NEW), 2)
    assert pipeline.set_params(textclassifier__heads=2)[-1].heads == 2


def test_it_feeds_a_pipeline() -> None:
    pipeline = make_pipeline(tiny(), LogisticRegression(max_iter=500)).fit(TEXTS, LABELS)

    assert pipeline.predict(NEW).shape == (len(NEW),)


def test_it_can_be_calibrated_and_voted() -> None:
    calibrated = CalibratedClassifierCV(tiny(), cv=2).fit(np.array(TEXTS), LABELS)

    assert calibrated.predict_proba(np.array(NEW)).shape == (len(NEW), 2)


def test_balanced_classes_weigh_the_same() -> None:
    few = [text for text, label in zip(TEXTS, LABELS, strict=True) if label == "pos"][:6]
    many = [text for text, label in zip(TEXTS, LABELS, strict=True) if label == "neg"]
    texts, labels = [*few, *many], ["pos"] * len(few) + ["neg"] * len(many)
    more = {"training.epochs": 2}

    plain = tiny(settings=more).fit(texts, labels).predict_proba(few)[:, 1].mean()
    balanced = tiny(settings=more, class_weight="balanced").fit(texts, labels)

    assert balanced.predict_proba(few)[:, 1].mean() > plain


def test_class_weights_take_integer_labels() -> None:
    y = [int(label == "pos") for label in LABELS]

    classifier = tiny(class_weight={0: 1.0, 1: 5.0}).fit(TEXTS, y)

    assert classifier.recipe_.training.class_weight == {"0": 1.0, "1": 5.0}


def test_it_stops_by_the_texts_that_are_given() -> None:
    classifier = tiny().fit(TEXTS, LABELS, validation_data=(NEW, ["neg", "pos"] * 10))

    assert len(classifier.history_) == 2


def test_the_parameters_come_to_a_recipe(tmp_path: Any) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('extends = "paper"\nseed = 5\n[model]\nheads = 4\n')

    from_file = TextClassifier(recipe=str(file)).resolve()
    from_both = TextClassifier("san", heads=7, settings={"training.gradient_clip": 2.0}).resolve()

    assert (from_file.seed, from_file.model.heads) == (5, 4)
    assert (from_both.model.name, from_both.model.heads, from_both.training.gradient_clip) == (
        "san",
        7,
        2.0,
    )


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_a_recipe_comes_back_whole_even_where_it_says_more_than_its_system_reads(name: str) -> None:
    recipe = resolve_recipe(model=name)

    classifier = TextClassifier.of_recipe(recipe)

    assert clone(classifier).resolve() == recipe
    assert classifier.set_params(dropout=0.3).resolve().model.dropout == 0.3


def test_grid_search_reaches_every_setting_by_name() -> None:
    grid = {"training__weight_decay": [0.0, 0.1], "ngrams__svm_c": [0.5]}
    search = GridSearchCV(tiny(), grid, cv=2).fit(np.array(TEXTS), LABELS)

    assert search.best_estimator_.recipe_.training.weight_decay in (0.0, 0.1)
    assert search.best_estimator_.recipe_.ngrams.svm_c == 0.5
    assert search.best_estimator_.get_params()["ngrams__svm_c"] == 0.5


def test_an_unknown_setting_in_set_params_gets_a_hint() -> None:
    with pytest.raises(
        ConfigError, match=r"training\.weight_decy\. Did you mean training\.weight_d"
    ):
        TextClassifier().set_params(training__weight_decy=0.1)


def test_a_random_state_object_draws_the_seed() -> None:
    first, again = (TextClassifier(random_state=np.random.RandomState(3)) for _ in range(2))

    seeds = [first.resolve().seed, first.resolve().seed]
    assert seeds == [again.resolve().seed, again.resolve().seed]
    assert seeds[0] != seeds[1]


# Mistakes


MISTAKES: dict[str, tuple[Any, Any, str]] = {
    "one class": (TEXTS, ["a"] * 60, "all 60 texts have the label 'a'. .* at least two classes"),
    "more texts": (TEXTS, LABELS[:-1], "60 texts but 59 labels. Give one label for each text"),
    "more labels": (TEXTS[:-2], LABELS, "58 texts but 60 labels"),
    "None": ([*TEXTS[:3], None, *TEXTS[4:]], LABELS, r"texts\[3\] is None .*expected str. .*empty"),
    "number": ([*TEXTS[:3], 3.5, *TEXTS[4:]], LABELS, r"texts\[3\] is 3.5 \(float\), expected str"),
    "nan": (pd.Series([*TEXTS[:3], np.nan, *TEXTS[4:]]), LABELS, r"texts\[3\] is nan"),
    "bytes": ([b"a", b"b"] * 30, LABELS, r"texts\[0\] is b'a' \(bytes\)"),
    "numbers": (np.ones(60), LABELS, r"texts\[0\] is"),
    "matrix": (np.ones((60, 2)), LABELS, r"one column of texts, got ndarray of shape \(60, 2\)"),
    "frame": (pd.DataFrame({"a": TEXTS, "b": TEXTS}), LABELS, "one column of texts"),
    "one text": ("a film", ["pos"], r"got one text. Wrap it in a list: \[text\]"),
    "no list": (None, LABELS, "expected a list of texts, got NoneType"),
    "no texts": ([], [], "there are no texts. Give at least two"),
    "Arrow null": (pa.chunked_array([["a", None] * 30]), LABELS, r"texts\[1\] is None"),
    "no labels": (TEXTS, None, "expected a list of labels, .*got NoneType"),
    "one label": (TEXTS, "pos", "expected a list of labels, .*got one str"),
    "mixed": (TEXTS, ["a", 1] * 30, "all str, all int or all bool, got int and str"),
    "None label": (TEXTS, [None, "a"] * 30, r"labels\[0\] is None .*expected a str, int or bool"),
    "nan label": (TEXTS, [float("nan"), 1.0] * 30, r"labels\[0\] is nan"),
    "part label": (TEXTS, [0.5, 1.0] * 30, r"labels\[0\] is 0.5 \(float\)"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_wrong_data_gets_an_error_that_says_what_to_do(case: str) -> None:
    texts, labels, message = MISTAKES[case]

    with pytest.raises(DataError, match=message):
        tiny().fit(texts, labels)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (["ann"] * 59, r"60 texts, but groups for only 59\. Give one group, such as a customer"),
        (["ann"] * 61, r"60 texts, but groups for 61\. Give one group, such as a customer, for"),
        ("ann", "expected a list of groups, one for each text, got one str"),
        (7, "expected a list of groups, one for each text, got int"),
        ({*range(60)}, "got set"),
        (dict.fromkeys(range(60)), "got dict"),
        (np.zeros((60, 2)), r"got an array of shape \(60, 2\)"),
        (np.array(7), r"got an array of shape \(\)"),
    ],
)
def test_wrong_groups_get_an_error_that_says_what_to_do(groups: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        tiny().fit(TEXTS, LABELS, groups=groups)


def test_missing_groups_are_no_group_and_names_may_look_like_them() -> None:
    values = pd.Series([None, float("nan"), pd.NaT, pd.NA, "None", "nan", 1], dtype=object)

    assert group_column(values, 7).to_pylist() == ["", "", "", "", "None", "nan", "1"]


def test_a_group_has_the_same_name_next_to_missing_groups() -> None:
    numbers, with_a_gap = pd.Series([1, 2, 3]), pd.Series([1, None, 3])

    assert group_column(numbers, 3).to_pylist() == ["1", "2", "3"]
    assert group_column(with_a_gap, 3).to_pylist() == ["1", "", "3"]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ((TEXTS, LABELS, None, None), "has 4 parts"),
        ((TEXTS,), "has 1 part"),
        (5, "is of type int"),
        ("no", "is of type str"),
        (pd.DataFrame({"text": NEW[:2], "label": LABELS[:2]}), "is of type DataFrame"),
    ],
)
def test_validation_data_has_two_or_three_parts(data: Any, found: str) -> None:
    expected = r"expected \(texts, labels\) or \(texts, labels, groups\)\."

    with pytest.raises(DataError, match=rf"^validation_data {found}, {expected}"):
        tiny().fit(TEXTS, LABELS, validation_data=data)


def test_texts_of_a_group_are_held_out_together(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Split] = []

    def remember(labels: Any, fraction: float, seed: int, groups: TextGroups) -> Split:
        seen.append(hold_out_validation(labels, fraction, seed, groups))
        return seen[-1]

    monkeypatch.setattr("lamatext.training.trainer.hold_out_validation", remember)
    texts = [f"{text} {'very ' * number}good" for number, text in enumerate(TEXTS)]
    customers = np.array([None, *(number % 12 for number in range(1, 60))])
    tiny().fit(texts, LABELS, groups=customers)

    (split,) = seen
    trained, held_out = (set(customers[part]) - {None} for part in (split.train, split.validation))
    assert held_out
    assert not trained & held_out


@pytest.mark.parametrize("given", [["a", None], [1, 2], "a film", None, np.ones((2, 2))])
def test_wrong_texts_are_refused_in_prediction_too(given: Any, fitted: TextClassifier) -> None:
    for method in (fitted.predict, fitted.predict_proba, fitted.transform):
        with pytest.raises(DataError, match="expected"):
            method(given)


def test_only_a_text_is_explained(fitted: TextClassifier) -> None:
    with pytest.raises(DataError, match="expected str"):
        fitted.explain(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": "lamma"}, "unknown model 'lamma'. Did you mean lama"),
        ({"recipe": "papr"}, "unknown recipe 'papr'. Did you mean paper"),
        ({"heads": 0}, "TextClassifier: model.heads = 0"),
        ({"model": "cnn"}, "TextClassifier: model.hidden_size has no effect in cnn, only in lama"),
        ({"settings": {"model.head": 1}}, "unknown setting model.head. Did you mean model.heads"),
        ({"device": "gpu"}, "unknown device 'gpu'. Use auto, cpu or cuda"),
        ({"class_weight": "even"}, "class_weight"),
        ({"class_weight": {"maybe": 1.0}}, "names the class 'maybe'"),
        ({"random_state": -1}, "seed"),
        ({"word_vectors": "no/such/file.txt"}, "no such file. Use word2vec, svd, random"),
    ],
)
def test_a_wrong_parameter_is_refused_by_fit(values: dict[str, Any], message: str) -> None:
    settings = {"settings": TINY | values.pop("settings", {})}
    if "word_vectors" in values:
        del settings["settings"]["text.word_vectors"]

    with pytest.raises(ConfigError, match=message):
        TextClassifier(**({"device": "cpu"} | settings | values)).fit(TEXTS, LABELS)


def test_validation_texts_with_an_unknown_label_are_refused() -> None:
    with pytest.raises(DataError, match=r"has the label 'meh', which is not among"):
        tiny().fit(TEXTS, LABELS, validation_data=(["a film"], ["meh"]))


def test_errors_are_values_errors_too() -> None:
    with pytest.raises(ValueError, match="60 texts but 1 label") as caught:
        tiny().fit(TEXTS, ["a"])

    assert isinstance(caught.value, LamatextError)


def test_a_label_seen_once_stays_in_training_with_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"seen once stays in training.*: odd\."):
        classifier = tiny().fit([*TEXTS, "an odd film"], [*LABELS, "odd"])

    assert classifier.classes_.tolist() == ["neg", "odd", "pos"]
    assert classifier.predict_proba(NEW).shape == (len(NEW), 3)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_handful_of_texts_is_enough(count: int) -> None:
    labels = ["a", "b", "a", "b", "a"][:count]

    with pytest.warns(UserWarning, match=r"too few to hold out|seen once"):
        classifier = tiny().fit(TEXTS[:count], labels)

    assert classifier.predict(NEW).shape == (len(NEW),)


@pytest.mark.parametrize(
    "text",
    ["", " \n\t", "\x00\x1b[31m", "\ud800 half", "word " * 30_000, "这是一部好电影",
     "هذا فيلم رائع", "🙂👩‍👩‍👧🏳️‍🌈"],
)  # fmt: skip
def test_odd_texts_are_read(text: str, fitted: TextClassifier) -> None:
    assert fitted.predict([text]).shape == (1,)
    assert fitted.explain(text).text == text
    assert tiny().fit([*TEXTS, text], [*LABELS, "pos"]).predict([text]).shape == (1,)


def test_bool_labels_come_back_as_bool(tmp_path: Path) -> None:
    labels = [label == "pos" for label in LABELS]
    for column in (labels, np.array(labels), np.array(labels, dtype=object)):
        classifier = tiny().fit(TEXTS, column)
        loaded = TextClassifier.load(classifier.save(tmp_path / "model"))

        for model in (classifier, loaded, Predictor.load(tmp_path / "model")):
            assert model.predict(NEW).dtype == np.bool_
            assert model.explain(NEW[0]).predicted in (True, False)
            assert isinstance(model.explain(NEW[0]).predicted, bool)
        assert 0 <= classifier.score(TEXTS, column) <= 1


def test_empty_texts_are_flagged_with_their_rows() -> None:
    classifier = trained()

    with pytest.warns(UserWarning, match=r"2 of 3 texts are empty \(rows 0, 2, counted from 0\)"):
        labels = classifier.predict(["", "a film", " \n"])
    with pytest.warns(UserWarning, match=r"1 of 1 text is empty"):
        classifier.predict_proba([""])
    with pytest.warns(UserWarning, match=r"1 of 2 texts is empty"):
        classifier._predictor().predict(["a", ""])

    assert len(labels) == 3
