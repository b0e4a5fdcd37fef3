"""`view`: a field, a model or samples, in the browser; and the files that its page hands out.

What a page shows is `show`'s business; here paths are opened, samples fitted, files written.
"""

import math
import re
import sys
import tempfile
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.checks import is_path, wrong
from elmfield._array.progress import reporter
from elmfield._array.typing import Array, Progress
from elmfield.field import Field
from elmfield.io.api import fit
from elmfield.io.export.output_grid import OutputGrid
from elmfield.io.export.rendering import Rendering
from elmfield.io.files import StrPath, is_model, path_of, put
from elmfield.io.formats.raster import png
from elmfield.io.gridded import Gridded
from elmfield.io.inputs import samples_of
from elmfield.io.store.atomic_write import write_folder_atomically
from elmfield.samples import channels_last, with_nan
from elmfield.settings import Settings
from elmfield.show.layers import SHOWN, Download, Look, means_on_plane, middles, on_plane
from elmfield.show.pages import LOCAL, TILES_MAX_BYTES, Served, export, serve
from elmfield.show.pictures import colourise
from elmfield.show.scene import FINEST_LEVEL, Scene

THUMBNAIL_PIXELS = 192
"""On the longer side of a thumbnail, at most."""

THUMBNAIL_MAX_SAMPLES = 1 << 22
"""In the plane of a thumbnail, all of which are looked at."""

WRITERS = {".png": None, ".nc": "netCDF4", ".tif": "tifffile", ".npy": None}
"""What the page offers, and the package each kind needs."""


def view(
    values: Array | Gridded | Field | StrPath,
    settings: Settings | None = None,
    *,
    samples: Array | None = None,
    channel_axis: int | str | None = None,
    variable: str | None = None,
    title: str | None = None,
    port: int = 0,
    host: str = LOCAL,
    browser: bool | None = None,
    progress: Progress | bool = False,
) -> Served:
    """A page in the browser that shows a field: deep zoom, profiles, gradients, splines to compare.

    Parameters
    ----------
    values : Field, path, array, xarray.DataArray, or Gridded
        A field; a model's file; or samples, which are fitted first.
    settings : optional
        How samples are fitted; as for :func:`elmfield.fit`.
    samples : array, optional
        Of a field or a model: what was fitted, to see errors and what is missing.
    channel_axis, variable : optional
        Of samples; as for :func:`elmfield.fit`.
    title : str, optional
        What the page is called; by default as the file or the values are.
    port : int
        Where to listen; 0 for a port that is free.
    host : str
        The address to listen at: this machine only, by default; "0.0.0.0" or "::" for all that it
        has. Anybody who can reach another one sees the field.
    browser : bool, optional
        Whether to open a browser; by default unless a notebook shows the page itself.
    progress : bool or callable
        Of the fit.

    Returns
    -------
    Served
        Has a ``url``; shows itself in a notebook; ``close()`` ends it.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> with ef.view(np.eye(32), browser=False) as page:
    ...     page.url.startswith("http://127.0.0.1:")
    True
    """
    scene = scene_of(values, settings, samples, channel_axis, variable, progress)
    scene = scene if title is None else replace(scene, title=title)
    served = serve(scene, partial(written, scene), port=port, host=host)
    if browser or (browser is None and "ipykernel" not in sys.modules):
        import webbrowser

        webbrowser.open(served.url)
    return served


def export_view(
    scene: Scene, folder: StrPath, *, size: int = TILES_MAX_BYTES, progress: Progress | bool = False
) -> int:
    """Write the page as files that a browser opens without a server; return how many tiles it has.

    Parameters
    ----------
    scene : Scene
        What is seen: see :func:`scene_of`.
    folder : str or path
        Made if it is not there.
    size : int
        Bytes that tiles may take before they are compressed: the more, the closer one can look.
    progress : bool or callable
        True for a bar, or a callable of (stage, done, total).
    """
    with write_folder_atomically(path_of(folder)) as root:

        def keep(name: str, data: bytes) -> None:
            place = root / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)

        return export(scene, keep, size=size, progress=reporter(progress))


def scene_of(
    values: Array,
    settings: Settings | None = None,
    samples: Array | None = None,
    channel_axis: int | str | None = None,
    variable: str | None = None,
    progress: Progress | bool = False,
) -> Scene:
    """What a page shows of a field, a model or samples."""
    path = path_of(values) if is_path(values) else None
    if path is not None and is_model(path):
        from elmfield.io.model.load import load

        values = load(path)
    if isinstance(values, Field):
        field = values
        if settings is not None:
            raise TypeError("`settings` are for samples; this is a field already.")
    else:
        given = samples_of(values, channel_axis, variable)
        samples, field = given.values, fit(given, settings, progress=progress)
    title = "" if path is None else path.name
    title = title or field.labels.title or field.labels.name or "field"
    formats = tuple(s for s, needs in WRITERS.items() if needs is None or find_spec(needs))
    if samples is not None:
        samples = channels_last(np.asarray(to_numpy(with_nan(samples))), field.model.channel_axis)
        if samples.shape != (shape := (*field.shape, field.model.n_channels)):
            told = f"be what was fitted, of shape {shape}"
            raise wrong("samples", told, samples.shape)
    return Scene(field, samples, title, formats)


# --- files that the page hands out ----------------------------------------------------------------


def written(scene: Scene, order: Download) -> tuple[str, bytes]:
    """Name and content of a file of what is seen."""
    scene = scene.on_axes(order.look.axes)
    stem = re.sub(r"[^\w-]", "-", Path(scene.title).stem[:100])
    name = f"{stem or 'field'}-{order.look.quantity}{order.suffix}"
    if order.suffix == ".png":
        return name, _png(scene, order)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{order.suffix}"
        put(_samples_of_view(scene, order), path)
        return name, path.read_bytes()


def _png(scene: Scene, order: Download) -> bytes:
    """The picture as the page colours it, north up."""
    places = []
    for k, ((first, last), n) in enumerate(zip((order.rows, order.columns), order.shape)):
        n = max(1, round(n * scene.plane.squares[k]))
        at = middles(np.linspace(first, last, n + 1))
        places.append(at[::-1] if scene.plane.flipped[k] else at)
    return _coloured(on_plane(scene, order.look, *places), order.colours, order.limits)


@np.errstate(all="ignore")  # what is beyond float32 has no colour
def thumbnail(field: Field) -> bytes | None:
    """A small PNG of what the page begins with; None of a series, or where it would take long."""
    scene = Scene(field)
    if scene.is_series or math.prod(scene.plane.size) > THUMBNAIL_MAX_SAMPLES:
        return None
    plane, look = scene.plane, Look.first(scene)
    level = max(FINEST_LEVEL, math.ceil(math.log2(max(plane.size) / THUMBNAIL_PIXELS)))
    values = means_on_plane(scene, look, *plane.edges(level))
    limits = None if scene.top is None else (0.0, scene.top)
    if scene.is_scan and np.isfinite(values).any():
        limits = tuple(np.nanpercentile(values, (1, 99)))
    return _coloured(values, "grey" if scene.is_grey else "viridis", limits)


def _coloured(values: Array, colours: str, limits: tuple[float, ...] | None) -> bytes:
    """A PNG of numbers (p, q, C)."""
    low, high = limits if limits is not None else (None, None)
    if values.shape[-1] == 1:
        return png(colourise(values[..., 0], colours, low, high))
    if values.shape[-1] == 2:  # of two channels, blue stays dark
        values = np.concatenate([values, 0 * values[..., :1]], axis=-1)
    grey = [colourise(values[..., k], "grey", low, high)[..., 0] for k in range(3)]
    return png(np.stack(grey, axis=-1))


def _samples_of_view(scene: Scene, order: Download) -> Gridded:
    """The numbers with their coordinates, as a file of the field itself has them."""
    field, plane = scene.field, scene.plane
    shape = [1] * len(field.shape)
    window = {}
    for k, ends in zip(plane.axes, (order.rows, order.columns)):
        shape[k] = order.shape[plane.axes.index(k)]
        window[field.domain.dims[k]] = _in_units(field, k, *ends)
    for k, at in zip(scene.others, order.look.at):
        if field.shape[k] > 1:
            window[field.domain.dims[k]] = _in_units(field, k, at - 1e-3, at + 1e-3)
    quantity = SHOWN.get(order.look.quantity, order.look.quantity)
    grid = OutputGrid(shape=shape, window=window, align="areas")
    out = Rendering(field=field, quantity=quantity, dtype="float32").on(grid)
    for k in sorted(scene.others, reverse=True):
        out = out.pick(out.dims[k], 0)
    return out


def _in_units(field: Field, k: int, low: float, high: float) -> tuple[float, float]:
    low, high = max(low, field.domain.low[k]), min(high, field.domain.high[k])
    ends = field.domain.axes[k].from_index(np.asarray([low, high]))
    return float(min(ends)), float(max(ends))
