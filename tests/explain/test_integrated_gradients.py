import numpy as np
import pytest

from lamatext.explain.integrated_gradients import integrated_gradients
from tests.explain.models import logits_of, make_network, random_texts


def test_integrated_gradients_add_up_to_the_change_from_the_baseline() -> None:
    pytest.importorskip("captum")
    network, texts = make_network("lama-encoder"), random_texts(3, 6, 9)

    gradients = integrated_gradients(network, texts, steps=200, batch_size=2)

    assert [len(row) for row in gradients] == [3, 6, 9]
    for text, row in zip(texts, gradients, strict=True):
        logits = logits_of(network, [text, np.zeros_like(text)])
        change = (logits[0] - logits[1])[logits[0].argmax()]
        assert row.sum() == pytest.approx(change, abs=0.02)
