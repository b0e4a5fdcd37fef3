"""Fitted: a trained network called exactly like a Field.

Points come in index coordinates, values leave in the array's own units, where the array lived. How
the network was trained is not known here, only what was logged.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from elmfield._array.backend import as_dtype, is_array, move, namespace, to_numpy
from elmfield._array.checks import sizes_of
from elmfield._array.running import capacity, with_less_memory
from elmfield._array.typing import Array, Floats
from elmfield.domain import Domain


class Row(NamedTuple):
    """One line of a training log: how good the network was after `step` steps.

    `seconds` is the time of those steps, `paper_psnr` the paper's PSNR over the whole array.
    """

    step: int
    seconds: float
    paper_psnr: float


@dataclass(frozen=True, eq=False, repr=False)
class Fitted:
    """A continuous function of d coordinates with C channels, held by a network.

    Made by :func:`paper.research.baselines.fit`; call it with points.

    Parameters
    ----------
    domain : Domain
        The box, in index coordinates.
    network : object
        Coordinates in, values between -1 and 1 out.
    method : object
        What it was made with.
    offset, scale : arrays, shape (C,)
        Values are ``offset + scale * network``.
    channel_axis : int or None
        Where gridded results have their channels.
    log : tuple of Row
        The training, row by row; the last one describes this function.
    precision : str
        Of its matrix products.
    home : array
        An array that lives where results go.
    """

    domain: Domain
    network: Any
    method: Any
    offset: Floats
    scale: Floats
    channel_axis: int | None
    log: tuple[Row, ...]
    precision: str
    home: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis of the array it was fitted to, without channels."""
        return self.domain.shape

    @property
    def n_channels(self) -> int:
        """Number of channels C."""
        return len(self.offset)

    @property
    def n_parameters(self) -> int:
        """Real numbers that were trained; a complex one counts twice."""
        return int(self.network.n_parameters)

    def __repr__(self) -> str:
        sizes = "×".join(map(str, self.shape))
        return (
            f"Fitted({sizes}, {self.n_channels} channel{'s' * (self.n_channels != 1)}, "
            f"{self.n_parameters} parameters, {self.method!r})"
        )

    def __call__(self, points: Array, *, outside: str = "raise") -> Array:
        """Values at `points`.

        Parameters
        ----------
        points : array, shape (..., d)
            Index coordinates.
        outside : {"raise", "nearest", "nan"}
            What to do with points outside the domain.

        Returns
        -------
        array, shape (...,) or (..., C), float32
        """
        x, beyond = self._index(points, outside)
        out = evaluate(self, x.reshape(-1, len(self.shape)))
        if beyond is not None:
            out[move(np.flatnonzero(beyond), out)] = float("nan")
        out = out.reshape(*x.shape[:-1], self.n_channels)
        return self._home(out[..., 0] if self.channel_axis is None else out)

    def _index(self, points: Array, outside: str) -> tuple[Floats, Any]:
        """Index coordinates of points as callers give them, and which lie outside, or None."""
        if outside not in ("raise", "nearest", "nan"):
            raise ValueError(f"`outside` must be 'raise', 'nearest' or 'nan'; got {outside!r}.")
        x = np.asarray(to_numpy(points) if is_array(points) else points)
        d = len(self.shape)
        if x.dtype.kind not in "fiu":
            raise ValueError(f"`points` must hold real numbers; got dtype {x.dtype}.")
        if x.ndim == 0 or x.shape[-1] != d:
            hint = " Add a trailing axis: points[..., None]." if d == 1 else ""
            raise ValueError(
                f"`points` must have shape (..., {d}), one coordinate per axis; got shape "
                f"{x.shape}.{hint}"
            )
        index, beyond = self.domain.to_index(np.asarray(x, np.float64).reshape(-1, d), outside)
        return np.asarray(index).reshape(x.shape), beyond

    def gradient(self, points: Array, *, outside: str = "raise") -> Array:
        """First derivatives along the axes, (..., d) or (..., C, d), per sample; as of a Field."""
        x, beyond = self._index(points, outside)
        out = slopes(self, x.reshape(-1, len(self.shape)))
        if beyond is not None:
            out[move(np.flatnonzero(beyond), out)] = float("nan")
        out = out.reshape(*x.shape[:-1], self.n_channels, len(self.shape))
        return self._home(out[..., 0, :] if self.channel_axis is None else out)

    def grid(self, *coords: Array) -> Array:
        """Values on the grid of one array of index coordinates per axis; as of a Field."""
        if len(coords) != len(self.shape):
            raise ValueError(
                f"`grid` takes one array of coordinates per axis, {len(self.shape)}; got "
                f"{len(coords)}."
            )
        at = [np.asarray(to_numpy(c) if is_array(c) else c, np.float64) for c in coords]
        return self._gridded(at, None)

    def resize(self, shape: int | Sequence[int], *, dtype: Any = None) -> Array:
        """The function at another number of samples, each standing for an equal part of the domain.

        Sample j of n' sits at ``(j + 1/2) n / n' - 1/2``, as in `Field.resize`.

        Parameters
        ----------
        shape : int or sequence of int
            New number of samples on each axis (without channels).
        dtype : optional
            Of the result; an integer dtype rounds and clips. Default: float32.
        """
        d = len(self.shape)
        sizes = sizes_of("shape", shape, d)
        x: list[Floats] = []
        for a, b, n in zip(self.domain.low, self.domain.high, sizes):
            x.append(np.asarray(a + (np.arange(n) + 0.5) * ((b - a) / n), np.float64))
        return self._gridded(x, dtype)

    def samples(self, *, dtype: Any = None) -> Array:
        """The function at the array's own samples: an array like the one fitted."""
        return self._gridded([np.arange(n, dtype=np.float64) for n in self.shape], dtype)

    def _gridded(self, x: list[Floats], dtype: Any) -> Array:
        out = evaluate(self, x).reshape(*map(len, x), self.n_channels)
        if self.channel_axis is None:
            out = out[..., 0]
        else:
            out = namespace(out).moveaxis(out, -1, self.channel_axis)
        if dtype is not None:
            return move(as_dtype(to_numpy(out), dtype), self.home)
        return self._home(out)

    def _home(self, values: Array) -> Array:
        if isinstance(self.home, np.ndarray):
            return to_numpy(values)
        return values.to(self.home.device)


def to_interval(index: Array, n: int, interval: tuple[float, float]) -> Array:
    """Index coordinates on an axis of `n` samples, from -1/2 to n - 1/2, on the interval."""
    low, high = interval
    return low + (index + 0.5) * ((high - low) / n)


@with_less_memory
def evaluate(model: Fitted, at: Any) -> Array:
    """Values (n, C), as a tensor beside the network, at points (n, d) or on a grid of d axes.

    Everything in index coordinates. In batches, so that a grid of any size needs room for its
    values and for one batch.
    """
    import torch

    from paper.research.baselines.activations import matmul_precision

    network = model.network
    where = network.parameters[0].device
    scale, offset = (
        torch.as_tensor(a, dtype=torch.float64, device=where) for a in (model.scale, model.offset)
    )
    interval = model.method.interval
    if isinstance(at, list):
        axes = [to_interval(x, n, interval) for x, n in zip(at, model.shape)]
        grid = [torch.as_tensor(x, dtype=torch.float32, device=where) for x in axes]
        lengths = [len(x) for x in at]
        total = math.prod(lengths)
    else:
        columns = [to_interval(at[:, k], n, interval) for k, n in enumerate(model.shape)]
        points = torch.as_tensor(np.stack(columns, axis=-1), dtype=torch.float32, device=where)
        total = len(points)
    out = torch.empty((total, model.n_channels), dtype=torch.float32, device=where)
    step = max(1, 2 * capacity(network.parameters[0]) // network.width)
    with torch.no_grad(), matmul_precision(model.precision):
        for i in range(0, total, step):
            j = min(i + step, total)
            if isinstance(at, list):
                flat = torch.arange(i, j, device=where)
                places = torch.unravel_index(flat, lengths)
                x = torch.stack([g[p] for g, p in zip(grid, places)], dim=-1)
            else:
                x = points[i:j]
            values = network(network.prepare(x))
            # In float64 for a moment: offsets may be large against what is left.
            out[i:j] = (values.double() * scale + offset).float()
    return out


@with_less_memory
def slopes(model: Fitted, at: Floats) -> Array:
    """First derivatives (n, C, d), per sample, beside the network, at index coordinates (n, d)."""
    import torch

    from paper.research.baselines.activations import matmul_precision

    network, (low, high) = model.network, model.method.interval
    where = network.parameters[0].device
    columns = [to_interval(at[:, k], n, (low, high)) for k, n in enumerate(model.shape)]
    points = torch.as_tensor(np.stack(columns, axis=-1), dtype=torch.float32, device=where)
    per_sample = torch.as_tensor([(high - low) / n for n in model.shape], device=where)
    step = max(1, capacity(network.parameters[0]) // network.width)
    parts = []
    with matmul_precision(model.precision), torch.enable_grad():
        for i in range(0, max(len(points), 1), step):
            x = points[i : i + step].clone().requires_grad_()
            values = network(network.prepare(x))
            rows = [
                torch.autograd.grad(values[:, c].sum(), x, retain_graph=True)[0] * float(s)
                for c, s in enumerate(model.scale)
            ]
            parts.append((torch.stack(rows, dim=1) * per_sample).detach().float())
    return torch.cat(parts)
