from collections.abc import Iterator

import numpy as np
import pytest
import torch

from lamatext.explain.global_words import TextRead, global_words, head_differences
from lamatext.nn.losses import disagreement_over_embeddings, disagreement_over_positions
from tests.explain.models import Floats, softmax

WORDS = ("<pad>", "<unk>", "good", "bad", "the", "film", "bank")
GOOD, BAD, THE, FILM, BANK = range(2, 7)
RANDOM = np.random.default_rng(0)


def read_of(ids: list[int], *, heads: Floats | None) -> TextRead:
    """A text whose words contribute what they mean; ``bank`` is looked at only after ``good``."""
    text = " ".join(WORDS[i] for i in ids)
    ends = np.cumsum([len(WORDS[i]) + 1 for i in ids]) - 1
    spans = [(int(end) - len(WORDS[i]), int(end)) for i, end in zip(ids, ends, strict=True)]
    meaning = np.array([{GOOD: 1.0, BAD: -1.0}.get(i, 0.0) for i in ids], np.float32)
    embedding = None if heads is None else RANDOM.normal(size=(len(heads), 4)).astype(np.float32)
    shares = np.stack([-meaning, meaning])
    return TextRead(text, np.array(ids, np.int32), spans, shares, heads, embedding)


def corpus(n: int = 60) -> Iterator[TextRead]:
    for row in range(n):
        first = GOOD if row % 2 else BAD
        ids = [first, THE, FILM, BANK, 1]
        eyes = np.array([[4, 0, 0, 0, 0], [0, 0, 0, 4 * (first == GOOD), 0]], np.float32)
        yield read_of(ids, heads=softmax(eyes))


def test_words_are_ranked_for_the_class_they_speak_for() -> None:
    found = global_words(corpus(), vocabulary=WORDS, labels=["neg", "pos"])

    assert found.texts == 60
    assert [word.word for word in found.classes["pos"]] == ["good"]
    assert [word.word for word in found.classes["neg"]] == ["bad"]
    best = found.classes["pos"][0]
    assert best.times == 30
    assert best.score == pytest.approx(30 / 35)  # 30 times 1, drawn to 0 by five
    assert best.example == "good the film bank <unk>"


def test_heads_show_what_they_look_at_and_context_what_changes_it() -> None:
    found = global_words(corpus(), vocabulary=WORDS, labels=["neg", "pos"])

    assert {word.word for word in found.heads[0][:2]} == {"good", "bad"}
    assert found.heads[1][0].word == "bank"
    assert found.contextual[0].word == "bank"
    assert found.contextual[0].example


def test_reserved_and_rare_words_are_not_ranked() -> None:
    found = global_words(corpus(4), vocabulary=WORDS, labels=["neg", "pos"], min_count=3)

    assert not found.classes["pos"]
    assert all(word.word != "<unk>" for words in found.heads for word in words)


def test_head_differences_are_the_losses_of_the_paper() -> None:
    weights = softmax(RANDOM.normal(size=(3, 7)).astype(np.float32))
    embedding = RANDOM.normal(size=(3, 5)).astype(np.float32)

    positions, embeddings, overlap = head_differences(weights, embedding)

    tensors = torch.from_numpy(weights)[None], torch.from_numpy(embedding)[None]
    assert positions == pytest.approx(disagreement_over_positions(tensors[0]).item(), abs=1e-5)
    assert embeddings == pytest.approx(disagreement_over_embeddings(tensors[1]).item(), abs=1e-5)
    assert 0 < overlap < 1
    same = np.repeat(weights[:1], 3, axis=0)
    assert head_differences(same, embedding)[2] == pytest.approx(1)


def test_a_system_without_attention_has_classes_alone() -> None:
    reads = [read_of([GOOD, FILM], heads=None)] * 6

    found = global_words(reads, vocabulary=WORDS, labels=["neg", "pos"])

    assert [word.word for word in found.classes["pos"]] == ["good"]
    assert not found.heads
    assert not found.contextual
    assert found.differences is None


def test_an_example_is_cut_around_its_word() -> None:
    ids = [FILM] * 40 + [GOOD] + [FILM] * 40

    found = global_words([read_of(ids, heads=None)] * 6, vocabulary=WORDS, labels=["neg", "pos"])

    example = found.classes["pos"][0].example
    assert "good" in example
    assert example[0] == example[-1] == "…"
    assert len(example) < 100
