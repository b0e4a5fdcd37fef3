"""What is seen: a field, the samples it came from, the plane that is shown, and facts for the page.

The page counts in squares: one sample is one square, or more where samples lie closer together on
the other axis. Rows run downwards and columns to the right, so that north is up and east is right.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from elmfield._array.checks import choice
from elmfield._array.typing import Array, Floats
from elmfield.domain import Axis, Domain
from elmfield.domain.sphere import is_latitude, is_longitude
from elmfield.field import Field
from elmfield.field.adapters.affine import affine_of, checked_affine, codes_of
from elmfield.field.coordinates.labels import Labels
from elmfield.field.uncertainty.posterior import why_none
from elmfield.show.pictures import MAPS, direction_lines

TILE_PIXELS = 256
"""Pixels on each side of a tile."""

FINEST_LEVEL = -6
"""The finest level: 2^-6 squares to a pixel."""

UP = {"northing", "projection_y_coordinate", "altitude", "height", "level_height"}
"""Axes that grow upwards on the page, whichever way the array runs; so do latitudes."""

MAX_STRETCH = 16.0
"""Samples are not drawn more oblong than this."""

LISTED_MAX_COORDS = 2048
"""Coordinates of an uneven axis that a page is told; between them it draws straight lines."""

MARKED_MAX_SAMPLES = 1 << 28
"""Samples of which it is marked at once which are missing; of more, as the field itself has it."""

WORLD = {"L": 0, "R": 0, "P": 1, "A": 1, "I": 2, "S": 2}
"""Along which axis of a patient a letter lies."""

OPPOSITE = dict(zip("LRPAIS", "RLAPSI"))

PATIENT_PLANES = {(1, 0): "axial", (2, 0): "coronal", (2, 1): "sagittal"}
"""Planes by the patient's axes along their rows and columns. As radiologists see them, head and
front are up, the patient's right and front on the left."""

MODALITY, LEVELS, WIDTHS = "00080060", "00281050", "00281051"
"""Elements of a DICOM header."""

TOLD = ("title", "along", "others", "cross", "top", "quantities", "lacks", "formats")
"""What the page is told of a scene under its own name."""

METHODS = ("field", "nearest", "linear", "cubic")
PARTS = ("magnitude", "phase", "real", "imaginary")


Spans = Sequence[tuple[int, int]]
"""First pixel and the one after the last, of rows and of columns."""


def pairs_of(shape: Sequence[int], codes: str = "") -> list[tuple[int, int]]:
    """Rows and columns of every plane through axes of more than one sample; the usual one first.

    Of a patient, whose first axes run as `codes` say, that is the axial one; else it has the
    last two axes.
    """
    pairs = list(combinations([k for k, n in enumerate(shape) if n > 1], 2))[::-1]
    world = [WORLD[letter] for letter in codes]
    ours = [(a, b) if world[a] > world[b] else (b, a) for a, b in pairs if b < len(world)]
    ours.sort(key=lambda pair: world[pair[0]] + world[pair[1]])
    return ours + [pair for pair in pairs if pair[1] >= len(world)]


@dataclass(frozen=True)
class Plane:
    """Which axes are rows and columns, which way they run, and how large a sample is.

    Parameters
    ----------
    axes : tuple of two ints
        Array axes of rows and columns.
    flipped : tuple of two bools
        Whether the page runs against the array.
    squares : tuple of two floats
        Squares to a sample.
    low, high : tuples of two floats
        What is shown, in index coordinates.
    name : str
        What people call it.
    letters : str
        Of a scan: what lies at the top, the bottom, the left and the right, as "APRL".
    """

    axes: tuple[int, int]
    flipped: tuple[bool, bool]
    squares: tuple[float, float]
    low: tuple[float, float]
    high: tuple[float, float]
    name: str
    letters: str

    @classmethod
    def of(
        cls, domain: Domain, labels: Labels, axes: tuple[int, int] | None = None, codes: str = ""
    ) -> "Plane":
        """Two axes, by default the usual ones; north up, samples as their steps have it.

        `codes` say which way the first axes run in a patient; empty if that is not known.
        """
        rows, columns = axes or pairs_of(domain.shape, codes)[0]
        shown = [domain.axes[k] for k in (rows, columns)]
        notes = [labels.axis(a.name).attrs for a in shown]
        name, attrs = shown[0].name, notes[0]
        named = name.lower() in UP or attrs.get("standard_name") in UP
        upward = named or is_latitude(name, attrs) or attrs.get("positive") == "up"
        eastward = is_longitude(shown[1].name, notes[1])
        flipped = (upward and shown[0].step > 0, eastward and shown[1].step < 0)
        title, letters = " × ".join(a.name for a in shown), ""
        if max(rows, columns) < len(codes):
            ends = codes[rows], codes[columns]
            flipped = ends[0] in "RAS", ends[1] in "RAS"
            title = PATIENT_PLANES[WORLD[ends[0]], WORLD[ends[1]]]
            letters = "".join(
                e + OPPOSITE[e] if f else OPPOSITE[e] + e for e, f in zip(ends, flipped)
            )
        units = [n.get("units") for n in notes]
        ratio = 1.0
        alike = bool(letters) or (units[0] is not None and units[0] == units[1])
        if alike and min(a.size for a in shown) > 1:
            ratio = min(max(abs(shown[0].step / shown[1].step), 1 / MAX_STRETCH), MAX_STRETCH)
        ratio = 1.0 if abs(ratio - 1) < 1e-3 else ratio
        squares = max(ratio, 1.0), max(1 / ratio, 1.0)
        low, high = ((end[rows], end[columns]) for end in (domain.low, domain.high))
        return cls((rows, columns), flipped, squares, low, high, title, letters)

    @property
    def size(self) -> tuple[float, float]:
        """Squares on each side of all that is shown."""
        rows, columns = ((b - a) * s for a, b, s in zip(self.low, self.high, self.squares))
        return rows, columns

    @property
    def coarsest(self) -> int:
        """The level at which all is one tile."""
        return max(0, math.ceil(math.log2(max(self.size) / TILE_PIXELS) - 1e-9))

    def pixels(self, level: int) -> tuple[int, int]:
        """Pixels on each side at a level."""
        full = [round(n * 2.0**-FINEST_LEVEL) for n in self.size]
        rows, columns = (math.ceil(n * 2.0 ** (FINEST_LEVEL - level)) for n in full)
        return rows, columns

    def tiles(self, level: int) -> tuple[int, int]:
        """Tiles on each side at a level."""
        rows, columns = (math.ceil(n / TILE_PIXELS) for n in self.pixels(level))
        return rows, columns

    def edges(self, level: int, spans: Spans | None = None) -> list[Floats]:
        """Index coordinates of the edges of pixels on each side: of some, or all."""
        found: list[Floats] = []
        for k, (first, last) in enumerate(spans or [(0, n) for n in self.pixels(level)]):
            at = np.arange(first, last + 1) * 2.0**level / self.squares[k]
            ends = self.high[k] - at if self.flipped[k] else self.low[k] + at
            found.append(np.asarray(ends, np.float64))
        return found


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
    axes : tuple of two ints, optional
        Array axes of rows and columns; by default the usual ones.
    """

    field: Field
    samples: Array | None = None
    title: str = "field"
    formats: tuple[str, ...] = ()
    axes: tuple[int, int] | None = None

    @cached_property
    def codes(self) -> str:
        """Which way the first axes run in a patient, as "RAS"; empty if that is not known."""
        labels, d = self.field.labels, len(self.field.shape)
        try:
            affine = checked_affine(affine_of(labels))
        except ValueError:
            return ""
        return codes_of(affine, labels.space)[: labels.n_placed][:d]

    @cached_property
    def planes(self) -> "dict[tuple[float, ...], Scene]":
        """The same along every two axes, this one's first; copies, so that none holds itself."""
        found: dict[tuple[float, ...], Scene] = {}
        for pair in pairs_of(self.field.shape, self.codes):
            found[pair] = replace(self, axes=pair if found else self.axes)
            vars(found[pair])["missing"] = self.missing  # as large as the samples: kept once
        return found

    def on_axes(self, axes: tuple[float, ...]) -> "Scene":
        """The same with certain axes as rows and columns; this one for none."""
        return self.planes[choice("plane", axes, self.planes)] if axes else self

    @cached_property
    def plane(self) -> Plane:
        """The axes that are shown."""
        if self.is_series:
            raise ValueError("a series has no plane.")
        return Plane.of(self.field.domain, self.field.labels, self.axes, self.codes)

    def to_plane(self, values: Array) -> Array:
        """An array with one place along axes that are not shown, as rows and columns."""
        rows, columns = self.plane.axes
        values = values.squeeze(self.others)
        return values.swapaxes(0, 1) if rows > columns else values

    @property
    def is_series(self) -> bool:
        """Whether there is only one axis to look along."""
        return sum(n > 1 for n in self.field.shape) < 2

    @property
    def along(self) -> int:
        """The axis of a series."""
        return int(np.argmax(self.field.shape))

    @cached_property
    def shown(self) -> tuple[int, ...]:
        """Axes that are shown."""
        return (self.along,) if self.is_series else self.plane.axes

    @cached_property
    def others(self) -> tuple[int, ...]:
        """Axes that are not shown: those with a slider."""
        return tuple(k for k in range(len(self.field.shape)) if k not in self.shown)

    @property
    def cross(self) -> tuple[float, ...]:
        """Where the page begins: time at its first sample, other axes in their middle."""
        dims, labels = self.field.domain.dims, self.field.labels
        timely = {d for d in dims if labels.axis(d).epoch is not None} | {"time", "frame", "t"}
        sizes = zip(dims, self.field.shape)
        return tuple(0.0 if d in timely else float((n - 1) // 2) for d, n in sizes)

    @cached_property
    def missing(self) -> Array | None:
        """True where a sample is missing in all channels; None where none is, or not known."""
        if self.samples is not None and self.samples.dtype.kind in "fc":
            gone = np.isnan(self.samples).all(axis=-1)
            return gone if gone.any() else None
        if math.prod(self.field.shape) > MARKED_MAX_SAMPLES or self.field.model.missing is None:
            return None
        gone = np.asarray(self.field.model.missing)
        return gone if gone.ndim == len(self.field.shape) else gone.all(axis=-1)

    @property
    def quantities(self) -> tuple[str, ...]:
        """What can be shown."""
        every = ("value", "gradient", "laplacian", "std", "error")
        return tuple(q for q in every if q not in self.lacks)

    @property
    def lacks(self) -> dict[str, str]:
        """What cannot be shown, and why."""
        lacks = {}
        if self.field.labels.alpha is not None:
            lacks["laplacian"] = "Second derivatives are not known for colours with transparency."
        if (reason := why_none(self.field.model)) is not None:
            lacks["std"] = reason[0].upper() + reason[1:]
        boxes = self.field.model.blended.source_samples
        is_lossy = boxes is None or boxes.is_lossy
        if self.samples is None and not is_lossy:
            lacks["error"] = "The model keeps its samples without loss: at each, the error is 0."
        elif self.samples is None:
            lacks["error"] = (
                "Errors need the samples that were fitted: "
                "elmfield view MODEL --samples FILE, or elmfield.view(field, samples=...)."
            )
        return lacks

    @property
    def has_directions(self) -> bool:
        """Whether regions tell in which direction they are smooth."""
        beliefs = self.field.model.blended.groups[0].coefficients.beliefs
        return len(self.field.shape) == 2 and beliefs is not None and not self.is_series

    @cached_property
    def directions(self) -> Floats:
        """Lines along which regions are smooth, two ends each, in index coordinates, (n, 2, 2)."""
        return direction_lines(self.field)

    @property
    def dtype(self) -> str:
        """Of the samples, as they were given."""
        return self.field.labels.dtype or self.field.model.input_dtype

    @property
    def is_picture(self) -> bool:
        """Whether three channels are red, green and blue."""
        whole = self.dtype in ("uint8", "uint16") and not self.field.model.is_complex
        return whole and self.field.model.n_channels in (3, 4)

    @property
    def is_scan(self) -> bool:
        """Whether it is of a patient, or of something else that lay in a scanner."""
        return self.field.labels.affine is not None or "dicom" in self.field.labels.header

    @property
    def is_grey(self) -> bool:
        """Whether one channel is what people are used to see in grey: bytes, or a scan."""
        return self.field.model.n_channels == 1 and (self.dtype == "uint8" or self.is_scan)

    @property
    def top(self) -> float | None:
        """The number for white of a picture; None of anything else."""
        is_known = self.is_picture or (self.is_grey and not self.is_scan)
        return float(np.iinfo(self.dtype).max) if is_known else None

    @property
    def channels(self) -> tuple[int, ...]:
        """Those that the page shows when it opens."""
        return (0, 1, 2) if self.is_picture else (0,)

    @property
    def channel_names(self) -> list[str]:
        """What channels are called."""
        names = [str(v) for v in self.field.labels.channels.labels]
        n = self.field.model.n_channels
        if len(names) == n:
            return names
        usual = [f"channel {k}" for k in range(n)]
        return ["red", "green", "blue", "alpha"][:n] if self.is_picture else usual

    # --- what the page is told -----------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Everything the page must know before it asks for numbers."""
        field = self.field
        header = field.labels.header.get("dicom") or {}
        modality, *pairs = (header.get(k, {}).get("Value", ()) for k in (MODALITY, LEVELS, WIDTHS))
        windows = [pair for pair in zip(*pairs) if {*map(type, pair)} <= {int, float}]
        return {
            **{name: getattr(self, name) for name in TOLD},
            "name": field.labels.name or "",
            "units": field.labels.units or "",
            "series": self.is_series,
            "axes": [self._axis(a) for a in field.domain.axes],
            "planes": [scene._plane() for scene in self.planes.values()],
            "plane": None if self.is_series else self._plane(),
            "scan": self.is_scan,
            "modality": "".join(map(str, modality)),
            "windows": [[v - w / 2, v + w / 2] for v, w in windows],
            "channels": self.channel_names,
            "picture": self.is_picture,
            "grey": self.is_grey,
            "parts": PARTS if field.model.is_complex else (),
            "methods": METHODS,
            "regions": field.partition.n_regions,
            "directions": self.has_directions,
            "maps": MAPS,
            "settings": str(field.settings),
            "coefficients": field.model.n_coefficients,
            "exported": None,
        }

    def _plane(self) -> dict[str, object]:
        plane = self.plane
        return {
            **asdict(plane),
            "others": self.others,
            "size": plane.size,
            "pixels": plane.pixels(FINEST_LEVEL),
            "finest": FINEST_LEVEL,
            "coarsest": plane.coarsest,
            "tile": TILE_PIXELS,
        }

    def _axis(self, axis: Axis) -> dict[str, object]:
        about = self.field.labels.axis(axis.name)
        listed = None
        if axis.spacing is not None:
            at = np.linspace(-0.5, axis.size - 0.5, min(LISTED_MAX_COORDS, 2 * axis.size + 1))
            listed = {"index": at.tolist(), "coords": axis.from_index(at).tolist()}
        epoch = np.asarray("NaT" if about.epoch is None else about.epoch, "datetime64[ms]")
        return {
            "name": axis.name,
            "size": axis.size,
            "units": str(about.attrs.get("units") or ""),
            "origin": axis.origin,
            "step": axis.step,
            "listed": listed,
            "epoch": None if np.isnat(epoch) else float(epoch.astype(np.int64)) / 1e3,
            "counted": axis.coords is None,
        }
