"""Arrays to bytes and back: the codec, which knows nothing of fields or files.

Other packages use these names only:

- `pack` and `unpack` for one tile, `pack_many` and `unpack_many` for several at once, and
  `pack_decoded` for their bytes with what these will be decoded to;
- `rate_curve`: what steps would cost, in bits, and lose, in squared errors;
- `has_coarse`: whether a tile begins with a coarse picture;
- `MAX_SAMPLES_PER_BYTE`: no valid tile claims more samples for its size.

Inside, `tile` has these functions, `container` the bytes that all tiles share, `ans` the entropy
coder; `lossless` and `lossy` are the two codecs. Modules called kernels hold compiled loops.
"""

from elmfield.codec.container import SAMPLES_PER_BYTE
from elmfield.codec.tile import (
    has_coarse,
    pack,
    pack_decoded,
    pack_many,
    rate_curve,
    unpack,
    unpack_many,
)

MAX_SAMPLES_PER_BYTE = max(SAMPLES_PER_BYTE)

__all__ = [
    "MAX_SAMPLES_PER_BYTE",
    "has_coarse",
    "pack",
    "pack_decoded",
    "pack_many",
    "rate_curve",
    "unpack",
    "unpack_many",
]
