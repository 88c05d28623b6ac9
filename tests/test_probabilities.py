"""Tests of softmax and sigmoid against scipy, at logits that would overflow a plain formula."""

import numpy as np
from scipy.special import expit
from scipy.special import softmax as scipy_softmax

from lamatext.probabilities import sigmoid, softmax

LOGITS = np.array([[1.0, -2.0, 0.5], [1e4, -1e4, 9999.0]])


def test_softmax_and_sigmoid_agree_with_scipy() -> None:
    np.testing.assert_allclose(softmax(LOGITS), scipy_softmax(LOGITS, axis=1), rtol=1e-12)
    np.testing.assert_allclose(sigmoid(LOGITS), expit(LOGITS), rtol=1e-12)


def test_float32_logits_give_float32_probabilities() -> None:
    logits = LOGITS.astype(np.float32)

    assert softmax(logits).dtype == sigmoid(logits).dtype == np.float32
