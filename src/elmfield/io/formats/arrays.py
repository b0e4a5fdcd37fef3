"""Bare arrays: NumPy's NPY and NPZ, MATLAB's MAT, BART's CFL."""

from pathlib import Path
from typing import Any

import numpy as np

from elmfield._array.typing import Array
from elmfield.field.coordinates.labels import AxisLabels, ChannelLabels, Labels
from elmfield.io.files import NoSuchArrayError, need, reading, suffix_of
from elmfield.io.gridded import Gridded
from elmfield.io.lazy_arrays import lazy_memmap

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
        if suffix == ".npz":
            return _read_npz(path, variable)
        if suffix == ".cfl":
            return _from_bart(_read_cfl(path))
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


def _from_bart(values: Array) -> Gridded:
    """An array of BART's, whose axes are in a fixed order; coils, the fourth, are channels."""
    names = (*BART, *(f"axis{k}" for k in range(len(BART), values.ndim)))[: values.ndim]
    if values.ndim <= COIL:
        return Gridded(values=values, dims=names)
    dims = tuple(n for k, n in enumerate(names) if k != COIL)
    labels = Labels(channels=ChannelLabels(name=names[COIL]))
    return Gridded(values=values, dims=dims, channel_axis=COIL, labels=labels)


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


def _read_npz(path: Path, variable: str | None) -> Gridded:
    arrays = _load(path)
    numeric = {k: v for k, v in arrays.items() if v.dtype.kind in "biufc" and v.ndim > 0}
    big = {k: v.shape for k, v in numeric.items() if v.ndim > 1} or {
        k: v.shape for k, v in numeric.items()
    }
    name = choose(path, {k: v.shape for k, v in numeric.items()} if variable else big, variable)
    values = numeric[name]
    # One-dimensional arrays whose lengths are, in this order, those of the axes, say where the
    # samples lie.
    lines = [(k, v) for k, v in numeric.items() if v.ndim == 1 and k != name and _is_monotone(v)]
    if [len(v) for _, v in lines] == list(values.shape):
        names = tuple(k for k, _ in lines)
        at = {k: np.asarray(v, np.float64) for k, v in lines}
        axes = {k: AxisLabels(dtype=v.dtype.name) for k, v in lines}
        labels = Labels(name=name, axes=axes, align="nodes")
        return Gridded(values=values, dims=names, coords=at, labels=labels)
    return _from_array(values, name)


def _is_monotone(v: Array) -> bool:
    steps = np.diff(v) if v.dtype.kind in "iuf" else np.zeros(1)
    return bool(len(v) > 1 and (np.all(steps > 0) or np.all(steps < 0)))


def _read_mat(path: Path, variable: str | None) -> Gridded:
    with path.open("rb") as file:
        head = file.read(128)
    if b"MATLAB 7.3" in head:
        h5py = need("h5py", "io", "reading a MATLAB 7.3 file")
        with h5py.File(path) as opened:
            shapes = {
                k: v.shape[::-1]
                for k, v in opened.items()
                if isinstance(v, h5py.Dataset) and v.dtype.kind in "biufc" and v.size > 1
            }
            name = choose(path, shapes, variable)
            values = np.asarray(opened[name]).T  # MATLAB counts its first axis fastest
    else:
        from scipy.io import loadmat

        found = loadmat(path)
        arrays = {
            k: v
            for k, v in found.items()
            if isinstance(v, np.ndarray) and v.dtype.kind in "biufc" and v.size > 1
        }
        name = choose(path, {k: v.shape for k, v in arrays.items()}, variable)
        values = arrays[name]
    return _from_array(np.ascontiguousarray(values), name)


def _read_cfl(path: Path) -> Array:
    lines = path.with_suffix(".hdr").read_text().splitlines()
    sizes = next((row for row in lines if row and not row.startswith("#")), "")
    shape = tuple(int(n) for n in sizes.split())
    if not shape or min(shape) < 1:
        raise ValueError(f"{path.with_suffix('.hdr').name} does not say the array's shape")
    values = np.fromfile(path, "<c8")
    if values.size != int(np.prod(shape)):
        raise ValueError(f"it holds {values.size} numbers; its header says {shape}")
    while len(shape) > 1 and shape[-1] == 1:
        shape = shape[:-1]
    return np.ascontiguousarray(values.reshape(shape, order="F"))


def write(samples: Gridded, path: Path, *, colours: str | None = None) -> None:
    """Write an array; NPZ and MAT files also get the coordinates of its axes."""
    values, suffix = np.asarray(samples.values), suffix_of(path)
    if suffix == ".npy":
        np.save(path, values, allow_pickle=False)
        return
    if suffix == ".cfl":
        path.with_suffix(".hdr").write_text(
            "# Dimensions\n" + " ".join(map(str, values.shape)) + "\n"
        )
        path.write_bytes(values.astype("<c8").tobytes(order="F"))
        return
    name = samples.labels.name or "values"
    lines = {n: samples.coords[n] for n in samples.dims if n in samples.coords and n != name}
    if suffix == ".npz":
        arrays: dict[str, Any] = {name: values, **lines}
        np.savez_compressed(path, **arrays)
    else:
        from scipy.io import savemat

        if values.nbytes >= 2**31:
            raise ValueError(f"{path.name}: MATLAB 5 files end at 2 GB; write a .npy file instead.")
        savemat(path, {name: values, **lines}, do_compression=True)
