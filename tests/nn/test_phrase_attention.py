"""Phrase attention against its equations in float64, padding, parts, LAMA+ctx, and its phrases."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from lamatext.nn import phrase_attention
from lamatext.nn.attention import LowRankAttention
from lamatext.nn.network import Network, build_network
from lamatext.nn.phrase_attention import PhraseAttention, Phrases, Queries
from lamatext.settings import ModelSettings

B, T, D, E, M, V = 3, 11, 6, 5, 4, 20
LENGTHS = torch.tensor([11, 1, 6])
MASK = torch.arange(T) < LENGTHS[:, None]
ENDS = (4, 9)  # ids of punctuation marks


def attention(
    *, rank: int = 1, temperature: float | None = 3.0, l2: bool = True
) -> PhraseAttention:
    torch.manual_seed(1)
    words = LowRankAttention(D, M, E, rank=rank, temperature=temperature, l2=l2)
    phrases = LowRankAttention(D, M, E, rank=rank, temperature=temperature, l2=l2, project=False)
    layer = PhraseAttention(words, phrases).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.8)
    return layer


def texts() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return ids (B, T), embeddings (B, T, E), states (B, T, D) and contexts (B, E)."""
    torch.manual_seed(0)
    ids = torch.randint(2, V, (B, T))
    embedded = torch.randn(B, T, E, dtype=torch.float64)
    context = torch.stack([row[:n].mean(0) for row, n in zip(embedded, LENGTHS, strict=True)])
    return ids, embedded, torch.randn(B, T, D, dtype=torch.float64), context


def queries(words: int | None) -> Queries:
    ids, embedded, _, _ = texts()
    found: Queries = Phrases(words)(ids, embedded, MASK)
    return found


def by_the_book(
    layer: PhraseAttention, x: Tensor, h: Tensor, spans: list[list[int]]
) -> tuple[Tensor, Tensor]:
    """Compute phrase attention for one text, phrase by phrase, from docs/model.md."""
    c, a, s, g = x.mean(0), [], [], []
    for span in spans:
        f = layer.words.scores(h[None], x[span].mean(0)[None])[0]  # (T, M)
        a.append(f.softmax(0).T)  # (M, T)
        s.append(a[-1] @ h)  # (M, D)
        p, q, k = layer.phrases.p.weight @ c, layer.phrases.q.weight, layer.phrases.rank
        sums = [(p * (q @ s[-1][i]))[i * k : (i + 1) * k].sum() for i in range(M)]
        f = torch.stack(sums).tanh()
        f = f / f.norm() if layer.phrases.l2 else f
        tau = layer.phrases.log_temperature
        g.append(f if tau is None else f * tau.exp())
    b = torch.stack(g).softmax(0)  # (J, M)
    weights = torch.einsum("jm,jmt->mt", b, torch.stack(a))
    return torch.einsum("jm,jmd->md", b, torch.stack(s)), weights


@pytest.mark.parametrize("words", [1, 3, 4, None])
@pytest.mark.parametrize(("rank", "l2", "temperature"), [(1, True, None), (2, False, 3.0)])
def test_the_layer_is_its_equations(
    words: int | None, rank: int, l2: bool, temperature: float | None
) -> None:
    layer = attention(rank=rank, l2=l2, temperature=temperature)
    _, embedded, states, context = texts()

    fast = layer(states, MASK, context, queries(words))

    for row, n in enumerate(LENGTHS.tolist()):
        size = words or n
        spans = [list(range(start, min(start + size, n))) for start in range(0, n, size)]
        embedding, weights = by_the_book(layer, embedded[row, :n], states[row, :n], spans)
        torch.testing.assert_close(fast[0][row], embedding, rtol=0, atol=1e-12)
        torch.testing.assert_close(fast[1][row, :, :n], weights, rtol=0, atol=1e-12)
        assert fast[1][row, :, n:].eq(0).all()


@pytest.mark.parametrize("words", [1, 3])
def test_parts_of_the_phrases_give_the_same_results_and_gradients(
    words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = attention()
    _, _, states, context = texts()
    states.requires_grad_()

    def run() -> tuple[Tensor, ...]:
        embedding, weights = layer(states, MASK, context, queries(words))
        total = embedding.sin().sum() + weights.square().sum()
        return embedding, weights, *torch.autograd.grad(total, [states, *layer.parameters()])

    whole = run()
    monkeypatch.setattr(phrase_attention, "PART", 2 * B * T * M)  # two phrases at a time
    parts = run()

    for ours, theirs in zip(parts, whole, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_the_word_weights_give_the_embedding_exactly() -> None:
    _, _, states, context = texts()

    embedding, weights = attention()(states, MASK, context, queries(3))

    torch.testing.assert_close(weights @ states, embedding, rtol=0, atol=0)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, M, dtype=torch.float64))


def network(name: str, **values: object) -> Network:
    torch.manual_seed(0)
    sizes = {"hidden_size": 3, "heads": M, "classifier_width": 7, "initial_temperature": 2.0}
    model = ModelSettings.model_validate({"name": name, **sizes, **values})
    return build_network(model, vocabulary=V, width=E, classes=2).double().eval()


@pytest.mark.parametrize("words", [None, T, 50])
def test_one_phrase_is_lama_ctx(words: int | None) -> None:
    ours, lama = network("lama-phrases", phrases=words), network("lama-ctx")
    tensors = {
        name.replace("pooling.words.", "pooling."): tensor
        for name, tensor in ours.state_dict().items()
        if not name.startswith("pooling.phrases.")
    }
    lama.load_state_dict(tensors)
    ids = texts()[0]

    for one, other in zip(ours(ids, LENGTHS), lama(ids, LENGTHS), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_each_word_is_a_query_at_w_1() -> None:
    _, embedded, _, _ = texts()

    torch.testing.assert_close(queries(1).means[MASK], embedded[MASK], rtol=0, atol=0)
    assert torch.equal(queries(1).mask, MASK)


def test_the_queries_of_spans_are_the_means_up_to_each_punctuation_mark() -> None:
    _, embedded, _, _ = texts()
    ids = torch.tensor(
        [[5, 4, 6, 7, 9, 9, 8, 5, 5, 5, 4], [4] * T, [5, 6, 7, 4, 5, 6, 4, 4, 4, 4, 4]]
    )
    phrases = Phrases(vocabulary=V)
    assert isinstance(phrases.ends, Tensor)
    phrases.ends[list(ENDS)] = 1

    found = phrases(ids, embedded, MASK)

    expected = [[(0, 2), (2, 5), (5, 6), (6, 11)], [(0, 1)], [(0, 4), (4, 6)]]
    for row, spans in enumerate(expected):
        assert found.mask[row].sum() == len(spans)
        for number, (start, end) in enumerate(spans):
            mean = embedded[row, start:end].mean(0)
            torch.testing.assert_close(found.means[row, number], mean, rtol=0, atol=1e-12)


@pytest.mark.parametrize("make", [lambda: Phrases(3), lambda: Phrases(vocabulary=V)])
def test_padding_changes_no_phrase_and_no_output(make: Callable[[], Phrases]) -> None:
    layer, phrases = attention(), make()
    if isinstance(phrases.ends, Tensor):
        phrases.ends[list(ENDS)] = 1
    ids, embedded, states, context = texts()

    embedding, weights = layer(states, MASK, context, phrases(ids, embedded, MASK))

    for row, n in enumerate(LENGTHS.tolist()):
        part = (slice(row, row + 1), slice(n))
        alone = phrases(ids[part], embedded[part], MASK[part])
        one, its_weights = layer(states[part], MASK[part], context[row : row + 1], alone)
        torch.testing.assert_close(embedding[row], one[0], rtol=0, atol=1e-12)
        torch.testing.assert_close(weights[row, :, :n], its_weights[0], rtol=0, atol=1e-12)
