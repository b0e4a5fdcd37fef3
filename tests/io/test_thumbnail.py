"""A field shows itself in a notebook: a small picture above its numbers."""

import base64
import io
import re
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import elmfield as ef
from elmfield.io.view_source import THUMBNAIL_PIXELS, thumbnail
from scans import scan, turned


def drawn(field):
    """The picture in a field's HTML, (H, W, 3)."""
    data = re.search(r'src="data:image/png;base64,([^"]+)"', field._repr_html_())[1]
    with Image.open(io.BytesIO(base64.b64decode(data))) as picture:
        return np.asarray(picture.convert("RGB")).astype(int)


def test_a_picture_looks_like_itself():
    y, x = np.mgrid[0:300, 0:420]
    values = np.stack([y * 255 / 299, x * 255 / 419, 0 * x + 90], -1).astype(np.uint8)
    seen = drawn(ef.fit(values, channel_axis=-1))
    assert seen.shape == (75, 105, 3)
    means = values.reshape(75, 4, 105, 4, 3).mean(axis=(1, 3))
    assert np.abs(seen - means).max() <= 2


@pytest.mark.parametrize("shape", [(2, 2), (3, 500), (40, 30, 20), (700, 2)])
def test_it_is_small_whatever_the_shape(shape):
    seen = drawn(ef.fit(np.random.default_rng(0).random(shape)))
    assert max(seen.shape) <= THUMBNAIL_PIXELS
    assert max(seen.shape) > THUMBNAIL_PIXELS / 3


def test_a_scan_is_grey_and_upright():
    head = scan(turned((0, 0, 0), (2, 2, 2), (0, 0, 0)), (20, 30, 10))
    front = np.broadcast_to(np.arange(30.0)[:, None], (20, 30, 10))  # j runs to the front
    seen = drawn(ef.fit(scan(np.diag([2.0, 2, 2, 1]), (20, 30, 10), front)))
    assert seen.shape[0] > seen.shape[1]
    assert (np.ptp(seen, axis=-1) == 0).all()
    assert (seen[0] > 240).all()
    assert (seen[-1] < 15).all()
    assert drawn(ef.fit(head)).shape == seen.shape


def test_gaps_and_complex_numbers_are_drawn():
    values = np.add.outer(np.arange(40.0), np.arange(50.0))
    values[10:20, 10:30] = np.nan
    field = ef.fit(ef.Gridded(values=values, dims=("y", "x")))
    assert (drawn(field) == 128).all(axis=-1).any()
    ramp = drawn(ef.fit(np.add.outer(np.arange(40.0), np.arange(50.0)) * np.exp(2j)))
    assert np.abs(ramp[0, 0] - (68, 1, 84)).max() < 5  # magnitudes, from dark to bright
    assert np.abs(ramp[-1, -1] - (253, 231, 37)).max() < 5


def test_what_cannot_be_drawn_soon_is_told_in_words(monkeypatch, tmp_path):
    assert "<img" not in ef.fit(np.arange(50.0))._repr_html_()
    field = ef.fit(np.eye(60))
    assert 'alt="Field(60×60, 1 channel' in field._repr_html_()
    monkeypatch.setattr("elmfield.io.view_source.THUMBNAIL_MAX_SAMPLES", 3599)
    assert thumbnail(field) is None
    assert field._repr_html_().startswith("<table>")


@pytest.mark.parametrize("error", [OSError("gone"), ef.StoreError("damaged")])
def test_a_file_that_is_gone_leaves_the_table(monkeypatch, error):
    def gone(*_, **__):
        raise error

    field = ef.fit(np.eye(30))
    monkeypatch.setattr("elmfield.io.view_source.means_on_plane", gone)
    assert field._repr_html_().startswith("<table>")


@pytest.mark.thorough
def test_nothing_is_imported_for_it_before_it_is_asked_for():
    code = "import sys, elmfield; sys.exit('elmfield.io.view_source' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("size", [1e-300, 1e39, 1e300])
def test_very_large_and_small_numbers_are_shown_without_a_warning(size):
    assert drawn(ef.fit(size * np.eye(20))).shape == (160, 160, 3)
