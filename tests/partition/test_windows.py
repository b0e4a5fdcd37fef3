"""φ: windows that sum to one, and how smoothly."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

import elmfield as ef
import oracles
from elmfield.partition import blend
from support import EPS, close, inside, partitions, region_windows


@given(part=partitions, seed=st.integers(0, 2**32 - 1))
def test_windows_sum_to_one_and_follow_the_formula(part, seed):
    # A periodic axis of one cell has no border: nothing to blend there.
    assume(not any(p and c == 1 for p, c in zip(part.periodic, part.n_cells)))
    x = inside(np.random.default_rng(seed), part.shape, 40)
    phi = region_windows(part, x)
    assert phi.min() >= 0
    close(phi.sum(axis=1), 1, 8 * EPS)
    # The oracle subtracts ramps, sums images and cells: a dozen roundings of numbers up to 1.
    expected = oracles.windows(x, part.edges, part.labels, part.overlap, part.periodic)
    close(phi, expected, 64 * EPS)


def test_windows_are_twice_differentiable_across_a_border():
    part = ef.Partition.regular((40,), 10, 3.0)
    x = np.linspace(4, 35, 3001)
    ramp, slope, bend = blend(part, 0, x, 2).ramp
    h = 1e-4
    ahead, behind = blend(part, 0, x + h).ramp[0], blend(part, 0, x - h).ramp[0]
    smooth = (blend(part, 0, x + h).lower == blend(part, 0, x - h).lower) & (ramp > 0)
    # Central differences of a quintic of half-width 3: third derivative 60/6³ at most, times h²/6.
    close(((ahead - behind) / (2 * h))[smooth], slope[smooth], 60 / 6**3 * h**2)
    close(((ahead - 2 * ramp + behind) / h**2)[smooth], bend[smooth], 1e-6)
    # C²: near both ends of the ramp its two derivatives vanish.
    ends = np.array([6.5 + 1e-6, 12.5 - 1e-6])
    _, slope, bend = blend(part, 0, ends, 2).ramp
    close(slope, 0, 1e-11)
    close(bend, 0, 1e-5)
