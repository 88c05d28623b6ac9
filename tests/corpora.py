"""Made-up texts that a small model can tell apart."""

import csv
import json
from pathlib import Path

import numpy as np

GOOD = ("wonderful", "moving", "brilliant", "charming", "superb")
BAD = ("dull", "boring", "dreadful", "clumsy", "tedious")
COMMON = ("the", "film", "is", "a", "story", "of", "two", "people", "in", "a", "small", "town")

TINY: dict[str, object] = {
    "text.min_count": 1,
    "text.word_vectors": "random",
    "text.vector_width": 8,
    "model.hidden_size": 4,
    "model.heads": 3,
    "model.classifier_width": 6,
    "training.epochs": 2,
    "training.batch_size": 8,
    "ngrams.enabled": False,
    "storage": "float32",
}
"""Settings of a model that trains in a blink."""


def reviews(count: int, *, seed: int = 0) -> tuple[list[str], list[str]]:
    """Texts and their labels, ``neg`` and ``pos`` in turn."""
    draw = np.random.default_rng(seed)
    texts, labels = [], []
    for number in range(count):
        words = list(draw.choice(COMMON, draw.integers(4, 12)))
        for _ in range(2):
            words.insert(int(draw.integers(len(words))), draw.choice((BAD, GOOD)[number % 2]))
        texts.append(" ".join(words))
        labels.append(("neg", "pos")[number % 2])
    return texts, labels


TOPICS = {
    "film": ("actor", "scene", "camera"),
    "food": ("soup", "bread", "kitchen"),
    "sport": ("goal", "team", "match"),
    "war": ("army", "siege", "battle"),
}


def topic_texts(count: int, *, seed: int = 0) -> tuple[list[str], list[list[str]]]:
    """Texts about zero to four topics, and the lists of these topics; ``war`` is rare."""
    draw = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(count):
        words = list(draw.choice(COMMON, draw.integers(4, 12)))
        topics = [topic for topic in TOPICS if draw.random() < (0.1 if topic == "war" else 0.4)]
        for topic in topics:
            words.insert(int(draw.integers(len(words))), draw.choice(TOPICS[topic]))
        texts.append(" ".join(words))
        labels.append(topics)
    return texts, labels


def write_csv(path: Path, count: int, *, seed: int = 0) -> Path:
    """A CSV of reviews with the columns text and label."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text", "label"))
        writer.writerows(zip(*reviews(count, seed=seed), strict=True))
    return path


def write_topics(path: Path, count: int, *, seed: int = 0) -> Path:
    """A JSONL file of topic texts with the keys text and labels, a list."""
    rows = zip(*topic_texts(count, seed=seed), strict=True)
    lines = [json.dumps({"text": text, "labels": labels}) for text, labels in rows]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path
