"""Results published in the paper: accuracies, data set sizes, parameter counts, top words."""

SYSTEMS = {  # our name of each system, and the row of the paper's accuracy table
    "san": "SAN",
    "bigru": "BiGRU",
    "cnn": "CNN",
    "te": "TE",
    "bert": "BERT",
    "avg": "AVG",
    "lama": "LAMA",
    "lama-ctx": "LAMA+ctx",
    "lama-ctx-dp": "LAMA+ctx+D_p",
    "lama-ctx-de": "LAMA+ctx+D_e",
    "lama-encoder": "LE",
    "minilm": "MiniLM, fine-tuned (not in the paper)",
}
DATASETS = {  # our name: the paper's name, and whether ours is only a substitute for it
    "r8": ("Reuters", False),
    "imdb": ("IMDB", False),
    "news": ("News", True),
    "clothing": ("Yelp", True),
    "clothing-long": ("Yelp-L", True),
    "clothing-polarity": ("Yelp-P", True),
    "mr": (None, False),
    "yelp": ("Yelp", False),
    "yelp-long": ("Yelp-L", False),
    "yelp-polarity": ("Yelp-P", False),
}
_COLUMNS = ("News", "Reuters", "Yelp", "IMDB", "Yelp-L", "Yelp-P")
_ACCURACY = {
    "san": (0.876, 0.942, 0.68, 0.831, 0.638, 0.945),
    "bigru": (0.905, 0.867, 0.663, 0.876, 0.608, 0.943),
    "cnn": (0.914, 0.96, 0.693, 0.874, 0.672, 0.953),
    "te": (0.899, 0.901, 0.655, 0.817, 0.569, 0.925),
    "bert": (0.92, 0.97, 0.715, 0.894, 0.672, 0.97),
    "avg": (0.91, 0.795, 0.653, 0.874, 0.652, 0.928),
    "lama": (0.922, 0.965, 0.697, 0.895, 0.653, 0.947),
    "lama-ctx": (0.923, 0.973, 0.716, 0.90, 0.665, 0.952),
    "lama-ctx-dp": (0.903, 0.948, 0.711, 0.874, 0.656, 0.948),
    "lama-ctx-de": (0.91, 0.831, 0.677, 0.805, 0.619, 0.893),
}
_ENCODER = {"IMDB": 0.830, "Reuters": 0.939}
# classes, training texts, test texts, mean words per text
STATISTICS = {
    "yelp": (5, 499_976, 4_000, 118),
    "yelp-long": (5, 175_844, 1_378, 226),
    "yelp-polarity": (2, 560_000, 38_000, 137),
    "imdb": (2, 25_000, 25_000, 221),
    "r8": (8, 4_484, 2_189, 102),
    "news": (4, 151_328, 32_428, 352),
}

_LAMA_MILLIONS = {2: 6.403, 4: 6.405, 8: 6.409, 16: 6.418, 32: 6.434, 64: 6.468}
PARAMETERS = {
    "lama-ctx": {heads: millions * 1e6 for heads, millions in _LAMA_MILLIONS.items()},
    "te": dict.fromkeys(_LAMA_MILLIONS, 18.465e6),
}
KEYWORDS = {  # the first ten words or so of the paper's lists of most attended words
    ("clothing", "1"): "inconsiderate rudest goodnight worst ever boycott loud livid some hassle",
    ("clothing", "5"): "recommend trust referred downside professional 100 happy attentive stars",
    ("r8", "ship"): "kuwait gulf south tanker cargo warships pentagon says begin iranian",
    ("r8", "money-fx"): "currencies monetary miyazawa stoltenberg accord louvre fed cooperation",
}


def published_accuracy(model: str, dataset: str) -> float | None:
    """Return the published accuracy of a system on a data set, or on the one it replaces."""
    column = DATASETS.get(dataset, (None, False))[0]
    if column is None:
        return None
    if model == "lama-encoder":
        return _ENCODER.get(column)
    row = _ACCURACY.get(model)
    return None if row is None else row[_COLUMNS.index(column)]
