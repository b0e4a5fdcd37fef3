"""Tensors in any mode of torch: what NumPy answers, and derivatives that differences confirm."""

import pytest

pytest.importorskip("torch")

from robust import tensors


@pytest.mark.parametrize("seed", range(12))
def test_tensors_give_what_arrays_give(seed):
    assert tensors.one_trial([7, seed]) in ("done", "refused")
