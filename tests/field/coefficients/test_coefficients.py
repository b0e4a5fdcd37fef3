"""The contract of coefficients, over every implementation."""

import numpy as np
import pytest

import elmfield as ef
from elmfield.field.coefficients.stored import Full, Ragged
from support import close


@pytest.fixture(
    scope="module",
    params=["full", "ragged", "sampled", "stored", "stored ragged", "stored sampled"],
)
def kept(request, tmp_path_factory):
    """Coefficients of 12 regions and 2 channels, and the array they stand for."""
    rng = np.random.default_rng(3)
    values = rng.standard_normal((24, 30, 2)).cumsum(0)
    settings = ef.smooth(cell=8, overlap=0.5, context=0)
    if "sampled" in request.param:
        settings = ef.oriented(order=1.1)
    field = ef.fit(values, settings, channel_axis=-1)
    if "ragged" in request.param:
        field = field.keep(psnr=20)
    dense = field.model.blended.groups[0].coefficients.take(np.arange(field.partition.n_regions))
    if "stored" in request.param:
        path = tmp_path_factory.mktemp("kept") / "field.elm"
        ef.save(field, path)
        field = ef.load(path)
    return field.model.blended.groups[0].coefficients, np.asarray(dense)


class TestEveryKindOfCoefficients:
    @staticmethod
    def rounding(dense):
        """0 for what is kept; what is made from samples is made by products of several sizes."""
        return 0 if dense.shape[1] < 484 else 1e-13 * np.abs(dense).max()

    def test_has_the_shape_and_numbers_of_an_array(self, kept):
        c, dense = kept
        assert c.shape == dense.shape
        close(c.take(np.arange(len(dense))), dense, self.rounding(dense))
        assert c.like.dtype == dense.dtype

    def test_gives_rows_in_any_order_and_repeatedly(self, kept):
        c, dense = kept
        rows = np.array([3, 0, 3, 7])
        close(c.take(rows), dense[rows], self.rounding(dense))
        close(c.rows(rows).take(np.array([1, 2])), dense[[0, 3]], self.rounding(dense))
        assert c.rows(rows).shape == (4, *dense.shape[1:])

    def test_gives_channels(self, kept):
        c, dense = kept
        for own in (slice(0, 1), slice(1, 2), slice(0, 2)):
            part = c.channels(own)
            close(part.take(np.arange(len(dense))), dense[..., own], self.rounding(dense))

    def test_counts_what_it_stores(self, kept):
        c, dense = kept
        assert c.n_stored == c.counts.sum()
        assert len(c.counts) == len(dense)
        if c.beliefs is not None:  # a file has the samples
            return
        rows = np.array([2, 5])
        numbers = np.asarray(c.numbers(rows))
        assert numbers.shape == (c.counts[rows].sum(),)
        if c.shape[1] == c.counts[0] / 2:  # orthonormal coordinates
            close(np.sum(numbers**2), np.sum(dense[rows] ** 2), 1e-9)

    def test_says_which_modes_are_kept(self, kept):
        c, dense = kept
        rows = np.array([4, 1])
        ragged = c.ragged(rows)
        assert (ragged is None) == (c.index_bits == 0)
        if ragged is not None:
            assert np.array_equal(ragged.take(np.arange(2)), dense[rows])
            assert c.n_stored < dense.size

    def test_says_whether_threads_may_share_it(self, kept):
        c, _ = kept
        assert c.is_shared in (True, False)


def test_only_numpy_arrays_are_shared_by_threads():
    torch = pytest.importorskip("torch")
    assert Full(np.zeros((1, 2, 3))).is_shared
    assert not Full(torch.zeros(1, 2, 3)).is_shared
    some = Ragged.keep(np.ones((1, 2, 1)), np.ones((1, 1, 2), bool), np.arange(2))
    assert some.is_shared
    assert not some.moved(torch.zeros(1)).is_shared
