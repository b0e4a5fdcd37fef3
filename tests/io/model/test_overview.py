"""The overview of a file without loss: means that are there before a tile is decoded."""

import json
import zipfile

import numpy as np
import pytest

import elmfield as ef
from elmfield.errors import StoreError
from elmfield.field.grid_values import coarse_means
from elmfield.io.model import sample_files
from elmfield.io.model.metadata import digest
from elmfield.io.model.sample_files import TilesInFile
from support import block_means, close


@pytest.fixture
def small(monkeypatch):
    """Overviews of small arrays: means of 8 by 8 samples."""
    monkeypatch.setattr(sample_files, "MIN_SAMPLES", 1 << 10)
    monkeypatch.setattr(sample_files, "MIN_HALVINGS", 6)


@pytest.fixture
def undecoded(monkeypatch):
    """No tile of samples can be read."""
    read = TilesInFile.__getitem__

    def refused(self, number):
        assert self.array.name != "samples"
        return read(self, number)

    monkeypatch.setattr(TilesInFile, "__getitem__", refused)


@pytest.mark.parametrize(
    ("dtype", "channels", "off"), [("uint8", None, 0.5), ("float64", None, 1e-4), ("int16", 3, 0.5)]
)
def test_means_are_seen_without_the_samples(tmp_path, small, undecoded, dtype, channels, off):
    rng = np.random.default_rng(0)
    values = rng.integers(0, 200, (75, 90, *([channels] if channels else []))).astype(dtype)
    path = tmp_path / "a.elm"
    ef.save(ef.fit(values, channel_axis=-1 if channels else None), path)
    field = ef.load(path)
    assert field.model.blended.source_samples.quick_level == 3
    for k in (3, 4, 6):  # at the ends of axes there are fewer samples to a mean
        close(coarse_means(field.model, k), block_means(values.astype(float), k, 2), off)


def test_a_copy_keeps_it_and_few_samples_have_none(tmp_path, small, monkeypatch):
    values = np.arange(75.0 * 90).reshape(75, 90)
    for name in ("a", "b", "c"):
        field = ef.fit(values) if name != "b" else ef.load(tmp_path / "a.elm")
        ef.save(field, tmp_path / f"{name}.elm")
        monkeypatch.setattr(sample_files, "MIN_SAMPLES", (1 << 10) if name == "a" else 1 << 20)
    assert (tmp_path / "a.elm").read_bytes() == (tmp_path / "b.elm").read_bytes()
    assert coarse_means(ef.load(tmp_path / "a.elm", lazy=False).model, 4).shape == (5, 6)
    assert ef.load(tmp_path / "c.elm").model.blended.source_samples.quick_level is None


@pytest.mark.parametrize("level", [0, 2, 63, "3"])
def test_another_level_is_refused(tmp_path, small, level):
    ef.save(ef.fit(np.arange(75.0 * 90).reshape(75, 90)), tmp_path / "a.elm")
    with (
        zipfile.ZipFile(tmp_path / "a.elm") as old,
        zipfile.ZipFile(tmp_path / "b.elm", "w") as new,
    ):
        for info in old.infolist():
            data = old.read(info)
            if info.filename == "zarr.json":
                root = json.loads(data)
                own = root["attributes"]["elmfield"]
                own["samples"]["overview"] = level
                own["digest"] = digest(own)
                data = json.dumps(root).encode()
            new.writestr(info.filename, data)
    with pytest.raises(StoreError, match="overview"):
        ef.load(tmp_path / "b.elm")
