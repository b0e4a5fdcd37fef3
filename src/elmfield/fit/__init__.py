"""Samples in, Field out: the pipeline, and what it needs for gaps, noise and scattered samples."""

from elmfield.fit.encoder import Encoder, encoder

__all__ = ["Encoder", "encoder"]
