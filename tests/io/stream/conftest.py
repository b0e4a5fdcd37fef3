"""Small tiles and small windows, so that small arrays have many; and overviews of them."""

from importlib import import_module

import pytest


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr("elmfield.field.coefficients.tiles.TILE_BYTES", 1 << 13)
    monkeypatch.setattr("elmfield.io.model.sample_files.MIN_SAMPLES", 1 << 12)
    # elmfield.fit is a function, too
    monkeypatch.setattr(import_module("elmfield.fit.gaps.levels"), "WINDOW_SAMPLES", 1 << 10)
