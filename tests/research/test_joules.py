"""The meter: counters of fake chips, declared wattages, repeated work."""

import math
import sys
import time
import types

import numpy as np
import pytest

from paper.research import joules


@pytest.fixture(autouse=True)
def no_counters(tmp_path, monkeypatch):
    """No counter of the machine the tests run on."""
    monkeypatch.setattr(joules, "RAPL", tmp_path / "powercap")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(joules, "NVML", "no-such-library.so")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


class Chips:
    """A fake RAPL folder."""

    def __init__(self, root):
        self.root = root

    def set(self, zone, microjoules, range=None):
        folder = self.root / zone
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "energy_uj").write_text(f"{microjoules}\n")
        if range is not None:
            (folder / "max_energy_range_uj").write_text(f"{range}\n")


@pytest.fixture
def rapl(tmp_path):
    return Chips(tmp_path / "powercap")


def fake_nvml(monkeypatch, millijoules, handles=None):
    """A module like pynvml; `millijoules` maps handles to their readings, one after the other."""
    nvml = types.ModuleType("pynvml")
    nvml.nvmlInit = lambda: None
    nvml.nvmlDeviceGetHandleByIndex = lambda index: ("index", index)
    nvml.nvmlDeviceGetHandleByUUID = lambda name: ("uuid", name)
    nvml.nvmlDeviceGetTotalEnergyConsumption = lambda handle: next(millijoules[handle])
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    return nvml


class FakeTorch(types.ModuleType):
    """Counts how often the GPU is waited for."""

    def __init__(self, available=True, current=0):
        super().__init__("torch")
        self.waits = []
        self.cuda = types.SimpleNamespace(
            is_available=lambda: available,
            synchronize=self.waits.append,
            current_device=lambda: current,
        )


# --- declared ------------------------------------------------------------------------------------


def test_without_counters_the_wattage_is_declared_and_said():
    with joules.meter() as m:
        assert math.isnan(m.joules)  # not before the block has ended
        time.sleep(0.02)
    assert m.seconds >= 0.02
    assert m.joules == pytest.approx(65 * m.seconds)
    assert m.watts == pytest.approx(65)
    assert m.source == "65 W declared"


def test_a_gpu_without_nvml_has_a_wattage_of_its_own():
    with joules.meter("cuda") as m:
        pass
    assert m.source == "300 W declared"
    assert m.joules == pytest.approx(300 * m.seconds)


def test_a_kilowatt_hour_weighs_what_was_declared():
    m = joules.Meter("test", seconds=10.0, joules=3.6e6)
    assert m.grams_co2 == pytest.approx(480)
    assert m.watts == pytest.approx(3.6e5)
    with joules.meter(watts=100, grams_per_kwh=50) as m:
        pass
    assert m.source == "100 W declared"
    assert m.grams_co2 == pytest.approx(100 * m.seconds / 3.6e6 * 50)


def test_a_declared_wattage_goes_before_a_counter(rapl):
    rapl.set("intel-rapl:0", 0)
    with joules.meter(watts=7.5) as m:
        rapl.set("intel-rapl:0", 10**9)
    assert m.source == "7.5 W declared"
    assert m.joules == pytest.approx(7.5 * m.seconds)


@pytest.mark.parametrize("watts", [np.int64(65), np.float32(65), 65])
def test_numbers_of_any_kind_are_wattages(watts):
    with joules.meter(watts=watts) as m:
        pass
    assert m.source == "65 W declared"
    assert m.joules == pytest.approx(65 * m.seconds)


def test_a_block_that_raises_keeps_its_numbers():
    with pytest.raises(RuntimeError), joules.meter() as m:
        raise RuntimeError
    assert m.joules == pytest.approx(65 * m.seconds)


# --- RAPL ----------------------------------------------------------------------------------------


def test_packages_are_summed_and_their_parts_are_not_counted_twice(rapl):
    for zone, start in (("intel-rapl:0", 1000), ("intel-rapl:0:0", 5), ("intel-rapl:1", 7000)):
        rapl.set(zone, start)
    with joules.meter() as m:
        rapl.set("intel-rapl:0", 1000 + 2_500_000)
        rapl.set("intel-rapl:0:0", 900_000_000)
        rapl.set("intel-rapl:1", 7000 + 500_000)
    assert m.joules == pytest.approx(3.0, abs=1e-12)
    assert m.source == "RAPL counter"


def test_a_counter_that_went_round_goes_on(rapl):
    rapl.set("intel-rapl:0", 999_990, range=999_999)
    with joules.meter() as m:
        rapl.set("intel-rapl:0", 40)
    # ten steps to 0, forty beyond
    assert m.joules == pytest.approx(50e-6, abs=1e-15)


def test_a_counter_that_may_not_be_read_is_none(rapl):
    (rapl.root / "intel-rapl:0").mkdir(parents=True)  # as for a user without permission: no text
    (rapl.root / "intel-rapl:0" / "energy_uj").mkdir()
    with joules.meter() as m:
        pass
    assert m.source == "65 W declared"


def test_a_gpu_is_not_measured_by_the_processors_counter(rapl):
    rapl.set("intel-rapl:0", 0)
    with joules.meter("cuda") as m:
        pass
    assert m.source == "300 W declared"


# --- NVML ----------------------------------------------------------------------------------------


def test_the_gpus_counter_is_in_millijoules(monkeypatch):
    fake_nvml(monkeypatch, {("index", 1): iter([5_000, 5_000, 17_500])})
    with joules.meter("cuda:1") as m:
        pass
    assert m.joules == pytest.approx(12.5)
    assert m.source == "NVML counter"


def test_the_processor_is_not_measured_by_the_gpus_counter(monkeypatch):
    fake_nvml(monkeypatch, {})
    with joules.meter("cpu") as m:
        pass
    assert m.source == "65 W declared"


@pytest.mark.parametrize(
    ("visible", "handle"), [("3,2", ("index", 2)), ("GPU-a,GPU-b", ("uuid", "GPU-b"))]
)
def test_devices_are_counted_as_cuda_counts_them(monkeypatch, visible, handle):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    fake_nvml(monkeypatch, {handle: iter([0, 0, 1000])})
    with joules.meter("cuda:1") as m:
        pass
    assert m.joules == 1


def test_the_current_device_is_asked_of_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", FakeTorch(current=2))
    fake_nvml(monkeypatch, {("index", 2): iter([0, 0, 2000])})
    with joules.meter("cuda") as m:
        pass
    assert m.joules == 2


class FakeLibrary:
    """The driver's library: writes through pointers, returns 0 or an error code."""

    def __init__(self, millijoules, code=0):
        self.readings, self.code, self.asked = iter(millijoules), code, []

    def nvmlInit_v2(self):
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index, handle):
        self.asked.append(index.value)
        handle._obj.value = 77
        return 0

    def nvmlDeviceGetHandleByUUID(self, name, handle):
        self.asked.append(name.value)
        handle._obj.value = 77
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, handle, made):
        assert handle.value == 77
        made._obj.value = next(self.readings)
        return self.code


def test_the_drivers_own_library_does_without_a_package(monkeypatch):
    library = FakeLibrary([2**40, 2**40, 2**40 + 4000])
    monkeypatch.setattr(joules.ctypes, "CDLL", lambda name: library)
    with joules.meter("cuda:1") as m:
        pass
    assert (m.joules, m.source) == (4.0, "NVML counter")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a")
    library.readings = iter([0, 0, 1000])
    with joules.meter("cuda:0") as m:
        pass
    assert m.joules == 1
    assert library.asked == [1, b"GPU-a"]


def test_an_error_code_of_the_driver_means_no_counter(monkeypatch):
    monkeypatch.setattr(joules.ctypes, "CDLL", lambda name: FakeLibrary([0, 0, 0], code=3))
    with joules.meter("cuda:0") as m:
        pass
    assert m.source == "300 W declared"


def test_a_gpu_that_has_no_counter_is_declared(monkeypatch):
    fake_nvml(monkeypatch, {("index", 0): iter([])})  # raises, as NVML does: not supported
    with joules.meter("cuda:0") as m:
        pass
    assert m.source == "300 W declared"


def test_the_gpu_is_waited_for_before_each_reading(monkeypatch):
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    seen = []

    def readings():
        for value in (0, 0, 3000):
            seen.append(len(torch.waits))
            yield value

    fake_nvml(monkeypatch, {("index", 0): readings()})
    with joules.meter("cuda:0") as m:
        pass
    assert m.joules == 3
    assert seen == [0, 1, 2]  # the trial reading; one wait before the first; one more
    assert torch.waits == ["cuda:0"] * 2


def test_a_processor_is_not_waited_for(monkeypatch):
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    with joules.meter():
        pass
    monkeypatch.setitem(sys.modules, "torch", FakeTorch(available=False))
    with joules.meter("cuda"):
        pass
    assert torch.waits == []


# --- repeated ------------------------------------------------------------------------------------


def test_short_work_is_repeated_and_its_share_reported(rapl):
    rapl.set("intel-rapl:0", 0)
    calls = []

    def work():
        calls.append(None)
        rapl.set("intel-rapl:0", 250_000 * len(calls))
        time.sleep(0.002)

    m = joules.of(work, least_seconds=0.05)
    assert m.runs <= 25  # a busy machine may do fewer, in more time
    assert len(calls) == m.runs + 1  # one to warm up, which is not measured
    assert m.joules == pytest.approx(0.25)
    assert m.seconds >= 0.002
    assert m.seconds * m.runs >= 0.05
    assert m.source == "RAPL counter"


def test_long_work_is_done_once_after_its_warm_up():
    calls = []
    m = joules.of(lambda: calls.append(time.sleep(0.02)), least_seconds=0.01, watts=10)
    assert (len(calls), m.runs) == (2, 1)
    assert m.joules == pytest.approx(10 * m.seconds)


def test_importing_the_meter_loads_no_library():
    import subprocess

    code = (
        "import sys; from paper.research import joules;"
        "print([m for m in ('torch', 'pynvml') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.gpu
def test_a_real_gpu_uses_joules(monkeypatch):
    monkeypatch.setattr(joules, "NVML", "libnvidia-ml.so.1")
    torch = pytest.importorskip("torch")
    a = torch.rand(4096, 4096, device="cuda")
    m = joules.of(lambda: a @ a, least_seconds=1, device="cuda")
    assert m.source == "NVML counter"
    assert 20 < m.watts < 2000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "foo"}, "`device` must be \"cpu\" or a CUDA device; got 'foo'"),
        ({"device": "cuda:x"}, "`device` must be \"cpu\" or a CUDA device; got 'cuda:x'"),
        ({"watts": 0}, "`watts` must be a finite number above 0; got 0"),
        ({"watts": math.nan}, "`watts` must be a finite number above 0; got nan"),
        ({"watts": math.inf}, "`watts` must be a finite number above 0; got inf"),
        ({"watts": True}, "`watts` must be a finite number above 0; got True"),
        ({"watts": "a"}, "`watts` must be a finite number above 0; got 'a'"),
        ({"grams_per_kwh": -5}, "`grams_per_kwh` must be a finite number of at least 0; got -5"),
        ({"least_seconds": -1}, "`least_seconds` must be a finite number of at least 0; got -1"),
        ({"least_seconds": math.inf}, "`least_seconds` must be a finite number of at least 0"),
    ],
)
def test_bad_numbers_are_named_before_the_work_is_done(options, message):
    with pytest.raises(ValueError, match=message):
        joules.of(lambda: pytest.fail("the work was done"), **options)
    options = {k: v for k, v in options.items() if k != "least_seconds"}
    if options:
        with pytest.raises(ValueError, match=message), joules.meter(**options):
            pytest.fail("the work was done")
