"""Arrays with loss: cosine modes of boxes rounded to one step, or errors below a bound.

`packing` takes arrays, `within` those that have a bound, `tiles` gives them back. Between them:
`boxes` of samples and their modes, `parts` and `means` of a tile, `writing` and `reading`,
`contexts` and `magnitudes` of what is coded, `priors` that were trained, `streams` of symbols in
`lanes`; `channels`, `gaps`, `bounds` besides.
"""

from elmfield.codec.lossy.packing import pack_step, trial
from elmfield.codec.lossy.tiles import START, unpack
from elmfield.codec.lossy.within import pack_bounded

__all__ = ["START", "pack_bounded", "pack_step", "trial", "unpack"]
