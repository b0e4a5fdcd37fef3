"""Arrays to bytes and back, bit for bit.

`lossless_tile` takes arrays of any dtype and shape, `numbers` makes whole numbers of their values.
A plane of whole numbers is predicted in the order of a `wavefront`, by the encoder for all samples
at once in its `frame`; what is left goes as tokens, with a header (`plane_model`), through
`plane_coder`. `prediction_kernels` does that by compiled loops.
"""

from elmfield.codec.lossless.lossless_tile import pack, unpack

__all__ = ["pack", "unpack"]
