"""The model card shows labels literally, whatever characters they contain."""

import re
from typing import Any

import pytest
from markdown_it import MarkdownIt

from lamatext.data.read_options import Layout, source_title
from lamatext.errors import percent_range
from lamatext.metrics import wilson_interval
from lamatext.recipes import load_recipe
from lamatext.saved.model_card import data_facts, model_card, training_facts

LABELS = [
    "plain",
    "pos & <b>good</b>",
    "a`b",
    "``",
    "_x_ *y* #z [l](m)",
    "<script>alert(1)</script>",
]


@pytest.fixture
def config() -> dict[str, Any]:
    recipe = load_recipe("default").model_dump()
    return {"recipe": recipe, "lamatext": "0", "labels": LABELS, "data": {"source": "texts.csv"}}


def test_labels_are_shown_literally(config: dict[str, Any]) -> None:
    card = model_card(config, {})

    parsed = MarkdownIt().parse(body_of(card))
    shown = [
        part.content
        for token in parsed
        for part in token.children or []
        if part.type == "code_inline"
    ]
    assert shown[1 : 1 + len(LABELS)] == LABELS
    assert "<script>" not in MarkdownIt().render(body_of(card))


def test_spaces_at_the_ends_of_labels_show(config: dict[str, Any]) -> None:
    config["labels"] = ["b", "b ", " b", "b  c", "b\n", ""]

    card = model_card(config, {})

    assert "for 6 classes: `b`, `'b '`, `' b'`, `'b  c'`, `'b\\n'`, `''`." in card


def test_the_training_run_is_described_in_plain_words(config: dict[str, Any]) -> None:
    run = {"best_epoch": 7, "validation_accuracy": 0.875, "seconds": 1.62}
    both, alone = ({"ngrams": 3.5, "network": weight} for weight in (0.02, 0))

    assert training_facts(config | {"training": run | {"scales": both}}) == {
        "validation accuracy": "87.5 %",
        "decides by": "n-grams and network",
        "best epoch of the network": "7",
        "training time of the network": "1.6 s",
    }
    of_ngrams = training_facts(config | {"training": run | {"scales": alone}})
    assert of_ngrams["decides by"] == "n-grams alone (the network has weight 0)"
    assert "best epoch of the network" not in of_ngrams
    assert training_facts(config) == {}
    card = model_card(config | {"training": run}, {})
    assert "## Training\n\n- validation accuracy: 87.5 %\n- best epoch of the network: 7" in card


def test_percentages_are_written_with_a_space(config: dict[str, Any]) -> None:
    shares = {"threshold": 0.94861, "answered": 0.5, "accuracy": 0.9, "low": 0.8, "high": 0.95}

    card = model_card(config | {"label_noise": 0.12, "unsure": shares | {"texts": 1200}}, {})

    assert "About 12 % of the labels" in card
    assert "labels that are wrong just as often, so none is above 88 %. List the suspects" in card
    assert "Below a probability of 94.86 % it is unsure. On 1,200 texts it answered 50.0 %" in card
    assert not re.search("[0-9]%", card)


def test_scores_are_a_table_with_one_row_per_model(config: dict[str, Any]) -> None:
    row = {"model": "lamatext", "accuracy": 0.91234, "macro_f1": 0.9, "bytes": 2_500_000}
    baseline = {**row, "model": "fastText", "accuracy": 0.5}
    leaderboard = [{**scores, "texts_per_second": 1234.5} for scores in (row, baseline)]

    card = model_card(config, {"leaderboard": leaderboard})

    assert "| lamatext | 91.2 % | 0.900 | 2.5 MB | 1,234 |" in card
    assert "| fastText | 50.0 % |" in card


def test_scores_have_intervals_if_the_number_of_test_texts_is_known(config: dict[str, Any]) -> None:
    row = {"model": "a", "accuracy": 0.9, "macro_f1": 0.9, "bytes": 1, "texts_per_second": 1.0}

    card = model_card(config, {"leaderboard": [row], "test": {"texts": 100}})

    low, high = wilson_interval(0.9, 100)
    assert "| model | accuracy | macro-F1 | 95 % interval of the accuracy | size |" in card
    assert f"| a | 90.0 % | 0.900 | {percent_range(low, high)} | 0.0 MB |" in card


def test_facts_about_the_data_are_words_without_empty_ones() -> None:
    layout = Layout(("Subject", "Body"), ("Queue",), group_column="customer").as_json()
    data = {"source": "a.csv", "texts": 5, "training_texts": 1200, "lesson": "", "folds": 5,
            "test_texts": 0, "fingerprint": "0", "left_out_rows": [1, 2]}  # fmt: skip

    assert data_facts({**data, "layout": layout}) == {
        "source": "a.csv",
        "training texts": "1,200",
        "rows that --without left out": "2",
        "scored by": "5-fold cross-validation",
        "columns of the texts": "Subject, Body",
        "column of the labels": "Queue",
        "group column": "customer",
        "encoding": "utf-8",
    }


def test_training_texts_that_are_held_out_for_validation_are_mentioned() -> None:
    data = {"training_texts": 1200, "test_texts": 300}

    assert data_facts(data)["training texts"] == "1,200, some of them for validation"
    assert data_facts({**data, "validation_texts": 100})["training texts"] == "1,200"


def test_examples_are_shown_literally_with_their_labels(config: dict[str, Any]) -> None:
    card = model_card(config, {"examples": [{"text": "<b>a</b> *film*\n# x", "label": "a`b"}]})

    assert "<li>&lt;b&gt;a&lt;/b&gt; *film* # x (<code>a`b</code>)</li>" in html_of(card)


def body_of(card: str) -> str:
    """Return the Markdown of a card, without the metadata for the Hub."""
    return card.split("\n---\n", 1)[1]


def html_of(card: str) -> str:
    html: str = MarkdownIt().render(body_of(card))
    return html.replace("&#60;", "&lt;").replace("&#62;", "&gt;")


def metadata_of(card: str) -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    assert card.startswith("---\n")
    metadata: dict[str, Any] = yaml.safe_load(card[4:].split("\n---\n", 1)[0])
    return metadata


def test_the_metadata_is_what_the_hub_reads(config: dict[str, Any]) -> None:
    config["data"]["source"] = 'a: "b"\n---\n{c}'

    metadata = metadata_of(model_card(config, {"test": {"accuracy": 0.9, "macro_f1": 0.8}}))

    assert metadata["library_name"] == "lamatext"
    assert metadata["pipeline_tag"] == "text-classification"
    assert metadata["metrics"] == ["accuracy", "f1"]
    result = metadata["model-index"][0]["results"][0]
    assert result["dataset"]["name"] == config["data"]["source"]
    assert {score["name"]: score["value"] for score in result["metrics"]} == {
        "accuracy": 0.9,
        "macro-F1": 0.8,
    }


def test_the_card_names_files_without_their_folders(config: dict[str, Any]) -> None:
    config["data"] = {"source": "/home/me/reviews.csv", "test_source": "/home/me/test/"}
    config["ancestors"] = [{"hash": None, "data": {"source": "/home/me/old.csv"}}]

    card = model_card(config, {"test": {"accuracy": 0.9, "macro_f1": 0.8}})

    entry = metadata_of(card)["model-index"][0]
    assert entry["name"] == entry["results"][0]["dataset"]["name"] == "reviews.csv"
    assert "# Text classifier: reviews.csv\n" in card
    assert "- test source: test\n" in card
    assert "trained on `old.csv`" in card
    assert "/home" not in card


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("r8", "r8"),
        ("hf:a/b", "hf:a/b"),
        ("-", "standard input"),
        ("..", ".."),
        (".", "."),
        ("a/b/", "b"),
    ],
)
def test_a_source_is_named_in_titles_without_its_folders(source: str, title: str) -> None:
    assert source_title(source) == title


def test_the_hub_accepts_the_metadata(config: dict[str, Any]) -> None:
    hub = pytest.importorskip("huggingface_hub")

    data = hub.ModelCard(model_card(config, {"test": {"accuracy": 0.9, "macro_f1": 0.8}})).data

    assert (data.library_name, data.pipeline_tag) == ("lamatext", "text-classification")
    assert [(one.metric_type, one.metric_value) for one in data.eval_results] == [
        ("accuracy", 0.9),
        ("f1", 0.8),
    ]


def test_a_model_without_test_scores_claims_none(config: dict[str, Any]) -> None:
    metadata = metadata_of(model_card(config, {}))

    assert metadata.keys() == {"library_name", "pipeline_tag", "tags"}


def test_the_card_names_the_teacher_its_licence_and_both_accuracies(
    config: dict[str, Any],
) -> None:
    teacher = {"name": "minilm", "licence": "Apache-2.0", "variants": 8, "validation_accuracy": 0.9}
    config |= {"teacher": teacher, "training": {"best_epoch": 1, "validation_accuracy": 0.875}}

    card = model_card(config, {})

    assert "learned from `minilm` (licence Apache-2.0)" in card
    assert "its accuracy is 87.5 %, its teacher's 90.0 %" in card
    teacher["teachers"] = 3
    assert "(licence Apache-2.0), fine-tuned 3 times and averaged," in model_card(config, {})
