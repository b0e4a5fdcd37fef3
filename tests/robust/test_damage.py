"""Damaged model files: refused, or read as they were; never wrong, never a foreign error."""

import numpy as np
import pytest
from hypothesis import given

import elmfield as ef
from robust.conftest import PROFILE
from robust.damage import attempt, bases
from support import SEEDS


@pytest.fixture(scope="module")
def every(tmp_path_factory):
    return bases(tmp_path_factory.mktemp("bases"))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("damaged")


@PROFILE
@given(seed=SEEDS)
def test_whatever_is_damaged_is_noticed(seed, every, place):
    what, found = attempt(seed, every, place)
    assert found in ("refused", "the same", "another"), f"{what}: {found}"


def model(path, seed=0, **settings):
    values = np.random.default_rng(seed).standard_normal((40, 50))
    field = ef.fit(values, ef.smooth(cell=10, **settings))
    ef.save(field, path)
    return field


@pytest.mark.parametrize("settings", [{}, {"coefficients": 800}, {"max_error": 0.1}], ids=str)
def test_a_block_of_another_model_is_noticed(tmp_path, settings):
    """Its check sum is right wherever it sits: what a half-finished copy leaves."""
    one, other = tmp_path / "one.elm.zarr", tmp_path / "other.elm.zarr"
    model(one, 0, **settings), model(other, 1, **settings)
    name = "samples/c/0/0" if (one / "samples").is_dir() else "coefficients/c/0"
    (one / name).write_bytes((other / name).read_bytes())
    with pytest.raises(ef.StoreError):
        ef.load(one).samples()


def test_blocks_that_changed_places_are_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr("elmfield.io.store.blocks.block_length", lambda size, *_: 1 + size // 4)
    path = tmp_path / "model.elm.zarr"
    field = model(path, coefficients=800)
    first, second = path / "coefficients/c/0", path / "coefficients/c/1"
    was = first.read_bytes(), second.read_bytes()
    first.write_bytes(was[1]), second.write_bytes(was[0])
    with pytest.raises(ef.StoreError, match="not the one that was saved here"):
        ef.load(path).samples()
    first.write_bytes(was[0]), second.write_bytes(was[1])
    np.testing.assert_array_equal(ef.load(path).samples(), field.samples())


@pytest.mark.parametrize("settings", [{}, {"coefficients": 800}], ids=str)
def test_a_folder_that_is_replaced_under_an_open_field_is_noticed(tmp_path, settings):
    path = tmp_path / "model.elm.zarr"
    model(path, 0, **settings)
    field = ef.load(path)
    model(path, 1, **settings)
    with pytest.raises(ef.StoreError):
        field.samples()
