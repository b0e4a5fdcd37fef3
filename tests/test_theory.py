"""The paper's theory on a picture and on its toy field: the bound, its remark, what BEAM does."""

import warnings

import numpy as np
import pytest
from scipy.stats import spearmanr

import elmfield as ef
from paper.research.concept import toy_field

CELL = 32


@pytest.fixture(scope="module")
def field():
    return toy_field(256)


@pytest.fixture(scope="module")
def picture():
    from skimage.data import camera

    return camera().astype(float).reshape(256, 2, 256, 2).mean(axis=(1, 3))


@pytest.fixture(scope="module")
def mesh(field):
    return ef.Partition.regular(field.shape, CELL)


def local_errors(values, width, partition):
    """The L2 error of each region, from the fit's own account."""
    return np.sqrt(ef.fit(values, ef.paper(width=width), partition=partition).model.residual)


def test_the_account_of_local_errors_is_right(field, mesh):
    off = local_errors(field, 32, mesh)
    back = ef.fit(field, ef.paper(width=32), partition=mesh).samples()
    blocks = ((back - field) ** 2).reshape(8, CELL, 8, CELL).sum(axis=(1, 3))
    np.testing.assert_allclose(off, np.sqrt(blocks).ravel(), rtol=1e-6)


def test_energy_tells_where_the_error_is(picture, mesh):
    beta = ef.barron_norm(picture, partition=mesh, normalisation="backward")
    for width in (128, 256):
        off = local_errors(picture, width, mesh)
        assert spearmanr(beta, off).statistic > 0.9
        assert beta[off.argmax()] > np.quantile(beta, 0.85)


@pytest.mark.slow
def test_beam_evens_energies_and_lowers_the_largest_error(picture, field, mesh):
    for values in (picture, field):
        merged = ef.beam(values, cell=16, regions=mesh.n_regions)
        before, after = (ef.barron_norm(values, partition=p) for p in (mesh, merged))
        assert after.max() / np.median(after) < before.max() / np.median(before)
    merged = ef.beam(picture, cell=16, regions=mesh.n_regions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ef.RankWarning)
        assert local_errors(picture, 512, merged).max() < local_errors(picture, 512, mesh).max()


def test_the_error_falls_at_least_as_the_bound(field, mesh):
    widths = np.array([32, 64, 128, 256])
    beta = ef.barron_norm(field, partition=mesh, normalisation="backward")
    off = np.stack([local_errors(field, int(m), mesh) for m in widths])
    constant = (np.sqrt(widths)[:, None] * off / beta).max(axis=1)
    assert (np.diff(constant) < 0).all()  # a C that serves the narrowest serves all
    slope = np.polyfit(np.log(widths), np.log(off.max(axis=1)), 1)[0]
    assert slope < -0.5
