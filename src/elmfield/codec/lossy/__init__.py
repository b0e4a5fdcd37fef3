"""Arrays with loss: cosine modes of boxes rounded to one step, or errors below a bound.

`packing` codes arrays to a step, `bounded` to a largest error, the latter most often by
`interpolated`; `lossy_tile` decodes what was coded in boxes. Between them: `transform` (boxes and
their modes), `contexts` (what a coefficient is expected to be), `sections` of a tile, `deblock`.
"""

from elmfield.codec.container import INTERPOLATED
from elmfield.codec.lossy import interpolated, lossy_tile
from elmfield.codec.lossy.bounded import pack_bounded
from elmfield.codec.lossy.lossy_tile import Values
from elmfield.codec.lossy.packing import RateCurve, pack_step

__all__ = ["RateCurve", "pack_bounded", "pack_step", "unpack"]


def unpack(data: bytes, *, coarse: int = 0) -> Values:
    """Return the array of a tile with loss; StoreError where the bytes are damaged."""
    if data[2] == INTERPOLATED:
        return interpolated.unpack(data)
    tile = lossy_tile.Tile.read(data)
    return tile.coarse(coarse) if coarse else tile.values()
