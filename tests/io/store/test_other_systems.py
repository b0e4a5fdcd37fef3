"""What Windows lacks or refuses, faked: models are written, replaced and read all the same."""

import ctypes
import os
import sys

import numpy as np
import pytest

import elmfield as ef
from elmfield._array.running import n_processors

VALUES = np.random.default_rng(0).standard_normal((40, 30)).cumsum(0)


@pytest.fixture
def windows(monkeypatch):
    """No locks, no reads by position, no exchange of folders, no flags of POSIX."""
    monkeypatch.setitem(sys.modules, "fcntl", None)
    for name in ("pread", "sched_getaffinity", "O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY"):
        monkeypatch.delattr(os, name, raising=False)

    own = ctypes.CDLL

    def library(name, *args, **options):
        if name is None:
            raise TypeError("argument of type 'NoneType' is not iterable")  # as there
        return own(name, *args, **options)

    monkeypatch.setattr(ctypes, "CDLL", library)


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("name", ["a.elm", "a.elm.zarr"])
def test_models_are_written_replaced_and_read(tmp_path, name):
    path = tmp_path / name
    for values in (VALUES, 2 * VALUES):
        ef.save(ef.fit(values), path)
        assert np.allclose(ef.load(path).samples(), values)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.usefixtures("windows")
def test_models_grow(tmp_path):
    settings = ef.smooth(order=2)
    ef.fit(VALUES[:30], settings, out=tmp_path / "a.elm.zarr")
    field = ef.append(tmp_path / "a.elm.zarr", VALUES[30:])
    assert np.allclose(field.samples(), VALUES)


@pytest.mark.usefixtures("windows")
def test_processors_are_counted():
    assert n_processors() == (os.cpu_count() or 1)


@pytest.mark.parametrize("name", ["a.elm", "a.elm.zarr"])
def test_a_model_that_another_program_holds_open_stays(tmp_path, name, windows, monkeypatch):
    path, replace = tmp_path / name, os.replace
    ef.save(ef.fit(VALUES), path)

    def refuse(source, target, **options):
        if path in (target, source):  # Windows neither replaces nor moves what is open
            raise PermissionError(13, "The process cannot access the file", str(target))
        return replace(source, target, **options)

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(ef.StoreError, match="cannot access the file"):
        ef.save(ef.fit(2 * VALUES), path)
    assert np.allclose(ef.load(path).samples(), VALUES)
    assert os.listdir(tmp_path) == [name]
