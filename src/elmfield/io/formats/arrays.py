"""Bare arrays: NumPy's NPY and NPZ, MATLAB's MAT, BART's CFL; tables of observations in CSV.

Also how arrays in files of any kind are read slab by slab, and sent between processes by name.
"""

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.typing import Array, DType
from elmfield.field.coordinates.labels import AxisLabels, Labels
from elmfield.io.files import NoSuchArrayError, need, reading, suffix_of
from elmfield.io.gridded import Gridded

if TYPE_CHECKING:
    from elmfield.observe import Observation

BART = ("readout", "phase1", "phase2", "coil", "map", "echo", "coefficient", "coefficient2")
"""What BART's first axes are."""

COIL = 3
"""The axis of coils among them."""


def read(path: Path, variable: str | None = None, *, lazily: bool = False) -> Gridded:
    """An array; of several in an archive the one that is named. NPY files can stay in place."""
    suffix = suffix_of(path)
    what = {".mat": "a MATLAB file", ".cfl": "a BART file"}.get(suffix, "a NumPy file")
    with reading(path, what):
        if suffix == ".npy":
            return _from_array(_load(path, lazily))
        if suffix == ".cfl":
            return _read_cfl(path)
        if suffix == ".npz":
            return _choose_array(path, _load(path), variable)
        return _read_mat(path, variable)


def _load(path: Path, lazily: bool = False) -> Any:
    """An array, or all arrays of an archive by name."""
    try:
        if lazily:
            values = np.load(path, mmap_mode="r", allow_pickle=False)
            return lazy_memmap(values) if isinstance(values, np.memmap) else values
        with path.open("rb") as file:  # ours to close: NumPy leaves a broken archive open
            found: Any = np.load(file, allow_pickle=False)
            single = isinstance(found, np.ndarray)
            found = found if single else dict(found)
    except ValueError as error:
        raise ValueError("it is none, or holds pickled objects, which are never loaded") from error
    if single == (suffix_of(path) == ".npz"):
        raise ValueError("its name should end in " + (".npy" if single else ".npz"))
    return found


def _from_array(values: Array, name: str | None = None) -> Gridded:
    dims = tuple(f"axis{k}" for k in range(values.ndim))
    return Gridded(values=values, dims=dims, labels=Labels(name=name))


def choose(path: Path, found: dict[str, Any], variable: str | None) -> str:
    """The array that was asked for, or the only one there is."""
    if variable is not None:
        if variable not in found:
            raise NoSuchArrayError(
                f"{path.name} has no array {variable!r}; it has {', '.join(found) or 'none'}."
            )
        return variable
    if len(found) != 1:
        listed = ", ".join(f"{k} {tuple(v)}" for k, v in found.items())
        raise NoSuchArrayError(
            f"{path.name} holds {len(found)} arrays ({listed}); say which one: "
            f"variable={next(iter(found), 'name')!r}, or --variable on the command line."
        )
    return next(iter(found))


def _choose_array(path: Path, arrays: Mapping[str, Any], variable: str | None) -> Gridded:
    """The array that is meant among several, with its coordinates.

    Arrays of one axis whose lengths are, in this order, those of its axes, say where samples lie.
    """
    own = {k: v for k, v in arrays.items() if v.dtype.kind in "biufc" and v.ndim > 0}
    shapes = {k: v.shape for k, v in own.items()}
    lines = [k for k, shape in shapes.items() if max(shape) == math.prod(shape)]
    big = {k: shape for k, shape in shapes.items() if k not in lines} or shapes
    name = choose(path, shapes if variable else big, variable)
    values = np.ascontiguousarray(own[name])
    found = {k: np.ravel(own[k]) for k in lines if k != name}
    found = {k: v for k, v in found.items() if _is_monotone(v)}
    if [len(v) for v in found.values()] == list(values.shape):
        at = {k: np.asarray(v, np.float64) for k, v in found.items()}
        axes = {k: AxisLabels(dtype=v.dtype.name) for k, v in found.items()}
        labels = Labels(name=name, axes=axes, align="nodes")
        return Gridded(values=values, dims=tuple(found), coords=at, labels=labels)
    return _from_array(values, name)


def _is_monotone(v: Array) -> bool:
    steps = np.diff(v.astype(np.float64)) if v.dtype.kind in "iuf" else np.zeros(1)
    return bool(len(v) > 1 and (np.all(steps > 0) or np.all(steps < 0)))


def _read_mat(path: Path, variable: str | None) -> Gridded:
    with path.open("rb") as file:
        head = file.read(128)
    if b"MATLAB 7.3" in head:
        h5py = need("h5py", "io", "reading a MATLAB 7.3 file")
        with h5py.File(path) as opened:
            every = {k: v for k, v in opened.items() if isinstance(v, h5py.Dataset) and v.size > 1}
            turned = {k: lazy_turned(v) for k, v in every.items()}
            return _choose_array(path, turned, variable)
    from scipy.io import loadmat

    found = {k: v for k, v in loadmat(path).items() if isinstance(v, np.ndarray) and v.size > 1}
    return _choose_array(path, found, variable)


def _read_cfl(path: Path) -> Gridded:
    """An array of BART's, whose axes are in a fixed order; coils, the fourth, are channels."""
    lines = path.with_suffix(".hdr").read_text("latin-1").splitlines()
    sizes = next((row for row in lines if row and not row.startswith("#")), "")
    shape = tuple(int(n) for n in sizes.split())
    if not shape or min(shape) < 1:
        raise ValueError(f"{path.with_suffix('.hdr').name} does not say the array's shape")
    values = np.fromfile(path, "<c8")
    if values.size != int(np.prod(shape)):
        raise ValueError(f"it holds {values.size} numbers; its header says {shape}")
    while len(shape) > 1 and shape[-1] == 1:
        shape = shape[:-1]
    n = len(shape)
    names = (*BART, *(f"axis{k}" for k in range(len(BART), n)))[:n]
    made = Gridded(values=np.ascontiguousarray(values.reshape(shape, order="F")), dims=names)
    return made if n <= COIL else made.with_channels(COIL)


def write(samples: Gridded, path: Path, *, colours: str | None = None) -> None:
    """Write an array; NPZ and MAT files also get the coordinates of its axes."""
    values, suffix = np.asarray(samples.values), suffix_of(path)
    if suffix == ".npy":
        np.save(path, values, allow_pickle=False)
        return
    if suffix == ".cfl":
        sizes = " ".join(map(str, values.shape))
        path.with_suffix(".hdr").write_bytes(f"# Dimensions\n{sizes}\n".encode())
        path.write_bytes(values.astype("<c8").tobytes(order="F"))
        return
    name = samples.labels.name or "values"
    arrays: dict[str, Any] = {name: values}
    arrays |= {n: samples.coords[n] for n in samples.dims if n in samples.coords and n != name}
    if suffix == ".npz":
        np.savez_compressed(path, **arrays)
    else:
        from scipy.io import savemat

        if values.nbytes >= 2**31:
            raise ValueError(f"{path.name}: MATLAB 5 files end at 2 GB; write a .npy file instead.")
        savemat(path, arrays, do_compression=True)


# --- arrays that are read slab by slab ------------------------------------------------------------


Read = Callable[[tuple[slice, ...]], Array]
"""Gives a slab of a whole array: slices with numbers, steps above 0."""


@dataclass(frozen=True, eq=False)
class Lazy:
    """A part of an array that is read when it is asked for: ``np.asarray(lazy[10:20])``.

    Parameters
    ----------
    read : callable
        Reads slabs of the whole array; can be pickled.
    whole : tuple of int
        Shape of that.
    dtype : NumPy dtype
        Of its numbers.
    part : tuple of range or int
        What is meant on each axis of the whole; an axis with a number is gone.
    stored : tuple of int or None
        What is read at once, on each axis of the whole; None where that may be anything.
    """

    read: Read = field(repr=False)
    whole: tuple[int, ...]
    dtype: DType
    part: tuple[range | int, ...] = ()
    stored: tuple[int, ...] | None = None

    @property
    def chunk(self) -> tuple[int, ...] | None:
        """What is read at once, about, on each axis; None where that may be anything."""
        if self.stored is None:
            return None
        every = zip(self.stored, self._part)
        return tuple(max(1, n // abs(p.step)) for n, p in every if isinstance(p, range))

    @property
    def _part(self) -> tuple[range | int, ...]:
        return self.part or tuple(range(n) for n in self.whole)

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers on each axis."""
        return tuple(len(p) for p in self._part if isinstance(p, range))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all numbers."""
        return math.prod(self.shape) * int(np.dtype(self.dtype).itemsize)

    def __getitem__(self, key: Any) -> "Lazy":
        """A part of it, of slices and numbers; nothing is read."""
        keys = list(key) if isinstance(key, tuple) else [key]
        if Ellipsis in keys:
            i = keys.index(Ellipsis)
            keys[i : i + 1] = [slice(None)] * (self.ndim - len(keys) + 1)
        keys += [slice(None)] * (self.ndim - len(keys))
        rest = iter(keys)
        part = tuple(p if isinstance(p, int) else p[next(rest)] for p in self._part)
        return Lazy(self.read, self.whole, self.dtype, part, self.stored)

    def __array__(self, dtype: DType = None, copy: bool | None = None) -> Array:
        """The numbers."""
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        slab, turn = list[slice](), list[int | slice]()
        for p in self._part:
            up = range(p, p + 1) if isinstance(p, int) else p if p.step > 0 else p[::-1]
            slab.append(slice(up.start, up.stop, up.step))
            turn.append(0 if isinstance(p, int) else slice(None, None, 1 if p.step > 0 else -1))
        found = np.asarray(self.read(tuple(slab)))[tuple(turn)]
        return np.asarray(found, self.dtype if dtype is None else dtype)


def lazy_memmap(values: np.memmap) -> Lazy:
    """A memory map by the name of its file; slices of it, which begin elsewhere, as they are."""
    order = "C" if values.flags.c_contiguous else "F"
    about = str(values.filename), values.dtype, "r", int(values.offset), values.shape, order
    return Lazy(partial(_mapped_slab, about), values.shape, values.dtype)


def lazy_turned(dataset: Any) -> Lazy:
    """An array of an open MATLAB 7.3 file, which counts its first axis fastest."""

    def read_slab(slab: tuple[slice, ...]) -> Array:
        return np.transpose(dataset[slab[::-1]])

    return Lazy(read_slab, dataset.shape[::-1], dataset.dtype)


def _mapped_slab(about: tuple[Any, ...], slab: tuple[slice, ...]) -> Array:
    """A copy of a slab: what the system read for it is forgotten again."""
    return np.array(np.memmap(*about)[slab])


# --- tables of observations -----------------------------------------------------------------------


RESERVED = ("kind", "along", "value", "noise")
"""Columns that are no axes."""


def read_observations(path: Path) -> "tuple[list[Observation], tuple[str, ...]]":
    """Read observations and the names of the axes from a CSV file.

    Columns: ``value``; a column for each axis, for values and slopes; ``<axis>_low`` and
    ``<axis>_high`` for means; and if needed ``kind`` (value, slope or mean), ``along`` (the axis of
    a slope), ``noise`` (empty: estimated, 0: kept). Rows of one kind, axis and whether their noise
    is known are one instrument.
    """
    with path.open(newline="", encoding="utf-8-sig") as file:  # as spreadsheets write it
        rows = list(csv.DictReader(file))
    if not rows or "value" not in rows[0]:
        raise ValueError(f"{path.name}: a table of observations needs a column `value` and rows.")
    names = [c.removesuffix("_low").removesuffix("_high") for c in rows[0] if c not in RESERVED]
    axes = tuple(dict.fromkeys(names))
    sets: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for row in rows:
        noise = (row.get("noise") or "").strip()
        known = "unknown" if not noise else "kept" if _number(path, noise) == 0 else "known"
        key = ((row.get("kind") or "value").strip(), (row.get("along") or "").strip(), known)
        sets.setdefault(key, []).append(row)
    return [_observation(path, key, own, axes) for key, own in sets.items()], axes


def _number(path: Path, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{path.name}: {text!r} is not a number.") from None


def _observation(
    path: Path, key: tuple[str, str, str], rows: list[dict[str, str]], axes: Sequence[str]
) -> "Observation":
    """The rows of one kind."""
    from elmfield import observe as ob

    kind, along, known = key

    def columns(*names: str) -> np.ndarray:
        if missing := [n for n in names if n not in rows[0]]:
            raise ValueError(f"{path.name}: rows of kind {kind!r} need the column {missing[0]!r}.")
        return np.array([[_number(path, row[n] or "") for n in names] for row in rows])

    y = columns("value")[:, 0]
    noise = None if known == "unknown" else columns("noise")[:, 0]
    if kind == "mean":
        low, high = (columns(*(f"{a}_{end}" for a in axes)) for end in ("low", "high"))
        return ob.means(low, high, y, noise=noise)
    if kind == "value":
        return ob.values(columns(*axes), y, noise=noise)
    if kind != "slope" or along not in axes:
        raise ValueError(
            f"{path.name}: `kind` must be value, slope or mean, and a slope says `along` which of "
            f"{list(axes)}; got {kind!r} along {along!r}."
        )
    return ob.derivatives(columns(*axes), y, order=[int(a == along) for a in axes], noise=noise)
