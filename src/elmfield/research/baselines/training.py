"""One training loop for all methods: array and method in, Fitted out; and the paper's search."""

import itertools
import math
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from elmfield._array.backend import is_array, to_device, to_numpy
from elmfield._array.progress import silent
from elmfield._array.typing import Array, Progress
from elmfield.domain import make_domain
from elmfield.research.baselines.fitted import Fitted, Row, evaluate, to_interval
from elmfield.research.baselines.methods import Method, is_whole, positive, whole

PRECISIONS = ("highest", "high")
SCHEDULES = (None, "cosine", "exponential")


def fit(
    array: Array,
    method: Method,
    *,
    channel_axis: int | None = None,
    steps: int = 1000,
    rate: float | None = None,
    batch: int | None = None,
    seconds: float | None = None,
    target: float | None = None,
    every: int = 50,
    schedule: str | None = None,
    seed: int = 0,
    device: str | None = None,
    precision: str = "highest",
    compiled: bool = False,
    progress: Progress = silent,
) -> Fitted:
    """A network trained to give back an array, by Adam on the mean square error.

    Parameters
    ----------
    array : array
        Real numbers without gaps, one to seven axes, NumPy or torch.
    method : Method
        ``siren()``, ``ffn()``, ``gaussnet()``, ``wire()`` or ``hashgrid()``.
    channel_axis : int, optional
        The axis that holds channels; without it there is one channel.
    steps : int
        Adam steps, at most.
    rate : float, optional
        Learning rate; by default the method's own.
    batch : int, optional
        Samples drawn at random for a step, with replacement; by default every step sees all.
    seconds : float, optional
        Stop once training has taken this long.
    target : float, optional
        Stop once the paper's PSNR is reached, looked at where the log is written.
    every : int
        Steps between rows of the log.
    schedule : {None, "cosine", "exponential"}
        How the rate falls over `steps`: not at all, as in the paper; to 0 along half a cosine; to a
        tenth, evenly in its logarithm, as in WIRE's code.
    seed : int
        Of first weights and of batches.
    device : str, optional
        Where to train, such as "cuda"; by default where the array lives. Results live where the
        array lives.
    precision : {"highest", "high"}
        Of matrix products on CUDA: float32, or TF32. The first layer and encodings are always in
        float32.
    compiled : bool
        Activations by ``torch.compile``, one pass over memory each: up to three times faster on
        CUDA, for some seconds at first. Needs what torch needs for that (Triton, a C compiler).
    progress : callable
        Told ``("train", done, steps)`` at every row of the log.

    Returns
    -------
    Fitted

    Notes
    -----
    Each axis, from -1/2 to n - 1/2, is mapped to the method's interval, [-1, 1] or [0, 1]; each
    channel to [-1, 1]. The loss is the mean over samples and channels of those values.

    A row (k, seconds, psnr) of the log says how good the network was after k steps and how long
    these took, the device waited for. With all samples in every step the error after k steps is the
    loss of step k + 1, which is computed anyway. With batches the whole array is evaluated with the
    clock stopped. The last row always comes from such an evaluation, of what is returned.
    """
    training = Training(
        array,
        method,
        channel_axis=channel_axis,
        steps=steps,
        rate=rate,
        batch=batch,
        every=every,
        schedule=schedule,
        seed=seed,
        device=device,
        precision=precision,
        compiled=compiled,
    )
    training.advance(steps, seconds=seconds, target=target, progress=progress)
    return training.fitted()


def search(
    array: Array,
    methods: Sequence[Method],
    *,
    rungs: Sequence[tuple[int, int]] | None = None,
    steps: int = 1000,
    progress: Progress = silent,
    **options: Any,
) -> tuple[Fitted, ...]:
    """Several settings trained on one array, the best first.

    Parameters
    ----------
    array, methods
        As for :func:`fit`; ``paper_grid("siren")`` gives the paper's 18 settings of SIREN.
    rungs : sequence of (steps, keep), optional
        Successive halving: train to so many steps, go on with the `keep` best of them only, such as
        ``((100, 6), (300, 2), (1000, 1))``. Training goes on where it stood. By default all are
        trained to the end.
    steps : int
        Steps of every setting where there are no rungs.
    **options
        As for :func:`fit`, except `target` and `seconds`.

    Returns
    -------
    tuple of Fitted
        One per setting (its `method`), each as far as it was trained: those that were trained
        longer first, and of these the higher PSNR.
    """
    rungs = ((steps, 1),) if rungs is None else tuple(rungs)
    if not methods:
        raise ValueError("`methods` must hold at least one setting; got none.")
    if not rungs or any(np.shape(r) != (2,) for r in rungs):
        raise ValueError(f"`rungs` must be pairs (steps, keep); got {rungs!r}.")
    for until, keep in rungs:
        whole(steps=until, keep=keep)
    if any(a[0] >= b[0] or a[1] < b[1] for a, b in itertools.pairwise(rungs)):
        raise ValueError(f"`rungs` must have rising steps and falling counts; got {rungs!r}.")
    last = rungs[-1][0]
    alive = [Training(array, method, steps=last, **options) for method in methods]
    out: list[Fitted] = []
    for until, keep in rungs:
        for done, training in enumerate(alive):
            training.advance(until)
            progress(f"{until} steps", done + 1, len(alive))
        alive.sort(key=lambda t: _order(t.log[-1].paper_psnr))
        if until == last:
            keep = 0
        out = [t.fitted() for t in alive[keep:]] + out
        alive = alive[:keep]
    return tuple(out)


class Training:
    """A training that can be stopped and taken up again.

    Options are those of :func:`fit`; `steps` is what the schedule counts on.
    """

    def __init__(
        self,
        array: Array,
        method: Method,
        *,
        channel_axis: int | None = None,
        steps: int = 1000,
        rate: float | None = None,
        batch: int | None = None,
        every: int = 50,
        schedule: str | None = None,
        seed: int = 0,
        device: str | None = None,
        precision: str = "highest",
        compiled: bool = False,
    ) -> None:
        torch = torch_itself()
        if not isinstance(method, Method) or isinstance(method, type):
            raise ValueError(
                f"`method` must be one of this module's, such as baselines.siren(); got {method!r}."
            )
        whole(steps=steps, every=every)
        positive(rate=method.rate if rate is None else rate)
        if precision not in PRECISIONS:
            raise ValueError(f"`precision` must be 'highest' or 'high'; got {precision!r}.")
        if schedule not in SCHEDULES:
            raise ValueError(
                f"`schedule` must be None, 'cosine' or 'exponential'; got {schedule!r}."
            )
        if not is_whole(seed, 0) or seed >= 2**64:  # what torch takes
            raise ValueError(f"`seed` must be a whole number from 0 to 2**64 - 1; got {seed!r}.")
        self.home, self.device = places(array, device)
        values, shape = samples(array, channel_axis)  # (S, C), float64
        if batch is not None:
            whole(batch=batch)
            if batch > len(values):
                raise ValueError(
                    f"`batch` must not exceed the number of samples, {len(values)}; got {batch}. "
                    "Leave it out to see all of them in every step."
                )
        low, high = values.min(axis=0), values.max(axis=0)
        self.offset, self.scale = (high + low) / 2, np.where(high > low, (high - low) / 2, 1.0)
        self.peak = high
        self.method, self.channel_axis, self.steps = method, channel_axis, steps
        self.rate = method.rate if rate is None else rate
        self.batch, self.every, self.schedule, self.precision = batch, every, schedule, precision
        self.compiled = compiled
        self.domain = make_domain(shape)
        rng = np.random.default_rng(seed)
        self.network = method.network(shape, values.shape[1], rng).to(self.device)
        scaled = np.asarray((values - self.offset) / self.scale, np.float32)
        self.y = torch.from_numpy(scaled).to(self.device)
        self.optimiser = torch.optim.Adam(
            self.network.parameters,
            lr=self.rate,
            betas=method.betas,
            eps=method.epsilon,
            fused=self.device.type in ("cpu", "cuda"),
        )
        self.draws = torch.Generator(device=self.device).manual_seed(int(seed))
        self.done, self.seconds, self.log = 0, 0.0, list[Row]()

    def advance(
        self,
        until: int,
        *,
        seconds: float | None = None,
        target: float | None = None,
        progress: Progress = silent,
    ) -> None:
        """Train until so many steps are done in all, or as long as `fit` says."""
        from elmfield.research.baselines.networks import fused, matmul_precision

        if seconds is not None:
            positive(seconds=seconds)
        if target is not None:
            positive(target=target)
        if target is not None and not self.peak.min() > 0:
            raise ValueError(
                "`target` is the paper's PSNR, which divides by max(array); that must be positive, "
                f"got {self.peak.min():g}. Stop by `steps` or `seconds` instead."
            )
        with matmul_precision(self.precision), fused(self.compiled):
            reached = self._steps(until, seconds, target, progress)
        if not reached:
            errors = self._whole()
            self._write(errors)
            if not np.all(np.isfinite(to_numpy(errors))):
                warnings.warn(
                    f"training diverged within {self.done} steps at rate={self.rate:g}; the result "
                    "is not a number. Use a smaller `rate`.",
                    RuntimeWarning,
                    stacklevel=3,
                )
        progress("train", self.done, until)

    def _steps(
        self, until: int, seconds: float | None, target: float | None, progress: Progress
    ) -> bool:
        """The loop; whether it ended at the target, its row already written."""
        torch = torch_itself()
        network, S = self.network, len(self.y)
        started = self._now() - self.seconds
        x = self._coordinates()
        full = network.prepare(x) if self.batch is None else None
        while self.done < until:
            k = self.done
            # Between rows nothing waits for the device; its queue is short, so the host's clock
            # is right to a few steps.
            late = seconds is not None and time.perf_counter() - started >= seconds
            row = k % self.every == 0 and not (self.log and self.log[-1].step == k)
            if row or late:
                self.seconds = self._now() - started
                if late:
                    return False
            if self.batch is None:
                errors = (network(full) - self.y).square().mean(dim=0)  # (C,)
                error = errors.detach()
            else:
                if row:
                    error = self._whole()
                    started = self._now() - self.seconds  # the clock stood still
                some = torch.randint(S, (self.batch,), generator=self.draws, device=self.device)
                picked = network.prepare(x.index_select(0, some))
                errors = (network(picked) - self.y.index_select(0, some)).square().mean(dim=0)
            if row:
                self._write(error)
                progress("train", k, until)
                if target is not None and self.log[-1].paper_psnr >= target:
                    return True
            for group in self.optimiser.param_groups:
                group["lr"] = self._rate(k)
            self.optimiser.zero_grad(set_to_none=True)
            errors.mean().backward()
            self.optimiser.step()
            self.done = k + 1
        self.seconds = self._now() - started
        return False

    def _rate(self, k: int) -> float:
        part = min(k / self.steps, 1)
        if self.schedule == "cosine":
            return self.rate * (1 + math.cos(math.pi * part)) / 2
        return self.rate * (0.1**part if self.schedule == "exponential" else 1)

    def _now(self) -> float:
        """The time, when the device has done all it was asked to."""
        if self.device.type == "cuda":
            torch_itself().cuda.synchronize(self.device)
        return time.perf_counter()

    def _write(self, errors: Array) -> None:
        """A row for the network after `done` steps; errors are mean squares per channel, (C,)."""
        peak = np.where(self.peak > 0, self.peak, np.nan)  # the paper's PSNR has no other
        mse = to_numpy(errors).astype(np.float64) * (self.scale / peak) ** 2
        score = float(np.mean(-10 * np.log10(mse + 1e-8)))  # as metrics.paper_psnr
        self.log.append(Row(self.done, self.seconds, score))

    def _coordinates(self) -> Array:
        """All samples' coordinates, shape (S, d)."""
        torch = torch_itself()
        axes = [
            torch.as_tensor(
                to_interval(np.arange(n), n, self.method.interval),
                dtype=torch.float32,
                device=self.device,
            )
            for n in self.domain.shape
        ]
        return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).reshape(-1, len(axes))

    def _whole(self) -> Array:
        """Mean square error of each channel over all samples, in scaled values, batch by batch."""
        one = np.ones_like(self.scale)
        model = self.fitted(offset=0 * one, scale=one)
        values = evaluate(model, [np.arange(n, dtype=np.float64) for n in self.domain.shape])
        return (values - self.y).square().mean(dim=0)

    def fitted(self, offset: Array | None = None, scale: Array | None = None) -> Fitted:
        """The function as it stands."""
        return Fitted(
            domain=self.domain,
            network=self.network,
            method=self.method,
            offset=self.offset if offset is None else offset,
            scale=self.scale if scale is None else scale,
            channel_axis=self.channel_axis,
            log=tuple(self.log),
            precision=self.precision,
            home=self.home,
        )


def torch_itself() -> Any:
    """The torch module, or a word on how to get it."""
    try:
        import torch
    except ImportError as missing:
        raise ImportError(
            "`elmfield.research.baselines` needs PyTorch, which cannot be imported here. Install "
            "it with the extra `torch`: pip install 'elmfield[torch]'."
        ) from missing
    return torch


def places(array: Array, device: str | None) -> tuple[Array, Any]:
    """An empty array where results go, and the torch device to work on."""
    torch = torch_itself()
    is_tensor = isinstance(array, torch.Tensor)
    home = array.new_empty(0) if is_tensor else np.empty(0)
    if device is None:
        return home, array.device if is_tensor else torch.device("cpu")
    return home, to_device(torch.empty(1), device).device


def samples(
    array: Array, channel_axis: int | None, name: str = "array"
) -> tuple[Array, tuple[int, ...]]:
    """Samples (S, C) in float64 and the array's shape without channels.

    `name` is what the caller calls the array.
    """
    if np.ma.is_masked(array):
        raise ValueError(
            f"`{name}` must have no masked samples; got some. Fill them first, for example with "
            "elmfield.fit(...).samples()."
        )
    values = np.asarray(to_numpy(array) if is_array(array) else array)
    if values.dtype.kind not in "fiub":
        raise ValueError(
            f"`{name}` must hold real numbers; got dtype {values.dtype}. Give real and imaginary "
            "parts as channels."
        )
    if channel_axis is not None:
        if not is_whole(channel_axis, -values.ndim) or channel_axis >= values.ndim:
            raise ValueError(
                f"`channel_axis` must name an axis of the array, which has {values.ndim}; got "
                f"{channel_axis!r}."
            )
        values = np.moveaxis(values, channel_axis, -1)
    else:
        values = values[..., None]
    if values.ndim < 2 or values.size == 0:
        raise ValueError(
            f"`{name}` must have at least one axis besides channels and one sample; got shape "
            f"{np.shape(array)}."
        )
    shape = values.shape[:-1]
    values = values.reshape(-1, values.shape[-1]).astype(np.float64)
    n_bad = int(np.sum(~np.isfinite(values)))
    if n_bad:
        raise ValueError(
            f"`{name}` must hold finite numbers; got {n_bad} that are NaN or infinite. Fill them "
            "first, for example with elmfield.fit(...).samples()."
        )
    return values, shape


def _order(score: float) -> float:
    """Sorts higher scores first, and what has none last."""
    return math.inf if math.isnan(score) else -score
