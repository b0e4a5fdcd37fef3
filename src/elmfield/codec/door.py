"""The doors of the codec: one tile in, bytes out, and back; with loss or without.

Both codecs are opened when first used: they are a tenth of the time of `import elmfield`.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.generic]


def pack(
    values: Values,
    *,
    step: float | None = None,
    max_error: float | None = None,
    channel_axis: int | None = None,
) -> bytes:
    """Bytes of one tile: an array of one to four axes, besides channels.

    Parameters
    ----------
    values : array
        Samples. NaN are gaps and come back as NaN.
    step : float, optional
        Code with loss: modes of boxes are rounded to about this step. The mean squared error is
        ``step² / 12`` where everything is rounded, and less where there is little to round.
    max_error : float, optional
        Code with loss, but no sample comes back more than this off, in its dtype.
    channel_axis : int, optional
        An axis along which samples are different things seen at one place: colours, bands.

    Notes
    -----
    Without `step` and `max_error` the array comes back bit for bit. With them it may too, where
    that takes fewer bytes.
    """
    from elmfield.codec import lossless, lossy

    values = np.asarray(values)
    if step is not None and max_error is not None:
        raise ValueError("Give `step` or `max_error`, not both.")
    if values.size == 0 or (step is None and max_error is None):
        return lossless.pack(values, channel_axis=channel_axis)
    asked = max_error if step is None else step
    if asked is not None and 0 < asked < math.inf and _is_constant(values):
        return lossless.pack(values, channel_axis=channel_axis)
    if step is not None:
        return lossy.pack_step(values, step, channel_axis)
    assert max_error is not None
    return lossy.pack_bounded([values], max_error, channel_axis)[0]


def _is_constant(values: Values) -> bool:
    """Whether all samples are one number, which costs a few bytes without loss."""
    return bool(values.flat[0] == values.flat[-1]) and bool((values == values.flat[0]).all())


def pack_many(
    tiles: Sequence[Values], *, max_error: float | None = None, channel_axis: int | None = None
) -> list[bytes]:
    """Bytes of several tiles, those of :func:`pack`; those without loss are made side by side."""
    from elmfield.codec import lossless, lossy

    if max_error is None:
        return lossless.pack_many(tiles, channel_axis=channel_axis)
    easy = [i for i, v in enumerate(tiles) if v.size == 0 or _is_constant(v)]
    rest = [i for i in range(len(tiles)) if i not in easy]
    found = dict(zip(rest, lossy.pack_bounded([tiles[i] for i in rest], max_error, channel_axis)))
    exact = lossless.pack_many([tiles[i] for i in easy], channel_axis=channel_axis)
    found |= dict(zip(easy, exact))
    return [found[i] for i in range(len(tiles))]


def unpack(data: bytes, *, coarse: int = 0) -> Values:
    """The array of a tile; StoreError where the bytes are damaged.

    Parameters
    ----------
    coarse : int
        A picture 2^coarse times smaller along every axis but that of channels, from means. Only a
        tile that was coded in boxes has one. Where its boxes are no larger than that (up to 64
        samples), the first part of its bytes is enough; else all of it is decoded.
    """
    from elmfield.codec import lossless, lossy

    data = bytes(data)
    if has_coarse(data):
        return lossy.unpack(data, coarse=coarse)
    if coarse:
        raise ValueError("A tile packed without loss has no coarse picture; use coarse=0.")
    return lossless.unpack(data)


def has_coarse(data: bytes) -> bool:
    """Whether a tile begins with a coarse picture, as those that were coded in boxes do."""
    from elmfield.codec import lossy

    return bytes(data[2:3]) == lossy.START[2:]


def unpack_many(tiles: Sequence[bytes]) -> list[Values]:
    """The arrays of several tiles; those of equal shape without loss are decoded side by side."""
    from elmfield.codec import lossless, lossy

    kinds = [has_coarse(tile) for tile in tiles]
    exact = iter(lossless.unpack_many([t for t, loss in zip(tiles, kinds) if not loss]))
    return [lossy.unpack(bytes(t)) if loss else next(exact) for t, loss in zip(tiles, kinds)]


def trial(
    values: Values, step: float, channel_axis: int | None = None, *, exact: bool = False
) -> tuple[float, float]:
    """About the sum of squared errors and the bits of a tile coded with a step.

    Boxes of one size are priced as the encoder prices them; nothing is written. With `exact` the
    tile is coded in boxes, and both are those of what comes out.
    """
    from elmfield.codec import lossy

    return lossy.trial(values, step, channel_axis, exact=exact)
