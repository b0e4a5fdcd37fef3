"""Arrays to bytes and back: the codec, which knows nothing of fields or files.

`pack` and `unpack` take and give one tile, `unpack_many` several at once; `trial` says what a step would cost.
"""

from elmfield.codec.door import pack, unpack, unpack_many
from elmfield.codec.lossy import trial

__all__ = ["pack", "trial", "unpack", "unpack_many"]
