import numpy as np
import pytest
import torch

from lamatext.errors import ModelError
from lamatext.explain.classifier_head import ClassifierHead
from tests.explain.models import head_of, make_network, random_texts, run


@pytest.mark.parametrize("hidden", [16, 0])
def test_the_gradient_equals_that_of_autograd(hidden: int) -> None:
    network = make_network("lama-encoder", classifier_width=hidden)
    result, _ = run(network, random_texts(7))
    embedding = torch.from_numpy(result.embedding[0])

    expected = torch.func.jacrev(lambda s: network.classifier(s.flatten()))(embedding)  # (C, M, D)

    found = head_of(network).gradient(result.embedding[0])
    np.testing.assert_allclose(found, expected.detach().numpy(), atol=1e-6)


def test_missing_tensors_are_named_in_the_error() -> None:
    tensors = {"classifier.0.weight": np.zeros((2, 2), np.float32)}

    with pytest.raises(ModelError, match=r"lack classifier\.0\.bias, classifier\.3\.weight"):
        ClassifierHead.from_tensors(tensors)
