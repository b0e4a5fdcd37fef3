"""One training loop for all methods: array, method and schedule in, Fitted out."""

import time
import warnings
from typing import Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.progress import reporter, silent
from elmfield._array.typing import Array, Progress
from elmfield.domain import make_domain
from paper.research.baselines.arrays import places, samples, torch_itself
from paper.research.baselines.fitted import Fitted, Row, evaluate, to_interval
from paper.research.baselines.own import method_of
from paper.research.baselines.schedule import USUAL, Schedule


def fit(
    array: Array,
    method: Any,
    schedule: Schedule = USUAL,
    *,
    channel_axis: int | None = None,
    device: str | None = None,
    progress: Progress | bool = False,
) -> Fitted:
    """A network trained to give back an array, by Adam on the mean square error.

    Parameters
    ----------
    array : array
        Real numbers without gaps, one to seven axes, NumPy or torch.
    method : Method, torch module, or callable
        ``siren()``, ``ffn()``, ``gaussnet()``, ``wire()`` or ``hashgrid()``; a torch module of your
        own, (n, d) to (n, C), or what makes one of (d, C). :func:`own` gives it a rate and an
        interval.
    schedule : Schedule
        Steps, rate, batches, when to stop.
    channel_axis : int, optional
        The axis that holds channels; without it there is one channel.
    device : str, optional
        Where to train, such as "cuda"; by default where the array lives. Results live where the
        array lives.
    progress : bool or callable
        Told ``("train", done, steps)`` at every row of the log; True for a bar.

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
    tell = reporter(progress)
    training = Training(array, method, schedule, channel_axis=channel_axis, device=device)
    training.advance(schedule.steps, tell)
    return training.fitted()


class Training:
    """A training that can be stopped and taken up again."""

    def __init__(
        self,
        array: Array,
        method: Any,
        schedule: Schedule,
        *,
        channel_axis: int | None = None,
        device: str | None = None,
    ) -> None:
        torch = torch_itself()
        method = method_of(method)
        if not isinstance(schedule, Schedule):
            raise TypeError(
                "`schedule` must be a Schedule, such as baselines.Schedule(steps=300); got "
                f"{schedule!r}."
            )
        self.home, self.device = places(array, device)
        values, shape = samples(array, channel_axis)  # (S, C), float64
        if schedule.batch is not None and schedule.batch > len(values):
            raise ValueError(
                f"`batch` must not exceed the number of samples, {len(values)}; got "
                f"{schedule.batch}. Leave it out to see all of them in every step."
            )
        low, high = values.min(axis=0), values.max(axis=0)
        if schedule.target is not None and not high.min() > 0:
            raise ValueError(
                "`target` is the paper's PSNR, which divides by max(array); that must be positive, "
                f"got {high.min():g}. Stop by `steps` or `seconds` instead."
            )
        self.offset, self.scale = (high + low) / 2, np.where(high > low, (high - low) / 2, 1.0)
        self.peak = high
        self.method, self.schedule, self.channel_axis = method, schedule, channel_axis
        self.rate = method.rate if schedule.rate is None else schedule.rate
        self.domain = make_domain(shape)
        rng = np.random.default_rng(schedule.seed)
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
        self.draws = torch.Generator(device=self.device).manual_seed(int(schedule.seed))
        self.done, self.seconds, self.log = 0, 0.0, list[Row]()

    def advance(self, until: int, progress: Progress = silent) -> None:
        """Train until so many steps are done in all, or the schedule says to stop."""
        from paper.research.baselines.activations import fused, matmul_precision

        with matmul_precision(self.schedule.precision), fused(self.schedule.compiled):
            reached = self._steps(until, progress)
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

    def _steps(self, until: int, progress: Progress) -> bool:
        """The loop; whether it ended at the target, its row already written."""
        torch = torch_itself()
        batch, seconds, target = self.schedule.batch, self.schedule.seconds, self.schedule.target
        network, S = self.network, len(self.y)
        started = self._now() - self.seconds
        x = self._coordinates()
        full = network.prepare(x) if batch is None else None
        while self.done < until:
            k = self.done
            # Between rows nothing waits for the device; its queue is short, so the host's clock
            # is right to a few steps.
            late = seconds is not None and time.perf_counter() - started >= seconds
            row = k % self.schedule.every == 0 and not (self.log and self.log[-1].step == k)
            if row or late:
                self.seconds = self._now() - started
                if late:
                    return False
            if batch is None:
                errors = (network(full) - self.y).square().mean(dim=0)  # (C,)
                error = errors.detach()
            else:
                if row:
                    error = self._whole()
                    started = self._now() - self.seconds  # the clock stood still
                some = torch.randint(S, (batch,), generator=self.draws, device=self.device)
                picked = network.prepare(x.index_select(0, some))
                errors = (network(picked) - self.y.index_select(0, some)).square().mean(dim=0)
            if row:
                self._write(error)
                progress("train", k, until)
                if target is not None and self.log[-1].paper_psnr >= target:
                    return True
            for group in self.optimiser.param_groups:
                group["lr"] = self.rate * self.schedule.factor(k)
            self.optimiser.zero_grad(set_to_none=True)
            errors.mean().backward()
            self.optimiser.step()
            self.done = k + 1
        self.seconds = self._now() - started
        return False

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
            precision=self.schedule.precision,
            home=self.home,
        )
