"""Word vectors from a pretrained encoder: its mean output for each word, reduced by PCA.

A pretrained encoder has seen many more words than the training texts. Its vectors for words that
the training texts lack let the network read them too.
Shapes: V words, D width of the encoder, E width of the word vectors.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from lamatext.data.text_encoder import SubwordEncoder
from lamatext.nn.encoders import mask_of
from lamatext.nn.pooling import masked_mean
from lamatext.nn.pretrained import encoder_batches, load_pretrained
from lamatext.progress import SILENT, Progress

STANDARD_DEVIATION = 0.3  # of all numbers of the word vectors, as in word2vec's

Vectors = NDArray[np.float32]


def pretrained_word_list(name: str) -> list[str]:
    """Return all whole words in a pretrained encoder's vocabulary, most frequent first.

    Word pieces, numbers and single letters are left out.
    """
    encoder = SubwordEncoder.from_json(
        load_pretrained(name, classes=2, setting="text.word_vectors").tokenizer
    )
    return [word for word in encoder.subwords() if word.isalpha() and len(word) > 1]


def pretrained_word_vectors(
    name: str, words: Sequence[str], *, width: int, device: str = "cpu", progress: Progress = SILENT
) -> Vectors:
    """Compute word vectors (V, E) with a pretrained encoder.

    Args:
        name: ``minilm``, a Hugging Face name or a folder.
        words: the words, each encoded as a text of its own.
        width: E; the encoder's outputs are reduced to it by a principal component analysis.
        device: where the encoder runs.
        progress: receives one step per batch of words.
    """
    outputs = _mean_outputs(name, words, device, progress)  # (V, D)
    centred = outputs - outputs.mean(axis=0)
    covariance = centred.T @ centred / max(1, len(words))  # (D, D)
    values, components = np.linalg.eigh(covariance)
    largest = components[:, np.argsort(-values, kind="stable")[:width]]  # (D, E)
    signs = np.sign(largest[np.abs(largest).argmax(axis=0), np.arange(largest.shape[1])])
    vectors = centred @ (largest * signs)
    vectors *= STANDARD_DEVIATION / max(float(vectors.std()), 1e-12)
    if vectors.shape[1] < width:  # an encoder that is narrower than the word vectors
        vectors = np.pad(vectors, ((0, 0), (0, width - vectors.shape[1])))
    rounded: Vectors = vectors.astype(np.float32)
    return rounded


def _mean_outputs(
    name: str, words: Sequence[str], device: str, progress: Progress
) -> NDArray[np.float64]:
    """Encode each word with a pretrained encoder and average over its subwords, (V, D)."""
    loaded = load_pretrained(name, classes=2, setting="text.word_vectors")
    encoder = loaded.network.encoder.to(device).eval()
    rows = SubwordEncoder.from_json(loaded.tokenizer, 32).encode(words)
    batches = encoder_batches(rows.lengths, torch.device(device))
    progress.stage(f"word vectors from {name}", len(batches))
    outputs: list[NDArray[np.float64]] = []
    with torch.inference_mode():
        for batch in batches:
            ids, lengths = (torch.from_numpy(array).to(device) for array in rows.pad(batch))
            mask = mask_of(ids, lengths)
            states = encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state
            outputs.append(masked_mean(states.float(), mask).cpu().numpy().astype(np.float64))
            progress.advance()
    in_batch_order = np.concatenate(outputs)
    order: NDArray[np.int64] = np.argsort(np.concatenate(batches))
    return in_batch_order[order]
