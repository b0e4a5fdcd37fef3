"""What is seen: a field, the samples it came from if they are at hand, and what a page must know.

Fields and arrays enter, plain facts for JSON leave. How numbers are made is `looks`'s business.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from elmfield._array.typing import Array, Floats
from elmfield.domain import Axis
from elmfield.field import Field, Sampled
from elmfield.show.pictures import directions
from elmfield.show.render import MAPS
from elmfield.show.view.plane import FINEST, TILE, Plane

LISTED = 2048
"""Coordinates of an uneven axis that a page is told; between them it draws straight lines."""

MARKED = 1 << 28
"""Samples of which it is marked at once which are missing; of more, as the field itself has it."""

METHODS = ("field", "nearest", "linear", "cubic")
PARTS = ("magnitude", "phase", "real", "imaginary")


@dataclass(frozen=True, eq=False)
class Scene:
    """A field to look at.

    Parameters
    ----------
    field : Field
        On the host.
    samples : array, optional
        What was fitted, channels last; NaN where one is missing.
    title : str
        What the page is called.
    formats : tuple of str
        Kinds of files that can be downloaded, by suffix.
    """

    field: Field
    samples: Array | None = None
    title: str = "field"
    formats: tuple[str, ...] = ()

    @cached_property
    def plane(self) -> Plane:
        """The axes that are shown."""
        return Plane.of(self.field.domain, self.about)

    @property
    def about(self) -> Mapping[str, Any]:
        """What is known of the axes, by name."""
        found: Mapping[str, Any] = self.field.attributes.get("axes", {})
        return found

    @property
    def is_series(self) -> bool:
        """Whether there is only one axis to look along."""
        return sum(n > 1 for n in self.field.shape) < 2

    @property
    def along(self) -> int:
        """The axis of a series."""
        return int(np.argmax(self.field.shape))

    @cached_property
    def others(self) -> tuple[int, ...]:
        """Axes that are not shown: those with a slider."""
        shown = (self.along,) if self.is_series else self.plane.axes
        return tuple(k for k in range(len(self.field.shape)) if k not in shown)

    @property
    def start(self) -> tuple[float, ...]:
        """Where the sliders begin: time at its first sample, other axes in their middle."""
        dated = [self.about.get(self.field.domain.dims[k], {}).get("epoch") for k in self.others]
        sizes = [self.field.shape[k] for k in self.others]
        timely = [
            d is not None or self.field.domain.dims[k] in ("time", "frame")
            for d, k in zip(dated, self.others)
        ]
        return tuple(0.0 if t else float((n - 1) // 2) for t, n in zip(timely, sizes))

    @cached_property
    def missing(self) -> Array | None:
        """True where a sample is missing in all channels; None where none is, or nobody knows."""
        if self.samples is not None and self.samples.dtype.kind in "fc":
            gone = np.isnan(self.samples).all(axis=-1)
            return gone if gone.any() else None
        if math.prod(self.field.shape) > MARKED or self.field.missing is None:
            return None
        gone = np.asarray(self.field.missing)
        return gone if gone.ndim == len(self.field.shape) else gone.all(axis=-1)

    @property
    def quantities(self) -> tuple[str, ...]:
        """What can be shown."""
        known = ("value", "gradient", "laplacian")
        return known if self.samples is None else (*known, "error")

    @property
    def lacks(self) -> dict[str, str]:
        """What cannot be shown, and why."""
        if self.samples is not None:
            return {}
        boxes = self.field.blended.made_of
        if boxes is not None and (boxes.coded is None or not boxes.coded.is_lossy):
            return {"error": "The model keeps its samples without loss: at each, the error is 0."}
        return {
            "error": "Errors are seen beside the samples that were fitted: "
            "elmfield view MODEL --samples FILE, or field.view(samples=...)."
        }

    @property
    def has_directions(self) -> bool:
        """Whether regions tell in which direction they are smooth."""
        groups = self.field.blended.groups
        told = isinstance(groups[0].coefficients, Sampled)
        return told and len(self.field.shape) == 2 and not self.is_series

    @cached_property
    def directions(self) -> Floats:
        """Lines along which regions are smooth, two ends each, in index coordinates, (n, 2, 2)."""
        return directions(self.field, 1)

    @property
    def is_picture(self) -> bool:
        """Whether three channels are red, green and blue."""
        field = self.field
        own = str(field.attributes.get("dtype") or field.input_dtype)
        return field.n_channels in (3, 4) and own in ("uint8", "uint16") and not field.is_complex

    @property
    def is_grey(self) -> bool:
        """Whether one channel is a picture of bytes, which people are used to see in grey."""
        own = str(self.field.attributes.get("dtype") or self.field.input_dtype)
        return self.field.n_channels == 1 and own == "uint8"

    # --- what the page is told -----------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Everything the page must know before it asks for numbers."""
        field = self.field
        labels = [str(v) for v in field.attributes.get("channels", {}).get("labels", ())]
        n = field.n_channels
        if len(labels) != n:
            labels = ["red", "green", "blue", "alpha"][:n] if self.is_picture else []
        top = None
        if self.is_picture or self.is_grey:
            own = str(field.attributes.get("dtype") or field.input_dtype)
            top = float(np.iinfo(own).max)
        return {
            "title": self.title,
            "name": str(field.attributes.get("name") or ""),
            "units": str(field.attributes.get("attrs", {}).get("units") or ""),
            "series": self.is_series,
            "along": self.along,
            "axes": [self._axis(a) for a in field.domain.axes],
            "plane": None if self.is_series else self._plane(),
            "others": self.others,
            "start": self.start,
            "channels": labels or [f"channel {k}" for k in range(n)],
            "picture": self.is_picture,
            "grey": self.is_grey,
            "top": top,
            "parts": PARTS if field.is_complex else (),
            "quantities": self.quantities,
            "lacks": self.lacks,
            "methods": METHODS,
            "regions": field.partition.n_regions,
            "directions": self.has_directions,
            "maps": MAPS,
            "formats": self.formats,
            "settings": str(field.settings),
            "coefficients": field.n_coefficients,
            "exported": None,
        }

    def _plane(self) -> dict[str, Any]:
        plane = self.plane
        return {
            "axes": plane.axes,
            "flipped": plane.flipped,
            "squares": plane.squares,
            "low": plane.low,
            "high": plane.high,
            "size": plane.size,
            "pixels": plane.pixels(FINEST),
            "finest": FINEST,
            "coarsest": plane.coarsest,
            "tile": TILE,
        }

    def _axis(self, axis: Axis) -> dict[str, Any]:
        about = self.about.get(axis.name, {})
        low, high = -0.5, axis.size - 0.5
        listed = None
        if axis.knots is not None:
            at = np.linspace(low, high, min(LISTED, 2 * axis.size + 1))
            listed = {"index": at.tolist(), "coords": axis.from_index(at).tolist()}
        epoch = about.get("epoch")
        since = None
        if epoch is not None:
            since = float(np.datetime64(epoch, "ms").astype(np.int64)) / 1e3
        return {
            "name": axis.name,
            "size": axis.size,
            "units": str(about.get("attrs", {}).get("units") or ""),
            "origin": axis.origin,
            "step": axis.step,
            "listed": listed,
            "epoch": since if since is None or math.isfinite(since) else None,
            "counted": axis.coords is None,
        }
