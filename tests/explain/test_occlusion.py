from functools import partial

import numpy as np
import pytest

from lamatext.data.token_ids import UNK, Ids
from lamatext.explain.contributions import batches, max_occlusions, occlusion, occlusion_window
from tests.explain.models import Floats, logits_of, make_network, random_texts


@pytest.mark.parametrize("name", ["cnn", "te", "bigru", "avg"])
def test_a_contribution_is_the_loss_of_the_logit_without_the_word(name: str) -> None:
    model = partial(logits_of, make_network(name))
    [ids] = random_texts(9)

    shares, base = occlusion(ids, model)

    for t in range(9):
        expected = model([ids])[0] - model([np.delete(ids, t)])[0]
        np.testing.assert_allclose(shares[:, t], expected, atol=1e-5)
    np.testing.assert_allclose(shares.sum(axis=1) + base, model([ids])[0], atol=1e-5)


def test_a_text_of_one_word_is_compared_with_an_unknown_word() -> None:
    model = partial(logits_of, make_network("avg"))
    [ids] = random_texts(1)

    shares, _ = occlusion(ids, model)

    expected = model([ids])[0] - model([np.array([UNK], np.int32)])[0]
    np.testing.assert_allclose(shares[:, 0], expected, atol=1e-6)


def test_a_text_of_ten_thousand_words_is_read_at_most_257_times() -> None:
    [ids] = random_texts(10_000)
    read: list[int] = []

    def count(texts: list[Ids]) -> Floats:
        read.append(len(texts))
        return np.array([[np.isin(text, [2, 3]).sum(), len(text)] for text in texts], np.float32)

    shares, base = occlusion(ids, count)

    assert occlusion_window(10_000) == 40
    assert sum(read) == 251  # the text, and itself without each of its 250 windows
    assert max(read) <= 7  # a call holds about 65,536 words
    np.testing.assert_allclose(shares[1], 1, atol=1e-5)  # the second logit is the length
    np.testing.assert_allclose(shares.sum(axis=1) + base, count([ids])[0], rtol=1e-5)


@pytest.mark.parametrize(("name", "window"), [("te", 4), ("bert", 4), ("bigru", 1)])
def test_a_transformer_leaves_out_several_words_at_a_time(name: str, window: int) -> None:
    assert occlusion_window(200, max_occlusions(name)) == window


def test_batches_keep_the_order_and_the_limit() -> None:
    texts = random_texts(4, 9, 2, 30, 1, 1)

    cut = list(batches(texts, words=20))

    assert [text.tolist() for batch in cut for text in batch] == [text.tolist() for text in texts]
    assert [len(batch) for batch in cut] == [2, 1, 1, 2]
