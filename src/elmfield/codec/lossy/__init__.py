"""Arrays with loss: cosine modes of boxes, rounded to one step; or no sample further off than a bound."""

from elmfield.codec.lossy.tiles import START, pack_bounded, pack_step, trial, unpack

__all__ = ["START", "pack_bounded", "pack_step", "trial", "unpack"]
