"""Arrays to bytes and back: the codec, which knows nothing of fields or files.

`pack` and `unpack` take and give one tile, `pack_many` and `unpack_many` several at once; `trial`
says what a step would cost, `has_coarse` whether a tile begins with a coarse picture.
"""

from elmfield.codec.door import has_coarse, pack, pack_many, trial, unpack, unpack_many

__all__ = ["has_coarse", "pack", "pack_many", "trial", "unpack", "unpack_many"]
