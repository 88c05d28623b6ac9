"""Public attention layers for use in any PyTorch model."""

from lamatext.nn.attention import BilinearAttention, LowRankAttention, StructuredAttention

__all__ = ["BilinearAttention", "LowRankAttention", "StructuredAttention"]
