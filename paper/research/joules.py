"""A meter: seconds, joules and grams of CO2 of a piece of work, and where the number is from.

A GPU's own counter (NVML) or the processor's (RAPL) where they can be read, else seconds
times a declared wattage; :attr:`Meter.source` always says which. A counter sees all that runs on
its chip, so a quiet machine is the reader's business.
"""

import ctypes
import importlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmfield._array.checks import is_number

CPU_WATTS = 65.0
"""Declared power of a processor without a counter: a common desktop chip's rating."""

GPU_WATTS = 300.0
"""Declared power of a GPU without a counter: the rating of the paper's RTX A6000."""

GRAMS_PER_KWH = 480.0
"""World average of 2023, in grams of CO2 equivalent (Ember, Global Electricity Review 2024)."""

NVML = "libnvidia-ml.so.1"
RAPL = Path("/sys/class/powercap")
KWH = 3.6e6
"""Joules in a kilowatt hour."""


@dataclass
class Meter:
    """What a meter read; complete when its block has ended.

    Parameters
    ----------
    source : str
        Where the joules are from: "NVML counter", "RAPL counter", or "65 W declared".
    grams_per_kwh : float
        CO2 of a kilowatt hour.
    seconds, joules : float
        Of the block; NaN until it has ended.
    runs : int
        How often the work was done; `seconds` and `joules` are those of one.
    """

    source: str
    grams_per_kwh: float = GRAMS_PER_KWH
    seconds: float = float("nan")
    joules: float = float("nan")
    runs: int = 1

    @property
    def grams_co2(self) -> float:
        """``joules / 3.6e6 · grams_per_kwh``."""
        return self.joules / KWH * self.grams_per_kwh

    @property
    def watts(self) -> float:
        """Mean power."""
        return self.joules / self.seconds


@contextmanager
def meter(
    device: Any = None, *, watts: float | None = None, grams_per_kwh: float = GRAMS_PER_KWH
) -> Iterator[Meter]:
    """Measure the block: ``with meter() as m: ...``, then ``m.seconds``, ``m.joules``.

    Parameters
    ----------
    device : optional
        Where the work is done: None or "cpu", or a CUDA device ("cuda", "cuda:1", a torch device).
        The joules are those of this chip alone.
    watts : float, optional
        Declared power. Given, it is used even where there is a counter.
    grams_per_kwh : float
        CO2 of a kilowatt hour.

    Notes
    -----
    NVML's counter moves every 20 to 100 ms, RAPL's every millisecond: for shorter work use
    :func:`of`. If a block raises, the numbers up to there are kept.
    """
    _check(device, watts, grams_per_kwh)
    cuda = _is_cuda(device)
    counter = None if watts is not None else _nvml(device) if cuda else _rapl()
    declared = watts or (GPU_WATTS if cuda else CPU_WATTS)
    kind = "NVML" if cuda else "RAPL"
    made = Meter(f"{kind} counter" if counter else f"{declared:g} W declared", grams_per_kwh)
    _wait(device)
    before, start = counter() if counter else 0.0, time.perf_counter()
    try:
        yield made
    finally:
        _wait(device)
        made.seconds = time.perf_counter() - start
        made.joules = counter() - before if counter else declared * made.seconds


def of(
    function: Callable[[], object],
    *,
    least_seconds: float = 1.0,
    device: Any = None,
    watts: float | None = None,
    grams_per_kwh: float = GRAMS_PER_KWH,
) -> Meter:
    """Numbers for one run of `function`, which is repeated until a counter can see it.

    Parameters
    ----------
    function : callable
        The work; its result is dropped. Run once before the clock starts, to warm up.
    least_seconds : float
        The work is repeated for at least so long.
    device, watts, grams_per_kwh : optional
        As for :func:`meter`.
    """
    _check(device, watts, grams_per_kwh, least_seconds)  # before the work, which may take long
    function()
    runs = 0
    with meter(device, watts=watts, grams_per_kwh=grams_per_kwh) as made:
        start = time.perf_counter()
        while runs == 0 or time.perf_counter() - start < least_seconds:
            function()
            _wait(device)
            runs += 1
    made.seconds, made.joules, made.runs = made.seconds / runs, made.joules / runs, runs
    return made


def _check(
    device: Any, watts: float | None, grams_per_kwh: float, least_seconds: float = 0
) -> None:
    if device is not None and not re.fullmatch(r"(cpu|cuda)(:\d+)?", str(device)):
        raise ValueError(f'`device` must be "cpu" or a CUDA device; got {device!r}.')
    if watts is not None and not (is_number(watts) and watts > 0):
        raise ValueError(f"`watts` must be a finite number above 0; got {watts!r}.")
    for name, value in {"grams_per_kwh": grams_per_kwh, "least_seconds": least_seconds}.items():
        if not (is_number(value) and value >= 0):
            raise ValueError(f"`{name}` must be a finite number of at least 0; got {value!r}.")


# --- counters: callables that return joules since some start -------------------------------------


def _nvml(device: Any) -> Callable[[], float] | None:
    """The counter of a GPU, in joules; None where NVML is missing or the GPU has none."""
    try:
        try:
            nvml: Any = importlib.import_module("pynvml")
        except ImportError:
            nvml = Driver(ctypes.CDLL("nvml.dll" if sys.platform == "win32" else NVML))
        nvml.nvmlInit()
        handle = _handle(nvml, _index(device))
        nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    except Exception:  # no driver, no permission, a GPU before Volta
        return None
    return lambda: float(nvml.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1e3  # mJ


class Driver:
    """The few calls that are needed of the driver's own NVML library, named as in pynvml."""

    def __init__(self, library: Any) -> None:
        self.library = library

    def nvmlInit(self) -> None:
        self._call("nvmlInit_v2")

    def nvmlDeviceGetHandleByIndex(self, index: int) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        return handle

    def nvmlDeviceGetHandleByUUID(self, name: str) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        text = ctypes.c_char_p(name.encode())
        self._call("nvmlDeviceGetHandleByUUID", text, ctypes.byref(handle))
        return handle

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: ctypes.c_void_p) -> int:
        made = ctypes.c_ulonglong()
        self._call("nvmlDeviceGetTotalEnergyConsumption", handle, ctypes.byref(made))
        return made.value

    def _call(self, name: str, *arguments: Any) -> None:
        if code := getattr(self.library, name)(*arguments):
            raise OSError(f"{name} failed with code {code}")


def _handle(nvml: Any, index: int) -> Any:
    """NVML's handle of a CUDA device: NVML knows nothing of CUDA_VISIBLE_DEVICES."""
    visible = [v.strip() for v in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if v]
    if not visible:
        return nvml.nvmlDeviceGetHandleByIndex(index)
    name = visible[index]
    if name.isdigit():
        return nvml.nvmlDeviceGetHandleByIndex(int(name))
    return nvml.nvmlDeviceGetHandleByUUID(name)


def _rapl() -> Callable[[], float] | None:
    """The sum of the packages' counters; None where none can be read.

    Only whole packages (``intel-rapl:0``): their parts (``intel-rapl:0:0``) are counted in them.
    """
    packages = []
    for folder in sorted(RAPL.glob("intel-rapl:*")):
        if folder.name.count(":") == 1:
            with suppress(OSError, ValueError):
                _read(folder / "energy_uj")
                packages.append(folder)
    if not packages:
        return None
    last = {p: _read(p / "energy_uj") for p in packages}
    total = dict.fromkeys(packages, 0)

    def joules() -> float:
        for p in packages:
            now = _read(p / "energy_uj")
            if now < last[p]:  # the counter went round
                total[p] += _read(p / "max_energy_range_uj") + 1
            total[p] += now - last[p]
            last[p] = now
        return sum(total.values()) / 1e6

    return joules


def _read(path: Path) -> int:
    return int(path.read_text())


# --- devices -------------------------------------------------------------------------------------


def _is_cuda(device: Any) -> bool:
    return str(device).startswith("cuda")


def _index(device: Any) -> int:
    _, _, number = str(device).partition(":")
    if number:
        return int(number)
    torch = sys.modules.get("torch")
    return int(torch.cuda.current_device()) if torch is not None else 0


def _wait(device: Any) -> None:
    """Until the GPU has done what it was told; only if torch is loaded, and it has one."""
    torch = sys.modules.get("torch")
    if _is_cuda(device) and torch is not None and torch.cuda.is_available():
        torch.cuda.synchronize(device)
