"""What ``import lamatext`` offers; a change here is a change for every user."""

import inspect
from importlib.metadata import version
from pathlib import Path

import pytest

import lamatext
import lamatext.nn


def test_the_names_are_these() -> None:
    assert sorted(lamatext.__all__) == [
        "ConfigError",
        "DataError",
        "Explanation",
        "LamatextError",
        "MissingExtraError",
        "ModelError",
        "Predictor",
        "TextClassifier",
    ]
    assert "LowRankAttention" in lamatext.nn.__all__


@pytest.mark.parametrize("name", lamatext.__all__)
def test_every_name_is_there_and_says_what_it_is(name: str) -> None:
    found = getattr(lamatext, name)

    assert inspect.isclass(found)
    assert found.__doc__


def test_any_other_name_is_not() -> None:
    with pytest.raises(AttributeError, match="module 'lamatext' has no attribute 'Classifier'"):
        _ = lamatext.Classifier


def test_the_names_are_listed() -> None:
    assert dir(lamatext) == sorted([*lamatext.__all__, "__version__"])


@pytest.mark.parametrize("name", ["TextClassifier", "Predictor"])
def test_every_method_says_what_comes_out(name: str) -> None:
    for method, function in inspect.getmembers(getattr(lamatext, name), inspect.isfunction):
        own = function.__module__.startswith("lamatext")
        assert method.startswith("_") or not own or function.__doc__, method


def test_both_predict_by_the_same_names() -> None:
    for method in ("predict", "predict_proba", "transform", "explain"):
        ours, theirs = (
            getattr(cls, method) for cls in (lamatext.TextClassifier, lamatext.Predictor)
        )
        required, also = (
            [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
            for function in (ours, theirs)
        )
        assert len(required) == len(also)


def test_errors_are_also_the_errors_python_has_for_them() -> None:
    assert issubclass(lamatext.DataError, ValueError)
    assert issubclass(lamatext.ConfigError, ValueError)
    assert issubclass(lamatext.MissingExtraError, ImportError)
    for name in ("DataError", "ConfigError", "ModelError", "MissingExtraError"):
        assert issubclass(getattr(lamatext, name), lamatext.LamatextError)


def test_the_version_is_the_packages() -> None:
    assert lamatext.__version__ == version("lamatext")


def test_types_are_shipped() -> None:
    assert (Path(lamatext.__file__).parent / "py.typed").is_file()
