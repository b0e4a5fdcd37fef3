"""Batches within a limit, and memory that runs out."""

import tracemalloc

import numpy as np
import pytest

import elmfield as ef
from elmfield._array.running import capacity, with_less_memory


@pytest.mark.thorough
def test_a_limit_bounds_the_memory_of_a_fit_and_a_resize(rng):
    values = rng.standard_normal((1024, 1024)).astype("float32")  # 4 MiB in, 6.25 MiB kept
    ef.fit(values[:64, :64])

    def peak(work):
        tracemalloc.start()
        result = work()
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return result, most / 2**20

    field, loose = peak(lambda: ef.fit(values))
    _, tight = peak(lambda: ef.fit(values, memory_limit=1 << 22))
    assert tight < loose
    # Coefficients, and one batch a few times over.
    assert tight < 6.25 + 4 * 4
    with ef.memory_limit(1 << 22):
        _, tight = peak(lambda: field.resize((1024, 1024)))
    assert tight < 3 * 4 + 4 * 4


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("settings", "options"),
    [
        (None, {}),
        (None, {"channel_axis": 0}),
        (ef.paper(cell=16, width=256), {}),
        (ef.paper(cell=16, width=100), {}),
    ],
    ids=["default", "channels", "paper", "narrow"],
)
def test_a_fit_holds_at_most_three_times_its_input_and_output(settings, options, dtype, rng):
    shape = (3, 800, 800) if options else (1400, 1400)
    values = rng.standard_normal(shape).astype(dtype)
    ef.fit(values[:, :64, :64] if options else values[:64, :64], settings, **options)  # the modes
    tracemalloc.start()
    field = ef.fit(values, settings, **options)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    output = field.model.n_coefficients * values.itemsize
    assert most + values.nbytes < 3 * (values.nbytes + output)


def test_limits_nest_and_end(rng):
    like = rng.random(3)
    usual = capacity(like)
    with ef.memory_limit(1 << 20):
        assert capacity(like) == 1 << 17
        with ef.memory_limit(1 << 18):
            assert capacity(like) == 1 << 15
        assert capacity(like) == 1 << 17
    assert capacity(like) == usual


@pytest.mark.parametrize("wrong", [0, 1000, -5, True, "1GB", float("nan")])
def test_absurd_limits_are_refused(wrong):
    with (
        pytest.raises(ValueError, match="`memory_limit` must be a number of bytes"),
        ef.memory_limit(wrong),
    ):
        pass


def test_running_out_of_memory_halves_the_batch_once():
    seen = []

    @with_less_memory
    def work(enough):
        seen.append(capacity(np.empty(0)))
        if len(seen) < enough:
            raise MemoryError
        return "done"

    assert work(2) == "done"
    assert seen[1] == seen[0] // 2
    seen.clear()
    with pytest.raises(MemoryError, match="smaller `memory_limit`"):
        work(3)

    @with_less_memory
    def broken():
        raise KeyError("not about memory")

    with pytest.raises(KeyError):
        broken()
