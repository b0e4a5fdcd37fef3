"""Array libraries: which one an array belongs to, and the few operations the standard lacks.

Or that libraries do slowly: QR, its triangle, back substitution.
"""

import math
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from inspect import getattr_static
from typing import Any

import array_api_compat as compat
import numpy as np

from elmfield._array.checks import shown
from elmfield._array.typing import Array, DType, Namespace

device = compat.device
is_dask = compat.is_dask_array


# Not those of array-api-compat: theirs are cached, and `torch.compile` warns of that.


def is_numpy(x: object) -> bool:
    """Whether `x` is one of NumPy's arrays or numbers."""
    return isinstance(x, (np.ndarray, np.generic))


def is_torch(x: object) -> bool:
    """Whether `x` is a tensor; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


_NAMESPACES: dict[type, Namespace] = {}


def namespace(*arrays: Array) -> Namespace:
    """The array-API namespace that the arrays share."""
    kinds = {type(x) for x in arrays}
    if len(kinds) > 1:
        return compat.array_namespace(*arrays)
    (kind,) = kinds
    if kind not in _NAMESPACES:  # one call asks a hundred times
        # NumPy's own: to import its wrapper takes 0.1 s
        is_own = issubclass(kind, np.ndarray)
        _NAMESPACES[kind] = np if is_own else compat.array_namespace(*arrays)
    return _NAMESPACES[kind]


def is_array(x: object) -> bool:
    """Whether `x` already belongs to an array library that is computed with.

    A list does not, nor do arrays of JAX, which cannot be changed in place, and of Dask, which
    cannot be reshaped at will: they are read as NumPy's.
    """
    is_read = compat.is_jax_array(x) or is_dask(x)
    return bool(compat.is_array_api_obj(x)) and not is_read


def is_sliced(x: object) -> bool:
    """Whether `x` has a shape, a dtype and slices, without being an array (Zarr, HDF5, Dask)."""
    return all(hasattr(x, member) for member in ("shape", "dtype", "__getitem__"))


def is_labelled(x: object) -> bool:
    """Whether `x` names its axes and says where its samples lie, as an xarray.DataArray does.

    Members are looked up, not asked: the values of a Dask array would be computed.
    """
    absent, members = object(), ("dims", "coords", "values")
    if is_numpy(x) or is_torch(x):  # which are asked with every fit
        return False
    return all(getattr_static(x, member, absent) is not absent for member in members)


def is_on_host(x: Array) -> bool:
    """Whether `x` lives in the processor's own memory."""
    return not is_torch(x) or x.device.type == "cpu"


def requires_grad(x: Array) -> bool:
    """Whether torch tracks what is done with `x`, to differentiate it later."""
    return bool(getattr(x, "requires_grad", False))


def detach(x: Array) -> Array:
    """Return `x` as a constant, which torch does not track."""
    return x.detach() if requires_grad(x) else x


def is_abstract(x: Array) -> bool:
    """Whether `x` is a tensor without numbers: on the meta device, or within `torch.func`."""
    try:
        return is_torch(x) and (x.is_meta or x.data_ptr() is None)
    except RuntimeError:  # tensors within `vmap` and `jacrev` have no memory of their own
        return True


def refuse_abstract(name: str, x: Array, instead: str) -> None:
    """Raise TypeError for a tensor without numbers."""
    if is_abstract(x):
        got = "a tensor on torch's meta device or within torch.func (vmap, jacrev, ...)"
        raise TypeError(f"`{name}` must hold numbers; got {got}. {instead}")


@contextmanager
def outside_torch_modes() -> Iterator[None]:
    """Within this context torch neither autocasts nor is in inference mode.

    Autocast rounds matrix products to half precision, of what is kept for later too; and what is
    made in inference mode cannot be used in training, even if it was only made to be kept.
    """
    torch: Any = sys.modules.get("torch")
    with ExitStack() as modes:
        for kind in () if torch is None else ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                modes.enter_context(torch.autocast(kind, enabled=False))
        if torch is not None and torch.is_inference_mode_enabled():
            modes.enter_context(torch.inference_mode(False))
            modes.enter_context(torch.no_grad())  # leaving that mode lets torch track again
        yield


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that the processor's or a device's memory ran out."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


def to_numpy(x: Array) -> Array:
    """`x` as a NumPy array on the host; no copy where none is needed."""
    if is_torch(x):
        return x.detach().cpu().numpy()
    return np.asarray(x)


def move(x: Array, like: Array, dtype: object = None) -> Array:
    """`x` in the library and on the device of `like`, with `dtype` if given, else its own."""
    xp = namespace(like)
    if is_torch(x):
        if compat.is_torch_namespace(xp):  # `asarray` of a tracked tensor warns
            wanted: Array = x.dtype if dtype is None else dtype
            return x.to(device=like.device, dtype=wanted)
        x = to_numpy(x)
    if compat.is_torch_namespace(xp) and isinstance(x, np.ndarray):
        # torch refuses negative strides, and warns of memory it may not write to
        x = np.ascontiguousarray(x) if x.flags.writeable else x.copy()
        # Memory that the system may move is copied before the call returns: no need to wait for it.
        return xp.from_numpy(x).to(like.device, dtype, non_blocking=True)
    return xp.asarray(x, dtype=dtype, device=device(like))


def move_all(arrays: Sequence[np.ndarray], like: Array, dtype: object = None) -> list[Array]:
    """:func:`move` of several NumPy arrays of one dtype, in one copy to a device."""
    if is_on_host(like):
        return [move(x, like, dtype) for x in arrays]
    return _parted(move(np.concatenate([x.ravel() for x in arrays]), like, dtype), arrays)


def to_numpy_all(arrays: Sequence[Array]) -> list[Array]:
    """:func:`to_numpy` of several floating arrays at once, for one wait for a device."""
    if all(is_on_host(x) for x in arrays):
        return [np.asarray(to_numpy(x)) for x in arrays]
    xp = namespace(*arrays)
    return _parted(to_numpy(xp.concat([xp.reshape(x, (-1,)) for x in arrays])), arrays)


def _parted(flat: Array, like: Sequence[Array]) -> list[Array]:
    """What lies one after the other in `flat`, each in the shape of its own."""
    parts, end = [], 0
    for x in like:
        start, end = end, end + math.prod(x.shape)
        parts.append(flat[start:end].reshape(x.shape))
    return parts


def itemsize(x: Array) -> int:
    """Bytes of an entry of `x`."""
    # The standard does not say how wide a dtype is; what does not say so itself is taken for wide.
    return int(getattr(x, "itemsize", 8))


def n_bytes(x: Array) -> int:
    """Memory that the entries of `x` take."""
    return int(math.prod(x.shape)) * itemsize(x)


def crc32(x: Array, before: int = 0) -> int:
    """CRC-32 of the bytes of a NumPy array, after those of others."""
    return zlib.crc32(np.ascontiguousarray(x).reshape(-1).view(np.uint8).data, before)


def cast(x: Array, like: Array) -> Array:
    """`x` in the dtype of `like`."""
    return x if x.dtype == like.dtype else namespace(x).astype(x, like.dtype)


def copy_array(x: Array) -> Array:
    """Return a copy of `x`, laid out alike; torch still tracks it."""
    return x.clone() if is_torch(x) else move(np.array(to_numpy(x), order="K"), x)


def as_complex(real: Array, imag: Array) -> Array:
    """Complex numbers of two floating parts, to the last bit: ``real + 1j * imag`` loses -0."""
    if is_torch(real):
        return namespace(real).complex(real, imag)
    host = to_numpy(real)
    out = np.empty(host.shape, np.result_type(host, np.complex64))
    out.real, out.imag = host, to_numpy(imag)
    return move(out, real)


def as_dtype(values: Array, dtype: DType) -> Array:
    """`values` as `dtype`, or as they are for None.

    Integers are rounded and clipped to what the dtype holds, 0 where nothing is known (NaN);
    booleans are cut at 1/2.
    """
    xp = namespace(values)
    if dtype is None:
        return values
    try:
        named = isinstance(dtype, (str, type, np.dtype))
        own = getattr(xp, np.dtype(dtype).name) if named else dtype
        known = xp.isdtype(own, ("bool", "numeric"))
    except (TypeError, ValueError, AttributeError):
        known = False
    if not known:
        raise TypeError(f"`dtype` must be one of numbers, such as 'float32'; got {shown(dtype)}.")
    dtype = own
    if values.dtype == dtype:
        return values
    if xp.isdtype(values.dtype, "complex floating") and not xp.isdtype(dtype, "complex floating"):
        raise ValueError(f"complex values cannot be written as {dtype}.")
    if xp.isdtype(dtype, "bool"):
        return values >= 0.5
    if xp.isdtype(dtype, "integral"):
        values = xp.astype(values, xp.float64)
        values = xp.where(xp.isnan(values), xp.zeros_like(values), values)
        values = xp.clip(xp.round(values), *integer_limits(xp.iinfo(dtype)))
    return xp.astype(values, dtype)


def integer_limits(info: Any) -> tuple[float, float]:
    """The least and the largest float64 that an integer dtype holds; `info` is its `iinfo`."""
    # No float of 53 bits lies between this and the largest integer; 2⁶³ itself would overflow.
    top = info.max if info.bits < 64 else info.max - 2 ** (info.bits - 53) + 1
    return float(info.min), float(top)


def contiguous(x: Array) -> Array:
    """`x` with its last axis running fastest in memory, where the library lets one choose."""
    if is_numpy(x):
        return np.ascontiguousarray(x)
    return x.contiguous() if is_torch(x) else x


def to_device(x: Array, name: object) -> Array:
    """`x` on the named device; a NumPy array becomes a torch tensor unless the name is "cpu"."""
    is_named = isinstance(name, (str, int)) or hasattr(name, "type")
    if isinstance(name, bool) or not is_named or str(name) == "meta":  # which holds no numbers
        raise ValueError(f'`device` must be a name such as "cpu" or "cuda:0"; got {name!r}.')
    if is_numpy(x):
        if name == "cpu":
            return x
        import torch

        x = torch.from_numpy(np.ascontiguousarray(x) if x.flags.writeable else x.copy())
    try:
        return compat.to_device(x, name)
    except (RuntimeError, AssertionError, NotImplementedError, TypeError, ValueError) as problem:
        # torch has several ways of saying no
        raise ValueError(f"`device` {shown(name)} cannot be used here: {problem}") from problem


def move_to(x: Array, where: object) -> Array:
    """`x` where `where` says: on a device, in NumPy, or in the library and device of an array."""
    if is_array(where):
        return move(x, where)
    if isinstance(where, str) and where == "numpy":
        return to_numpy(x)
    if is_numpy(x):
        import torch

        x = torch.as_tensor(np.array(x))
    return to_device(x, where)


def take(x: Array, index: Array, axis: int = 0) -> Array:
    """Entries of `x` at positions `index`, (n,), of an axis; none is negative."""
    if is_torch(x):
        return x.index_select(axis, index)  # the standard's own looks for negative ones first
    if is_numpy(x) and not x.flags.c_contiguous:  # NumPy's own copies all of `x` first
        return np.ascontiguousarray(x[(slice(None),) * axis + (index,)])
    return namespace(x).take(x, index, axis=axis)


def searchsorted(edges: Array, x: Array) -> Array:
    """How many of the ascending `edges` are at or below each of `x`, shape (n,)."""
    xp = namespace(x)
    if compat.is_torch_namespace(xp):
        x = x.contiguous()  # torch warns of strides
    return xp.searchsorted(edges, x, side="right")


def sort_order(key: Array, bound: int) -> Array:
    """The stable order of integers from 0 to below `bound`, shape (n,)."""
    if not is_on_host(key):
        return namespace(key).argsort(key, stable=True)
    # NumPy sorts 16 bits by counting, ten times faster than it compares 64: digit by digit.
    digits = to_numpy(key)
    order = np.argsort(_digit(digits, bound), kind="stable")
    while (bound := -(-bound // 0x10000)) > 1:
        digits = digits >> 16
        order = order[np.argsort(_digit(digits, bound)[order], kind="stable")]
    return move(order, key)


def _digit(x: np.ndarray, bound: int) -> np.ndarray:
    """The lowest 16 bits of x, or 8 if that is all there is below `bound`."""
    if bound <= 0x100:
        return x.astype(np.uint8, copy=False)
    return (x if bound <= 0x10000 else x & 0xFFFF).astype(np.uint16, copy=False)


def count(key: Array, bound: int) -> np.ndarray:
    """How often each integer below `bound` occurs, on the host."""
    if is_torch(key):
        return np.asarray(to_numpy(namespace(key).bincount(key, minlength=bound)))
    return np.bincount(to_numpy(key), minlength=bound)


def put_rows(out: Array, index: Array, rows: Array) -> Array:
    """`out`, (n, C), with ``out[index[k]] = rows[k]``, in place where the library can."""
    if is_torch(out):
        out[index] = rows
        return out
    host, rows = _writable(out), to_numpy(rows)
    if out.shape[1] == 1:  # five times faster than rows of one
        host, rows = host[:, 0], rows[:, 0]
    host[to_numpy(index)] = rows
    return move(host.reshape(out.shape), out)


def _writable(x: Array) -> np.ndarray:
    """`x` on the host to write to: a NumPy array itself, of others a copy."""
    return x if is_numpy(x) else np.array(to_numpy(x))


def add_rows(out: Array, index: np.ndarray, rows: Array) -> Array:
    """`out`, (C, n, R), with ``out[:, index[k]] += rows[:, k]``, in place where the library can.

    Indices must differ.
    """
    if is_torch(out):
        return out.index_add_(1, move(index, out), rows)
    host = _writable(out)
    host[:, index] += to_numpy(rows)
    return move(host, out)


def scatter_add(size: int, index: Array, values: Array) -> Array:
    """Sums ``out[index[k]] += values[k]`` in an array of `size` zeros; repeated indices add up."""
    xp = namespace(values)
    if compat.is_torch_namespace(xp):
        out = xp.zeros(size, dtype=values.dtype, device=device(values))
        return out.index_add_(0, index, values)
    total = np.bincount(to_numpy(index), weights=to_numpy(values), minlength=size)
    return move(total, values, values.dtype)


def add_runs(x: Array, starts: np.ndarray, axis: int) -> Array:
    """Sums of runs along an axis: entry i adds up what lies from starts[i] to the next start."""
    n = x.shape[axis]
    if len(starts) == n:
        return x
    if not is_torch(x):
        return move(np.add.reduceat(to_numpy(x), starts, axis=axis), x)
    owner = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, n)))
    sizes = [len(starts) if k == axis else m for k, m in enumerate(x.shape)]
    out = namespace(x).zeros(sizes, dtype=x.dtype, device=device(x))
    return out.index_add_(axis, move(owner, x), x)


# --- factorisations ------------------------------------------------------------------------------


def solve_triangular(R: Array, B: Array) -> Array:
    """``R⁻¹ B`` for upper-triangular R, shapes (..., m, m) and (..., m, C)."""
    if is_torch(R):
        return namespace(R, B).linalg.solve_triangular(R, B, upper=True)
    import scipy.linalg  # 0.1 s, and only dense layers need it

    return move(scipy.linalg.solve_triangular(to_numpy(R), to_numpy(B), check_finite=False), B)


def qr(X: Array) -> tuple[Array, Array]:
    """``X = Q R``, shapes (n, m), (n, m) and (m, m), for n ≥ m; Q orthonormal to rounding."""
    if is_torch(X):
        Q, R = namespace(X).linalg.qr(X)
        return Q, R
    import scipy.linalg  # takes less time for Q than NumPy's

    Q, R = scipy.linalg.qr(to_numpy(X), mode="economic", check_finite=False)
    return move(Q, X), move(R, X)


def triangle(*columns: Array, above: Array | None = None) -> Array:
    """The upper triangle R of ``X = Q R``, shape (min(n, m), m); Q is not formed.

    X has the given blocks of columns side by side, and the rows `above` on top of them.
    """
    xp = namespace(*columns)
    X = xp.concat(columns, axis=1)
    X = X if above is None else xp.concat([above, X], axis=0)
    if is_torch(X):
        return xp.linalg.qr(X, mode="r")[1]
    import scipy.linalg

    R = scipy.linalg.qr(to_numpy(X), mode="raw", overwrite_a=True, check_finite=False)[1]
    return move(R, X)
