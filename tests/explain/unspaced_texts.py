"""Made-up reviews in scripts without spaces, and an n-gram model fitted to them."""

import numpy as np

from lamatext.data.tokenizer import WordTokenizer
from lamatext.ngrams.model import NgramModel
from lamatext.settings import NgramSettings

WORDS = {
    "zh": ["电影", "很好", "故事", "无聊", "演员", "精彩", "音乐", "一般"],
    "ja": ["映画", "とても", "ストーリー", "退屈", "俳優", "すばらしい", "音楽", "カメラ"],
    "th": ["ภาพยนตร์", "ดีมาก", "เรื่องราว", "น่าเบื่อ", "นักแสดง", "ยอดเยี่ยม", "เพลง", "ธรรมดา"],
}


def unspaced_reviews(count: int = 60, *, seed: int = 0) -> list[str]:
    """Draw texts of four words without spaces in Chinese, Japanese or Thai."""
    draw = np.random.default_rng(seed)
    languages = list(WORDS.values())
    return ["".join(draw.choice(languages[i % 3], 4)) + "。" for i in range(count)]


def fit_unspaced_ngrams(*, classes: int) -> NgramModel:
    """Fit an n-gram model to made-up reviews with labels at random."""
    from lamatext.ngrams.fitting import fit_ngrams  # needs numba, which some tests do without

    words = [WordTokenizer().words(text) for text in unspaced_reviews(300, seed=1)]
    labels = np.random.default_rng(2).integers(0, classes, len(words))
    settings = NgramSettings(enabled=True, max_words=3, characters=True)
    return fit_ngrams(words, labels, settings, classes=classes)
