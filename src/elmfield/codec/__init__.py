"""Arrays to bytes and back: the codec, which knows nothing of fields or files.

`pack` and `unpack` take and give one tile, `unpack_many` several at once.
"""

from elmfield.codec.lossless import pack, unpack, unpack_many

__all__ = ["pack", "unpack", "unpack_many"]
