"""Fields that are their samples, to a file and back."""

import json
import zipfile

import numpy as np
import pytest

import elmfield as ef
from elmfield.io.model.tiles import Held, Tiling
from support import close, inside


def picture(shape, seed=0):
    y = np.random.default_rng(seed).standard_normal(shape)
    for k in range(2):
        y = y.cumsum(axis=k)
    return 100 * (y - y.min()) / np.ptp(y)


def saved(field, tmp_path, **options):
    path = tmp_path / "field.elm"
    ef.save(field, path, **options)
    return path


def samples_of(field):
    c = field.blended.groups[0].coefficients
    return np.asarray(c.boxes.block(tuple(slice(0, n) for n in field.shape)))


CASES = {
    "floats": (picture((70, 90)), {}),
    "single": (picture((70, 90)).astype(np.float32), {}),
    "bytes": (picture((70, 90)).astype(np.uint8), {}),
    "words": (picture((70, 90)).astype(np.int16) - 40, {}),
    "colours": (picture((40, 50, 3)).astype(np.uint8), {"channel_axis": -1}),
    "complex": (picture((30, 30)) + 1j * picture((30, 30), 1), {}),
    "periodic": (picture((66, 70)), {"periodic": 1}),
    "line": (picture((500, 1))[:, 0], {}),
    "volume": (picture((20, 18, 17)), {}),
}


@pytest.mark.parametrize(("values", "options"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("lazy", [True, False])
def test_samples_come_back_bit_for_bit(values, options, lazy, tmp_path, rng):
    field = ef.fit(values, ef.oriented(order=1.2), **options)
    path = saved(field, tmp_path)
    back = ef.load(path, lazy=lazy)
    assert np.array_equal(samples_of(back), samples_of(field))
    assert back.settings == field.settings
    assert back.coefficient_dtype == field.coefficient_dtype
    # Weights of members are made again, by products of other sizes.
    x = inside(rng, field.shape, 100)
    tolerance = 2e-4 if field.coefficient_dtype == np.float32 else 1e-10
    close(back(x), field(x), tolerance * np.ptp(np.abs(values)))
    close(back.samples(), field.samples(), tolerance * np.ptp(np.abs(values)))
    assert back.n_coefficients == field.n_coefficients


def test_whole_numbers_take_what_they_took(tmp_path):
    values = picture((200, 200)).astype(np.uint8)
    path = saved(ef.fit(values, ef.oriented(order=1.2)), tmp_path)
    assert path.stat().st_size < values.nbytes + 8000
    meta = json.loads(zipfile.ZipFile(path).read("zarr.json"))["attributes"]["elmfield"]
    assert meta["version"] == 3
    assert meta["samples"]["dtype"] == "uint8"
    noisy = ef.fit(values, ef.oriented(order=1.2, denoise=3.0))
    back = ef.load(saved(noisy, tmp_path))  # no longer whole
    assert np.array_equal(samples_of(back), samples_of(noisy))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_fewer_digits_can_be_asked_for(dtype, tmp_path):
    values = picture((50, 60))
    back = ef.load(saved(ef.fit(values, ef.oriented(order=1.2)), tmp_path, dtype=dtype))
    close(back.samples(), values, {"float32": 1e-4, "float16": 0.1}[dtype])


def test_a_crop_is_saved_with_what_its_boxes_need(tmp_path, rng):
    values = picture((200, 180))
    field = ef.fit(values, ef.oriented(order=1.2))
    crop = field.crop((50.3, 60.0), (80.0, 99.9))
    whole, part = (saved(f, tmp_path).stat().st_size for f in (field, crop))
    assert part < whole / 8
    back = ef.load(saved(crop, tmp_path))
    x = rng.random((50, 2)) * [29.7, 39.9] + [50.3, 60.0]
    close(back(x), field(x), 1e-10)
    again = ef.load(saved(back, tmp_path))  # and from a file to another
    close(again(x), field(x), 1e-10)


def test_a_window_reads_few_tiles(tmp_path, monkeypatch):
    values = np.random.default_rng(0).standard_normal((600, 600))
    back = ef.load(saved(ef.fit(values, ef.oriented(order=1.2)), tmp_path))
    numbers = back.blended.groups[0].coefficients.boxes.numbers
    read = []
    whole = type(numbers).read
    monkeypatch.setattr(type(numbers), "read", lambda b, i: read.append(i) or whole(b, i))
    back.grid(np.linspace(100, 140, 30), np.linspace(200, 250, 30))
    assert 0 < len(set(read)) <= numbers.n_blocks / 3


def test_tiles_hold_every_sample_once(rng):
    shape, tiling = (7, 10, 2), Tiling((1, 2), (7, 12), 4, 2)
    values = rng.standard_normal((8, 12, 2))
    flat = np.concatenate([values[tile].reshape(-1) for tile in tiling.tiles()])
    assert flat.size == tiling.n_values == 6 * 10 * 2
    i, j = np.meshgrid(np.arange(1, 7), np.arange(2, 12), indexing="ij")
    begin, size, inner = tiling.place([i, j])
    assert np.array_equal(flat.reshape(-1, 2)[begin + inner], values[1:7, 2:12])
    assert (inner < size).all()
    held = Held(np.arange(20.0))
    assert np.array_equal(held.gather(np.array([3, 10]), np.array([2, 3])), [3, 4, 10, 11, 12])
    assert len(shape) == 3


@pytest.mark.parametrize(
    ("key", "value"),
    [("tile", 0), ("low", [0, -1]), ("high", [70, 900]), ("dtype", "object"), ("high", [70])],
)
def test_what_a_file_says_of_its_samples_is_checked(key, value, tmp_path):
    path = tmp_path / "field.elm.zarr"
    ef.save(ef.fit(picture((70, 90)), ef.oriented(order=1.2)), path)
    root = json.loads((path / "zarr.json").read_text())
    meta = root["attributes"]["elmfield"]
    meta["samples"][key] = value
    del meta["digest"]
    (path / "zarr.json").write_text(json.dumps(root))
    with pytest.raises(ef.StoreError, match="is damaged"):
        ef.load(path)
