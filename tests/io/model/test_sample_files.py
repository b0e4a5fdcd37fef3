"""Fields that are their samples, to a file and back."""

import json
import pickle
import zipfile

import numpy as np
import pytest

import elmfield as ef
from elmfield.codec import pack
from elmfield.field.coefficients.sample_boxes import SampleBoxes
from elmfield.field.coefficients.tiles import TILE_CACHE_BYTES, CodedTiles, Tiling
from support import close, coefficients_of, inside


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
    c = field.model.blended.groups[0].coefficients
    return np.asarray(c.source_samples.read_standardised(tuple(slice(0, n) for n in field.shape)))


def metadata(path):
    return json.loads(zipfile.ZipFile(path).read("zarr.json"))["attributes"]["elmfield"]


GAPS = np.where(picture((70, 90), 5) < 40, np.nan, picture((70, 90)))


CASES = {
    "floats": (picture((70, 90)), {}),
    "single": (picture((70, 90)).astype(np.float32), {}),
    "half": (picture((70, 90)).astype(np.float16), {}),
    "bytes": (picture((70, 90)).astype(np.uint8), {}),
    "words": (picture((70, 90)).astype(np.int16) - 40, {}),
    "yes or no": (picture((70, 90)) > 50, {}),
    "long": (picture((70, 90)).astype(np.int64) * 10**7, {}),
    "colours": (picture((40, 50, 3)).astype(np.uint8), {"channel_axis": -1}),
    "colours first": (np.moveaxis(picture((40, 50, 3)), -1, 0), {"channel_axis": 0}),
    "one channel": (picture((40, 50, 1)), {"channel_axis": -1}),
    "complex": (picture((30, 30)) + 1j * picture((30, 30), 1), {}),
    "periodic": (picture((66, 70)), {"periodic": 1}),
    "gaps": (GAPS, {}),
    "gaps in single": (GAPS.astype(np.float32), {}),
    "line": (picture((500, 1))[:, 0], {}),
    "volume": (picture((20, 18, 17)), {}),
    "offset": (1e8 + picture((50, 50)), {}),
    "kelvin": ((280 + picture((50, 50))).astype(np.float32), {}),
}


@pytest.mark.parametrize(
    ("name", "lazy"), [(n, i % 4 > 0) for i, n in enumerate(CASES)] + [("gaps", False)]
)
def test_samples_come_back_bit_for_bit_and_so_do_coefficients(name, lazy, tmp_path, rng):
    values, options = CASES[name]
    field = ef.fit(values, ef.smooth(order=1.2, cell=12), **options)
    path = saved(field, tmp_path)
    back = ef.load(path, lazy=lazy)
    assert np.array_equal(samples_of(back), samples_of(field))
    assert back.settings == field.settings
    assert back.model.coefficient_dtype == field.model.coefficient_dtype
    assert back.dtype == field.dtype
    (mine,), (theirs,) = field.model.blended.groups, back.model.blended.groups
    assert np.array_equal(coefficients_of(theirs), coefficients_of(mine))
    some = np.array([2, 0, 1]) if mine.coefficients.shape[0] > 2 else np.array([0])
    assert np.array_equal(theirs.coefficients.take(some), coefficients_of(mine)[some])
    x = inside(rng, field.shape, 100)
    assert np.array_equal(back(x), field(x))
    assert np.array_equal(back.samples(), field.samples())
    assert back.model.n_coefficients == field.model.n_coefficients
    assert metadata(path)["version"] == 1
    kept = samples_kept(back)
    assert np.array_equal(kept, samples_kept(field))


def samples_kept(field):
    boxes = field.model.blended.groups[0].coefficients.source_samples
    return boxes.read(tuple(slice(0, n) for n in field.shape))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("bytes", "uint8"), ("words", "int16"), ("half", "float16"), ("single", "float32"),
     ("yes or no", "uint8"), ("long", "int64"), ("gaps in single", "float32")],
)  # fmt: skip
def test_samples_are_kept_in_their_own_dtype(name, kind, tmp_path):
    values, options = CASES[name]
    path = saved(ef.fit(values, **options), tmp_path)
    assert metadata(path)["samples"]["dtype"] == kind
    kept = samples_kept(ef.load(path))[..., 0]
    have = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(values.shape, bool)
    assert np.array_equal(kept[have], values[have])


@pytest.mark.thorough
def test_what_was_missing_is_known(tmp_path):
    slab = tuple(slice(0, n) for n in GAPS.shape)
    back = ef.load(saved(ef.fit(GAPS), tmp_path))
    gone = back.model.blended.groups[0].coefficients.source_samples.gaps(slab)
    assert np.array_equal(gone[..., 0], np.isnan(GAPS))
    again = ef.load(saved(back.crop([10, 10], [60, 60]), tmp_path))
    part = again.model.blended.groups[0].coefficients.source_samples.gaps(
        (slice(20, 30), slice(12, 50))
    )
    assert np.array_equal(part[..., 0], np.isnan(GAPS[20:30, 12:50]))
    colours = np.stack([GAPS, picture((70, 90))], -1)
    back = ef.load(saved(ef.fit(colours, channel_axis=-1), tmp_path))
    assert np.array_equal(
        back.model.blended.groups[0].coefficients.source_samples.gaps(slab), np.isnan(colours)
    )
    assert (
        ef.load(saved(ef.fit(colours[..., 1]), tmp_path))
        .model.blended.groups[0]
        .coefficients.source_samples.gaps(slab)
        is None
    )


def test_what_the_caller_does_with_the_array_later_does_not_matter(tmp_path):
    values = picture((60, 60))
    truth = values.copy()
    field = ef.fit(values)
    values[:] = 7
    back = ef.load(saved(field, tmp_path))
    assert np.array_equal(samples_kept(back)[..., 0], truth)


@pytest.mark.parametrize(
    ("name", "lazy"),
    [(n, True) for n in ("floats", "single", "bytes", "complex", "periodic", "line", "gaps")]
    + [(n, False) for n in ("floats", "colours", "gaps")],
)
def test_oriented_regions_too(name, lazy, tmp_path, rng):
    values, options = CASES[name]
    field = ef.fit(values, ef.oriented(order=1.2), **options)
    back = ef.load(saved(field, tmp_path), lazy=lazy)
    assert np.array_equal(samples_of(back), samples_of(field))
    assert back.settings == field.settings
    assert back.model.coefficient_dtype == field.model.coefficient_dtype
    # Weights of members are made again, by products of other sizes.
    x = inside(rng, field.shape, 100)
    tolerance = 2e-4 if field.model.coefficient_dtype == np.float32 else 1e-10
    size = np.nanmax(np.abs(values)) - np.nanmin(np.abs(values))
    close(back(x), field(x), tolerance * size)
    close(back.samples(), field.samples(), tolerance * size)
    assert back.model.n_coefficients == field.model.n_coefficients


@pytest.mark.thorough
def test_noise_taken_off_is_not_put_back(tmp_path):
    values = picture((200, 200)).astype(np.uint8)
    for settings in (ef.oriented(order=1.2, denoise=3.0), ef.smooth(denoise=3.0)):
        noisy = ef.fit(values, settings)
        back = ef.load(saved(noisy, tmp_path))  # no longer whole numbers
        assert np.array_equal(samples_of(back), samples_of(noisy))
        np.testing.assert_allclose(back.model.residual, noisy.model.residual, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_fewer_digits_can_be_asked_for(dtype, tmp_path):
    values = picture((50, 60))
    back = ef.load(saved(ef.fit(values, ef.oriented(order=1.2)), tmp_path, dtype=dtype))
    close(back.samples(), values, {"float32": 1e-4, "float16": 0.1}[dtype])


@pytest.mark.thorough
@pytest.mark.parametrize("settings", [None, ef.oriented(order=1.2)], ids=str)
def test_a_crop_is_saved_with_what_its_boxes_need(settings, tmp_path, rng):
    values = picture((200, 180))
    field = ef.fit(values, settings)
    crop = field.crop((50.3, 60.0), (80.0, 99.9))
    whole, part = (saved(f, tmp_path).stat().st_size for f in (field, crop))
    assert part < whole / 3
    back = ef.load(saved(crop, tmp_path))
    x = rng.random((50, 2)) * [29.7, 39.9] + [50.3, 60.0]
    close(back(x), field(x), 1e-10)
    again = ef.load(saved(back, tmp_path))  # and from a file to another
    close(again(x), field(x), 1e-10)
    lazy = ef.load(saved(field, tmp_path)).crop((50.3, 60.0), (80.0, 99.9))
    assert saved(lazy, tmp_path).stat().st_size < whole / 3
    close(ef.load(saved(lazy, tmp_path))(x), field(x), 1e-10)


def test_a_model_is_saved_again_without_being_decoded(tmp_path, monkeypatch):
    path = saved(ef.fit(picture((90, 80))), tmp_path)
    first = path.read_bytes()
    field = ef.load(path)
    monkeypatch.setattr(CodedTiles, "decode", lambda *_: 1 / 0)
    ef.save(field, path)
    assert path.read_bytes() == first


@pytest.mark.thorough
def test_a_window_reads_few_tiles(tmp_path, monkeypatch):
    monkeypatch.setattr("elmfield.field.coefficients.tiles.TILE_BYTES", 1 << 13)
    values = np.random.default_rng(0).standard_normal((300, 300))
    back = ef.load(saved(ef.fit(values), tmp_path))
    tiling = back.model.blended.groups[0].coefficients.source_samples.tiles.tiling
    assert tiling.n_tiles > 80
    read = []
    whole = CodedTiles.decode
    monkeypatch.setattr(CodedTiles, "decode", lambda d, i: read.extend(i) or whole(d, i))
    back.grid(np.linspace(50, 70, 30), np.linspace(100, 125, 30))
    assert 0 < len(set(read)) <= 9
    assert len(read) == len(set(read))  # each is decoded once
    read.clear()
    close(back.samples(), values, 1e-10)
    assert len(read) == len(set(read)) >= tiling.n_tiles - 9


@pytest.mark.thorough
def test_decoded_tiles_are_kept_within_a_limit(rng):
    tiling = Tiling((0, 0, 0), (400, 400, 1), (100, 100, 1))
    values = rng.integers(0, 9, (400, 400, 1)).astype(np.float64)
    tiles = [pack(values[tiling.slab(i)]) for i in range(tiling.n_tiles)]
    decoded = CodedTiles(tiles, tiling, "float64")
    with ef.memory_limit(1 << 19):
        for i in range(tiling.n_tiles):
            assert np.array_equal(decoded(i), values[tiling.slab(i)])
    held = sum(v.nbytes for v in decoded._kept.values())
    assert 80_000 <= held <= 1 << 18 < TILE_CACHE_BYTES


def test_boxes_come_out_of_tiles_wherever_they_lie(rng):
    values = rng.standard_normal((61, 50, 2))
    for periodic in ((), (0,), (0, 1)):
        part = ef.Partition.regular((61, 50), 9, 2.0, periodic=periodic, equal_boxes=True)
        tiling = Tiling((0, 0, 0), (61, 50, 2), (17, 23, 2))
        tiles = [pack(np.ascontiguousarray(values[tiling.slab(i)])) for i in range(tiling.n_tiles)]
        coded = SampleBoxes(
            source=CodedTiles(tiles, tiling, "float64"), kind="float64",
            offset=np.array([1.0, 2.0]), scale=np.array([2.0, 4.0]), like=np.empty(0),
        )  # fmt: skip
        box = tuple(int(n) for n in part.boxes[1][0])
        regions = rng.permutation(part.n_regions)
        found = coded.gather(part, regions, box)
        for Y, first in zip(found, part.boxes[0][regions]):
            at = np.ix_(
                *((first[k] + np.arange(b)) % n for k, (b, n) in enumerate(zip(box, (61, 50))))
            )
            close(Y, ((values[at] - [1, 2]) / [2, 4]).reshape(-1, 2), 1e-15)
        assert np.array_equal(
            coded.channels(slice(1, 2)).gather(part, regions, box), found[..., 1:]
        )


@pytest.mark.parametrize(
    ("sizes", "itemsize"),
    [((5000, 3000, 3), 1), ((512, 768, 3), 1), ((200, 300, 400, 1), 4), ((10**7, 1), 8),
     ((3, 10**6, 1), 8), ((20, 20, 10_000), 8), ((7, 5, 9, 11, 13, 2), 8), ((1, 1, 1), 1)],
)  # fmt: skip
def test_tiles_take_about_a_mebibyte_and_hold_every_sample_once(sizes, itemsize):
    tiling = Tiling.by_bytes((0,) * len(sizes), sizes, itemsize)
    whole = int(np.prod(sizes)) * itemsize
    held = [int(np.prod(tiling.shape(i))) for i in range(tiling.n_tiles)]
    assert sum(held) == tiling.n_values == int(np.prod(sizes))
    if whole > 1 << 20:
        assert (1 << 18) < max(held) * itemsize < (1 << 22)
    part, numbers = tiling.part((0,) * len(sizes), sizes)
    assert part == tiling
    assert numbers == list(range(tiling.n_tiles))


@pytest.mark.parametrize(
    ("key", "value"),
    [("low", [0, -1]), ("high", [70, 900]), ("dtype", "object"), ("high", [70]), ("dtype", "uint8"),
     ("low", [3, 0]), ("checks", ""), ("checks", "00000000" * 9), ("missing", 3), ("missing", 1)],
)  # fmt: skip
def test_what_a_file_says_of_its_samples_is_checked(key, value, tmp_path):
    path = tmp_path / "field.elm.zarr"
    ef.save(ef.fit(picture((70, 90))), path)
    root = json.loads((path / "zarr.json").read_text())
    meta = root["attributes"]["elmfield"]
    meta["samples"][key] = value
    del meta["digest"]
    (path / "zarr.json").write_text(json.dumps(root))
    with pytest.raises(ef.StoreError, match="is damaged"):
        ef.load(path)


def test_tiles_in_each_others_place_are_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr("elmfield.field.coefficients.tiles.TILE_BYTES", 1 << 14)
    path = tmp_path / "field.elm.zarr"
    ef.save(ef.fit(picture((90, 90))), path)
    a, b = (path / "samples" / "c" / "0" / name for name in "01")
    one, other = a.read_bytes(), b.read_bytes()
    a.write_bytes(other)
    b.write_bytes(one)
    with pytest.raises(ef.StoreError, match="belongs to another place or file"):
        ef.load(path).samples()


@pytest.mark.parametrize("settings", [None, ef.smooth(psnr=40), ef.oriented(order=1.2)], ids=str)
def test_fields_travel_between_processes_open_files_by_their_names(settings, tmp_path):
    field = ef.fit(picture((40, 50)), settings)
    assert np.array_equal(pickle.loads(pickle.dumps(field)).samples(), field.samples())
    path = saved(field, tmp_path)
    whole = ef.load(path, lazy=False)
    path.unlink()
    assert np.array_equal(pickle.loads(pickle.dumps(whole)).samples(), whole.samples())
    opened = pickle.dumps(ef.load(saved(field, tmp_path)))
    assert np.array_equal(pickle.loads(opened).samples(), field.samples())


@pytest.mark.thorough
def test_gaps_among_whole_numbers_are_kept_as_whole_numbers(tmp_path):
    rng = np.random.default_rng(2)
    heights = rng.integers(-3, 4, (60, 70)).cumsum(0).cumsum(1)
    heights = ((heights - heights.min()) * 900 // np.ptp(heights)).astype("int16")
    gone = np.zeros(heights.shape, bool)
    gone[20:30, 30:50] = True
    sizes = {}
    for kind, values in {"many": heights, "few": heights // 20}.items():
        field = ef.fit(values, mask=gone)
        path = tmp_path / f"{kind}.elm"
        ef.save(field, path)
        back = ef.load(path)
        filled = back.samples(missing="fill")
        assert np.array_equal(filled, field.samples(missing="fill"))
        close(filled[~gone], values[~gone], 1e-9)
        assert (np.abs(filled[gone] - np.rint(filled[gone])).max() < 1e-9) == (kind == "many")
        assert back.model.blended.source_samples.kind == {"many": "int16", "few": "float64"}[kind]
        sizes[kind] = path.stat().st_size
    assert sizes["many"] < sizes["few"] / 3


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("alike", [True, False])
def test_what_all_channels_miss_is_stored_once(alike, streams, tmp_path):
    values = np.stack([picture((40, 50))] * 3, axis=-1).astype("f4")
    values[5:9, 7:12, slice(None) if alike else 1] = np.nan
    path = tmp_path / "model.elm.zarr"
    if streams:
        ef.fit(values, channel_axis=-1, out=path)
    else:
        ef.save(ef.fit(values, channel_axis=-1), path)
    root = json.loads((path / "zarr.json").read_text())
    array = json.loads((path / "missing" / "zarr.json").read_text())
    assert root["attributes"]["elmfield"]["samples"]["missing"] == (1 if alike else 3)
    assert array["shape"] == ([40, 50] if alike else [40, 50, 3])
    np.testing.assert_array_equal(np.isnan(ef.load(path).samples(missing="nan")), np.isnan(values))
