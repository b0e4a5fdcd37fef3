"""Pictures with transparency: their colours are multiplied by alpha before they are fitted.

What puts them back is written in `field.transparent`.
"""

from dataclasses import replace

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield.io.given import Given


def premultiplied(given: Given) -> Given:
    """Samples with colours times alpha, if they have an alpha that is not full everywhere.

    Raises
    ------
    ValueError
        If every pixel is transparent: no colour is left to fit.
    """
    labels = list(given.attributes.get("channels", {}).get("labels", ()))
    axis = given.channel_axis
    if axis is None or "alpha" not in labels or len(labels) != given.values.shape[axis]:
        return given
    values = np.moveaxis(to_numpy(given.values), axis, -1)
    k, kind = labels.index("alpha"), values.dtype
    full = 1.0 if kind.kind == "f" else float(np.iinfo(kind).max)
    alpha = values[..., k : k + 1]
    if (alpha == full).all():
        return given
    if not (alpha > 0).any():
        raise ValueError(
            "alpha is 0 everywhere: every pixel is transparent, and no colour is left to fit. "
            "Leave alpha out: fit(np.asarray(picture)[..., :-1], channel_axis=-1)."
        )
    wide = np.float64 if kind.itemsize > 4 or kind == np.float64 else np.float32
    times = np.where(np.arange(len(labels)) == k, alpha, values * (alpha / full)).astype(wide)
    about = {
        **given.attributes,
        "alpha": {"channel": k, "full": full},
        "dtype": given.attributes.get("dtype", kind.name),
    }
    return replace(given, values=np.moveaxis(times, -1, axis), attributes=about)
