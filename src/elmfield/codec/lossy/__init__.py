"""Arrays with loss: cosine modes of boxes rounded to one step, or errors below a bound.

`packing` codes arrays to a step, `bounded` to a largest error, `lossy_tile` decodes them. Between
them: `transform` (boxes and their modes), `write` and `read` (sections of a tile), `contexts` (what
a coefficient is expected to be) with their `coder` and its streams of symbols, `deblock`.
"""

from elmfield.codec.lossy.bounded import pack_bounded
from elmfield.codec.lossy.lossy_tile import unpack
from elmfield.codec.lossy.packing import RateCurve, pack_step

__all__ = ["RateCurve", "pack_bounded", "pack_step", "unpack"]
