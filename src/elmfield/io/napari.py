"""napari's reader: a model's file as an image layer, evaluated where and as closely as it is seen.

napari finds it by ``elmfield/napari.yaml``, and need not be installed here.
"""

import math
from collections.abc import Callable

import numpy as np

from elmfield._array.checks import is_path
from elmfield.field import Field
from elmfield.io.files import StrPath, check_model_name, is_model, path_of
from elmfield.io.model.load import load
from elmfield.show.scene import Scene, pairs_of

Layer = tuple[list[object], dict[str, object], str]
"""What napari calls LayerData: arrays from fine to coarse, options, and the kind of layer."""

FINEST = -2
"""The finest level: 2^2 pixels to a sample."""

COARSEST_PIXELS = 512
"""On the longer side of the coarsest level, at most; and of a chunk."""

MAX_CHUNKS = 10_000
"""Of axes that are not shown: more make Dask slow."""


def get_reader(path: object) -> Callable[[StrPath], list[Layer]] | None:
    """Return :func:`read_layers` for what is called as models are, else None."""
    return read_layers if is_path(path) and is_model(path_of(path)) else None


def read_layers(path: StrPath) -> list[Layer]:
    """Return the one layer of a model's file or folder."""
    check_model_name("path", path_of(path))
    return [layer_of(load(path_of(path)), path_of(path).name)]


def layer_of(field: Field, name: str = "field") -> Layer:
    """Return a field as an image layer of napari: Dask arrays at several scales, and options.

    Scales are those of the last two axes; on others, samples stay as they are. Of complex numbers
    magnitudes are shown.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> from elmfield.io.napari import layer_of
    >>> arrays, options, kind = layer_of(ef.fit(np.eye(300)))  # viewer.add_image(arrays, **options)
    >>> [a.shape for a in arrays], options["scale"]
    ([(1200, 1200), (600, 600), (300, 300)], [0.25, 0.25])
    """
    if not isinstance(field, Field):
        raise TypeError(f"`field` must be a Field; got a {type(field).__name__}.")
    scene, k, shape = Scene(field), field.model.channel_axis, field.shape
    if scene.is_series:
        raise ValueError(f"napari shows images, and {name} has one axis; use elmfield view.")
    shown = pairs_of(shape)[0]  # which napari shows, too
    apart = [n for j, n in enumerate(shape) if j not in shown]
    step = math.ceil((math.prod(apart) / MAX_CHUNKS) ** (1 / max(1, len(apart))))
    chunks = [COARSEST_PIXELS if j in shown else step for j in range(len(shape))]
    if k is not None:
        chunks.insert(k, -1)
    is_whole, is_complex = scene.top is not None and scene.missing is None, field.model.is_complex
    dtype = field.dtype if is_complex else scene.dtype if is_whole else np.float32
    coarsest = math.ceil(math.log2(max(shape[j] for j in shown) / COARSEST_PIXELS))
    arrays = []
    for level in range(FINEST, max(0, coarsest) + 1):
        scale = [2.0**-level if j in shown else 1.0 for j in range(len(shape))]
        made = field.resize(scale=scale, chunks=tuple(chunks), dtype=dtype)
        made = abs(made) if is_complex else made
        if k is not None and scene.is_picture:
            made = np.moveaxis(made, k, -1)
        arrays.append(made)
    axes = [(2.0**FINEST if j in shown else 1.0, a) for j, a in enumerate(field.domain.axes)]
    options: dict[str, object] = {
        "name": name,
        "multiscale": True,
        "scale": [abs(a.step) * s for s, a in axes],
        # Arrays are shown as they run, and begin at their corner.
        "translate": [a.origin * (a.step > 0) + abs(a.step) * (s - 1) / 2 for s, a in axes],
        "metadata": {"field": field},
    }
    if scene.is_picture:
        options["rgb"] = True
    elif k is not None:
        options |= {"channel_axis": k, "name": [f"{name} {c}" for c in scene.channel_names]}
    return arrays, options, "image"
