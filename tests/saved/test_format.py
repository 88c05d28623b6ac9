import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from lamatext import Predictor, TextClassifier
from lamatext.data.read_options import Layout
from lamatext.data.text_encoder import TextEncoder
from lamatext.errors import ModelError
from lamatext.saved.format import (
    CONFIG,
    METRICS,
    RENAMED,
    checksum,
    folder_size,
    load_config,
    load_metrics,
    ngrams_file,
    saved_recipe,
)
from lamatext.saved.json_types import check_config_types
from lamatext.settings import setting_names
from lamatext.views.web_model import describe_model
from tests.corpora import TINY, reviews

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture(scope="module")
def saved_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    classifier = TextClassifier(settings=TINY, device="cpu").fit(*reviews(60))
    return classifier.save(tmp_path_factory.mktemp("models") / "model")


@pytest.fixture
def folder(saved_folder: Path, tmp_path: Path) -> Path:
    """A copy to break."""
    return shutil.copytree(saved_folder, tmp_path / "model")


def edit_config(folder: Path, change: Callable[[dict[str, object]], object]) -> None:
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    change(config)
    (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")


def update_checksums(folder: Path) -> None:
    """Write the checksums of the files as they are into the config."""
    edit_config(
        folder,
        lambda config: config.update(
            files={path.name: checksum(path) for path in folder.iterdir() if path.name != CONFIG}
        ),
    )


def set_in(folder: Path, *keys: str, value: object) -> None:
    def change(config: dict[str, object]) -> None:
        node = config
        for key in keys[:-1]:
            node = node[key]  # type: ignore[assignment]
        node[keys[-1]] = value

    edit_config(folder, change)


def other_vocabulary(folder: Path) -> None:
    with (folder / "vocab.txt").open("a", encoding="utf-8") as file:
        file.write("onemore\n")
    update_checksums(folder)


def other_weights(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["embedding.weight"] = tensors["embedding.weight"][:, :-1].copy()
    save_file(tensors, folder / "model.safetensors")
    update_checksums(folder)


def no_embedding(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["embedding.weight"]
    save_file(tensors, folder / "model.safetensors")
    update_checksums(folder)


def cut(name: str, keep: int) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / name
        path.write_bytes(path.read_bytes()[:keep])

    return change


def flip(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        content = bytearray((folder / name).read_bytes())
        content[-7] ^= 0x10
        (folder / name).write_bytes(content)

    return change


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def checksummed(change: Callable[[Path], object]) -> Callable[[Path], None]:
    def both(folder: Path) -> None:
        change(folder)
        update_checksums(folder)

    return both


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "no folder": (shutil.rmtree, "no such folder. Expected a folder written by lamatext train"),
    "empty": (empty, "no config.json, so it is not a saved"),
    "no config": (lambda f: (f / CONFIG).unlink(), "no config.json"),
    "config cut": (cut(CONFIG, 40), "config.json: not the config of a saved model"),
    "config empty": (cut(CONFIG, 0), "config.json: not the config"),
    "config a list": (lambda f: (f / CONFIG).write_text("[1]"), "config.json: not the config"),
    "config binary": (lambda f: (f / CONFIG).write_bytes(b"\xff\x00"), "config.json: not the"),
    "config deep": (lambda f: (f / CONFIG).write_text("[" * 99_999), "config.json: not the config"),
    "no format": (lambda f: edit_config(f, lambda c: c.pop("format")), "not the config"),
    "later format": (lambda f: set_in(f, "format", value=3), "format 3 .* formats 1 and 2. Upg"),
    "no labels": (lambda f: edit_config(f, lambda c: c.pop("labels")), "expected labels"),
    "one label": (lambda f: set_in(f, "labels", value=["a"]), "expected labels"),
    "equal labels": (lambda f: set_in(f, "labels", value=["a", "a"]), "expected labels"),
    "mixed labels": (lambda f: set_in(f, "labels", value=["a", 1]), "expected labels"),
    "list labels": (lambda f: set_in(f, "labels", value=[["a"], ["b"]]), "expected labels"),
    "no storage": (lambda f: edit_config(f, lambda c: c.pop("storage")), "expected storage to be"),
    "other storage": (lambda f: set_in(f, "storage", value="int4"), "one of .* got int4"),
    "all labels wrong": (
        lambda f: set_in(f, "label_noise", value=0.5),
        "label_noise to be a number of at least 0 and below 0.5, got '0.5'",
    ),
    "noise a string": (lambda f: set_in(f, "label_noise", value="0.2"), "label_noise to be a num"),
    "noise of several labels": (
        lambda f: edit_config(
            f, lambda c: c.update(label_noise=0, multi_label={
                "thresholds": [0.5] * len(str(c["labels"]).split()), "indicator": False,
            })
        ),
        "label_noise to be absent from a multi-label model, got '0'",
    ),
    "texts a string": (lambda f: set_in(f, "data", "texts", value="9"), "data.texts to be a whole"),
    "lesson a list": (lambda f: set_in(f, "data", "lesson", value=[]), "data.lesson to be a str"),
    "scales a list": (lambda f: set_in(f, "training", "scales", value=[]), "training.scales to be"),
    "no settings": (lambda f: edit_config(f, lambda c: c.pop("recipe")), "has no settings"),
    "unknown setting": (
        lambda f: set_in(f, "recipe", "model", "wings", value=2),
        "settings cannot be read: model.wings: Extra inputs .*later version",
    ),
    "unknown reading": (
        checksummed(lambda f: (f / "tokenizer.json").write_text('{"stems": true}')),
        "tokenizer.json: stems is not known to this version. Upgrade",
    ),
    "recipe a number": (lambda f: set_in(f, "recipe", value=3), "settings cannot be read"),
    "no list of files": (lambda f: edit_config(f, lambda c: c.pop("files")), "does not list"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "model.safetensors is missing"),
    "no vocabulary": (lambda f: (f / "vocab.txt").unlink(), "vocab.txt is missing"),
    "vocabulary not listed": (
        lambda f: edit_config(f, lambda c: c["files"].pop("vocab.txt")),  # type: ignore[attr-defined]
        "config.json: does not list vocab.txt",
    ),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "tokenizer.json is missing"),
    "no graph": (lambda f: (f / "model.onnx").unlink(), "model.onnx is missing"),
    "no metrics": (lambda f: (f / "metrics.json").unlink(), "metrics.json is missing"),
    "weights cut": (cut("model.safetensors", 500), "model.safetensors: damaged, or from another"),
    "weights damaged": (flip("model.safetensors"), "model.safetensors: damaged"),
    "graph damaged": (flip("model.onnx"), "model.onnx: damaged"),
    "vocabulary damaged": (flip("vocab.txt"), "vocab.txt: damaged"),
    "weights cut, checksum right": (checksummed(cut("model.safetensors", 500)), "not a valid saf"),
    "tokenizer cut, checksum right": (checksummed(cut("tokenizer.json", 9)), "cannot be read as"),
    "tokenizer a list": (
        checksummed(lambda f: (f / "tokenizer.json").write_text("[]")),
        "expected a JSON object",
    ),
    "tokenizer empty": (
        checksummed(lambda f: (f / "tokenizer.json").write_text("{}")),
        "tokenizer.json: lowercase is missing",
    ),
    "other vocabulary": (other_vocabulary, r"embedding.weight is .* require .*different models"),
    "other width": (other_weights, r"embedding.weight is .* require"),
    "no embedding": (no_embedding, "embedding.weight is missing"),
    "other heads": (lambda f: set_in(f, "recipe", "model", "heads", value=4), "p.weight is"),
    "other hidden": (
        lambda f: set_in(f, "recipe", "model", "hidden_size", value=5),
        "weight_ih_l0 is",
    ),
    "other classifier": (
        lambda f: set_in(f, "recipe", "model", "classifier_width", value=7),
        "classifier.0.weight is",
    ),
    "more labels": (lambda f: set_in(f, "labels", value=["a", "b", "c"]), "validation.labels to"),
}  # fmt: skip


@pytest.mark.parametrize("load", [Predictor.load, TextClassifier.load])
@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_folder_is_an_error_with_its_reason(
    case: str, load: Callable[[Path], object], folder: Path
) -> None:
    change, message = BROKEN[case]
    change(folder)

    with pytest.raises(ModelError, match=message):
        load(folder)


def test_unknown_settings_that_only_training_reads_are_ignored(folder: Path) -> None:
    set_in(folder, "recipe", "training", "warm_restarts", value=3)
    set_in(folder, "recipe", "text", "vector_negative", value=5)

    assert Predictor.load(folder).predict(["a film"]).shape == (1,)


def test_a_file_is_not_a_model(folder: Path) -> None:
    with pytest.raises(ModelError, match=r"README.md: is a file. Expected a folder"):
        load_config(folder / "README.md")


def test_the_error_for_an_unfinished_run_says_how_to_continue(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.safetensors").write_bytes(b"")

    with pytest.raises(ModelError, match="Its training is unfinished: continue it with --resume"):
        Predictor.load(tmp_path)


@pytest.mark.parametrize("load", [Predictor.load, TextClassifier.load])
def test_a_model_of_format_1_predicts_the_same_probabilities(
    load: Callable[[Path], Predictor],
) -> None:
    expected = json.loads((FIXTURES / "expected-format-1.json").read_text(encoding="utf-8"))

    model = load(FIXTURES / "format-1")

    assert model.predict(expected["texts"]).tolist() == expected["labels"]
    np.testing.assert_allclose(
        model.predict_proba(expected["texts"]), expected["probabilities"], atol=1e-5
    )


def test_an_older_model_keeps_the_tokenizer_that_it_was_trained_with(tmp_path: Path) -> None:
    old = TextClassifier.load(FIXTURES / "format-1")
    old.save(tmp_path)

    for folder in (FIXTURES / "format-1", tmp_path):
        encoder = Predictor.load(folder).encoder
        assert isinstance(encoder, TextEncoder)
        assert encoder.tokenizer.words("ภาษาไทย") == ["ภาษาไทย"]
        assert describe_model(folder)["text"]["tokenizer_version"] == 1


def test_every_renamed_setting_of_format_1_exists() -> None:
    names = set(setting_names())

    for table, renamed in RENAMED.items():
        for new in renamed.values():
            assert f"{'ngrams' if table == 'wide' else table}.{new}" in names


def test_settings_of_format_1_are_read_under_their_current_names() -> None:
    folder = FIXTURES / "format-1"
    stored = json.loads((folder / CONFIG).read_text(encoding="utf-8"))["recipe"]

    recipe = saved_recipe(folder, load_config(folder))

    assert recipe.text.vector_width == stored["text"]["width"] == 8
    assert recipe.text.last_words == stored["text"]["tail"] == 300
    assert recipe.model.initial_temperature == stored["model"]["temperature"] == 8.0
    assert (stored["model"]["scores"], recipe.model.score_input) == ("u", "projected")
    assert recipe.training.batch_size == stored["training"]["batch"] == 32
    assert recipe.ngrams.max_megabytes == stored["wide"]["megabytes"] == 0.02


@pytest.mark.parametrize("load", [Predictor.load, TextClassifier.load])
def test_a_model_with_retired_settings_is_an_error(load: Callable[[Path], object]) -> None:
    with pytest.raises(ModelError, match=r"uses the setting model\.max_pool = True, which this"):
        load(FIXTURES / "retired-settings")


@pytest.mark.parametrize(
    ("table", "name", "value"),
    [
        ("model", "max_pool", True),
        ("model", "word_dropout", 0.1),
        ("training", "precision", "bfloat16"),
    ],
)
def test_each_retired_setting_in_use_is_named(
    table: str, name: str, value: object, tmp_path: Path
) -> None:
    folder = shutil.copytree(FIXTURES / "format-1", tmp_path / "model")
    set_in(folder, "recipe", table, name, value=value)

    with pytest.raises(ModelError, match=rf"setting {table}\.{name} = {value}.*Train the model"):
        Predictor.load(folder)


def test_a_saved_format_1_model_is_written_in_format_2(tmp_path: Path) -> None:
    expected = json.loads((FIXTURES / "expected-format-1.json").read_text(encoding="utf-8"))

    TextClassifier.load(FIXTURES / "format-1").save(tmp_path)

    assert load_config(tmp_path)["format"] == 2
    assert ngrams_file(tmp_path, load_config(tmp_path)) == tmp_path / "ngrams.safetensors"
    assert not (tmp_path / "wide.safetensors").exists()
    probabilities = Predictor.load(tmp_path).predict_proba(expected["texts"])
    np.testing.assert_allclose(probabilities, expected["probabilities"], atol=1e-5)


def test_an_n_gram_file_that_the_config_does_not_list_is_ignored(folder: Path) -> None:
    before = Predictor.load(folder).predict_proba(["a dull film"])
    shutil.copy(FIXTURES / "format-1" / "wide.safetensors", folder / "ngrams.safetensors")

    np.testing.assert_array_equal(Predictor.load(folder).predict_proba(["a dull film"]), before)


def test_a_stray_file_of_format_1_does_not_hide_the_n_gram_model(tmp_path: Path) -> None:
    TextClassifier.load(FIXTURES / "format-1").save(tmp_path)
    before = Predictor.load(tmp_path).predict_proba(["a dull film"])
    (tmp_path / "wide.safetensors").write_bytes(b"x")

    np.testing.assert_array_equal(Predictor.load(tmp_path).predict_proba(["a dull film"]), before)


def test_the_size_of_a_folder_is_that_of_its_files_without_metrics_and_model_card(
    folder: Path,
) -> None:
    uncounted = ("metrics.json", "README.md")
    expected = sum(path.stat().st_size for path in folder.iterdir() if path.name not in uncounted)
    (folder / "notes.txt").write_text("not part of the format")
    (folder / "metrics.json").write_text("{}" * 1_000)

    assert folder_size(folder) == expected


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("checkpoint.safetensors", "Its training is unfinished: continue it with --resume"),
        (".unfinished/model.onnx", "unfinished: repeat the command that writes it"),
        (".checkpoint.safetensors.0123abcd-7.lamatext", "It is empty or unfinished"),
        ("", "It is empty or unfinished"),
        ("notes.txt", r"not a saved model\.$"),
    ],
)
def test_a_folder_without_config_says_whether_it_is_unfinished(
    name: str, advice: str, tmp_path: Path
) -> None:
    if name:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    with pytest.raises(ModelError, match=advice):
        load_config(tmp_path)


@pytest.mark.parametrize("missing", Layout((), ()).as_json())
def test_a_layout_without_one_of_its_fields_loads_or_is_a_named_error(missing: str) -> None:
    layout = Layout(("text",), ("label",)).as_json()
    del layout[missing]

    with suppress(ModelError):
        check_config_types(Path("config.json"), {"data": {"layout": layout}})
        Layout.from_json(layout)


def test_columns_named_twice_are_refused() -> None:
    layout = {**Layout(("text",), ("label",)).as_json(), "text_columns": ["text", "text"]}

    with pytest.raises(ModelError, match="text_columns to be a list of distinct strings"):
        check_config_types(Path("config.json"), {"data": {"layout": layout}})


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400"])
@pytest.mark.parametrize(("load", "file"), [(load_config, CONFIG), (load_metrics, METRICS)])
def test_a_number_that_is_not_finite_is_refused(
    load: Callable[[Path], object], file: str, number: str, folder: Path
) -> None:
    path = folder / file
    path.write_text(path.read_text(encoding="utf-8").rstrip()[:-1] + f', "more": {number}}}')

    with pytest.raises(ModelError, match=rf"{file}: {number} is not a finite number"):
        load(folder)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("encoding", "nosuch-encoding"),
        ("encoding", "zlib"),
        ("encoding", "undefined"),
        ("separator", "\0"),
        ("separator", ";;"),
    ],
)
def test_a_layout_that_cannot_be_read_with_is_refused(field: str, value: str) -> None:
    layout = {**Layout(("text",), ("label",)).as_json(), field: value}

    with pytest.raises(ModelError, match=f"data.layout.{field}"):
        check_config_types(Path("config.json"), {"data": {"layout": layout}})


@pytest.mark.parametrize("values", [{"ngrams.max_words": 10**7}, {"seed": 10**30}])
def test_settings_that_would_take_endless_time_are_refused(
    values: dict[str, int], folder: Path
) -> None:
    config = json.loads((folder / CONFIG).read_text())
    for name, value in values.items():
        *sections, last = name.split(".")
        section = config["recipe"]
        for part in sections:
            section = section[part]
        section[last] = value
    (folder / CONFIG).write_text(json.dumps(config))

    with pytest.raises(ModelError, match=next(iter(values))):
        Predictor.load(folder)
