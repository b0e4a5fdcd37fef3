"""Arrays to bytes and back, bit for bit.

`door` takes arrays of any dtype and shape, `numbers` makes whole numbers of their values,
`sections` lays bytes out. A plane of whole numbers is predicted from `neighbours` along a
`wavefront`, by what `plane` says of it (`learning` finds that out); what is left goes as `tokens`
through the entropy engine: `encoding` and `streams`, `decoding`. `fast` does the same with compiled
`loops` (and `merging`).
"""

from elmfield.codec.lossless.door import pack, pack_many, unpack, unpack_many

__all__ = ["pack", "pack_many", "unpack", "unpack_many"]
