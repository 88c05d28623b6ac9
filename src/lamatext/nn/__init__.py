"""The layers, for anyone's own model: ``from lamatext.nn import LowRankAttention``."""

from lamatext.nn.attention import BilinearAttention, LowRankAttention, StructuredAttention

__all__ = ["BilinearAttention", "LowRankAttention", "StructuredAttention"]
