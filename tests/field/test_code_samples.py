"""Targets met by coding samples: what is promised holds, in memory, in files, of parts."""

import numpy as np
import pytest

import elmfield as ef
from elmfield.codec import pack
from elmfield.field.coefficients.tiles import pack_tiles
from elmfield.field.step_search import NEAR_RATIO, guess_step, search_step


def SLOW(value):
    return pytest.param(value, marks=pytest.mark.slow)


def rough(shape, seed=0):
    y = np.random.default_rng(seed).standard_normal(shape)
    for k in range(len(shape)):
        y = y.cumsum(axis=k)
    return y


def spikes(shape):
    y = np.zeros(shape)
    y.reshape(-1)[::37] = np.random.default_rng(1).standard_normal(y.reshape(-1)[::37].shape)
    return y


CHECKERS = (np.indices((40, 40)).sum(axis=0) % 2) * 2.0 - 1
OUTLIER = np.where(np.arange(2500).reshape(50, 50) == 1234, 1e12, rough((50, 50)))
ARRAYS = {
    "rough": rough((50, 60)),
    "spikes": spikes((50, 50)),
    "checkers": CHECKERS,
    "noise": np.random.default_rng(2).random((40, 50)),
    "offset": 1e8 + np.sin(np.arange(2500.0) / 40).reshape(50, 50),
    "denormal": 1e-310 * rough((40, 40)),
    "tiny": 1e-150 * rough((40, 40)),
    "huge": 1e150 * rough((40, 40)),
    "outlier": OUTLIER,
    "whole": np.round(1e15 * np.random.default_rng(3).random((40, 40))),
    "bytes": np.random.default_rng(4).integers(0, 256, (50, 50)).astype(np.uint8),
    "smooth bytes": (128 + 100 * np.sin(np.indices((60, 60)).sum(0) / 9)).astype(np.uint8),
    "words": (3000 * rough((40, 40)) / 30).astype(np.int16),
    "single": (280 + rough((50, 60))).astype(np.float32),
    "constant": np.full((30, 30), 7.25),
    "line": rough((700,)),
    "one": np.array([[3.5]]),
    "volume": rough((18, 17, 16)),
    "colours": np.stack([rough((40, 50)), 30 * rough((40, 50), 1), rough((40, 50), 2)], -1),
    "complex": rough((40, 40)) + 1j * rough((40, 40), 1),
    "gaps": np.where(rough((50, 50), 3) > 0, rough((50, 50)), np.nan),
}


def span(values):
    parts = np.stack([values.real, values.imag]) if np.iscomplexobj(values) else values
    return float(np.nanmax(parts.astype(float)) - np.nanmin(parts.astype(float))) or 1.0


def largest(truth, got):
    wide = np.complex128 if np.iscomplexobj(truth) else np.float64
    return float(np.nanmax(np.abs(got.astype(wide) - truth.astype(wide))))


def options(values):
    return {"channel_axis": -1} if values.ndim == 3 and values.shape[-1] == 3 else {}


@pytest.mark.parametrize("part", [1e-2, SLOW(1e-4)])
@pytest.mark.parametrize("name", ARRAYS)
def test_a_largest_error_is_never_exceeded(name, part, tmp_path):
    values = ARRAYS[name]
    bound = part * span(values)
    field = ef.fit(values, ef.smooth(max_error=bound), **options(values))
    assert largest(values, field.samples()) <= bound
    boxes = field.model.blended.source_samples
    ef.save(field, tmp_path / "x.elm")
    back = ef.load(tmp_path / "x.elm")
    assert np.array_equal(back.samples(), field.samples())
    slab = tuple(slice(0, n) for n in field.shape)
    kept = back.model.blended.source_samples.read(slab)
    assert np.array_equal(kept, boxes.read(slab))
    if not np.iscomplexobj(values):
        assert largest(values, kept if options(values) else kept[..., 0]) <= bound
    later = ef.fit(values, **options(values)).keep(max_error=bound)
    assert largest(values, later.samples()) <= bound


@pytest.mark.parametrize("bound", [1, 2])
def test_whole_numbers_may_be_off_by_all_that_is_allowed(bound, rng, tmp_path):
    values = rng.integers(0, 256, (60, 70)).astype("uint8")
    field = ef.fit(values, ef.smooth(max_error=bound))
    assert field.n_bytes < 1.1 * len(pack(values, max_error=bound))
    ef.fit(values, ef.smooth(max_error=bound), out=tmp_path / "streamed.elm.zarr")
    ef.save(field, tmp_path / "x.elm")
    part = field.crop([9.5, -0.5], [40, 33])
    assert np.abs(part.samples() - values[10:41, :34]).max() == bound
    for path in ("x.elm", "streamed.elm.zarr"):
        back = ef.load(tmp_path / path).samples()
        assert np.abs(back - values).max() == bound
        assert np.array_equal(back, field.samples())


@pytest.mark.parametrize("psnr", [SLOW(30), 60])
@pytest.mark.parametrize("name", [n for n in ARRAYS if n not in ("denormal", "constant", "one")])
def test_a_psnr_is_reached(name, psnr, tmp_path):
    values = ARRAYS[name]
    field = ef.fit(values, ef.smooth(psnr=psnr), **options(values))
    ef.save(field, tmp_path / "x.elm")
    for got in (field.samples(), ef.load(tmp_path / "x.elm").samples()):
        have = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(values.shape, bool)
        assert ef.psnr(values[have], got[have]) >= psnr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rough", "noise", "single", "smooth bytes", "volume", "gaps"])
def test_a_size_is_kept_and_used(name, tmp_path):
    values = ARRAYS[name]
    for bits in (0.7, 2.5):
        field = ef.fit(values, ef.smooth(bits=bits))
        assert field.n_bytes <= bits * values.size / 8
        lossy = field.model.blended.source_samples.is_lossy
        assert not lossy or field.n_bytes > 0.8 * bits * values.size / 8
        again = ef.fit(values).keep(bytes=int(bits * values.size / 8))
        assert again.n_bytes <= bits * values.size / 8
        ef.save(field, tmp_path / "x.elm")
        assert (tmp_path / "x.elm").stat().st_size <= field.n_bytes + 3500


def test_enough_bytes_lose_nothing():
    values = ARRAYS["smooth bytes"]
    field = ef.fit(values, ef.smooth(bytes=values.nbytes))
    assert not field.model.blended.source_samples.is_lossy
    assert np.array_equal(np.round(field.samples()), values)


@pytest.mark.thorough
def test_a_crop_of_a_coded_field_is_that_of_its_samples(tmp_path):
    values = rough((300, 260))
    field = ef.fit(values, ef.smooth(psnr=45))
    crop = field.crop([100, 30], [160, 90])
    ef.save(crop, tmp_path / "crop.elm")
    back = ef.load(tmp_path / "crop.elm")
    np.testing.assert_allclose(back.samples(), crop.samples(), rtol=0, atol=1e-9)
    bound = 2 * ef.max_error(values, field.samples())
    again = back.keep(max_error=bound)
    assert ef.max_error(crop.samples(), again.samples()) <= bound
    assert again.n_bytes < back.n_bytes


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kodim05", "kodim23", "kodim20"])
def test_no_lines_show_where_cells_meet(name, data):
    """Second differences at borders over those elsewhere, magnified twice.

    The default's cells meet where boxes of the codec do. A picture has edges of its own: what
    coding adds to them counts.
    """
    from paper.research import datasets

    values = np.round(datasets.load(name)[:256, :256]).astype(np.uint8)
    plain = roughness(ef.fit(values))
    coded = roughness(ef.fit(values, ef.smooth(psnr=40)))
    assert max(b / a for a, b in zip(plain, coded)) <= 1.15


def roughness(field):
    large, found = field.resize(scale=2), []
    for axis in (0, 1):
        bends = np.moveaxis(np.abs(np.diff(large, 2, axis=axis)), axis, 0).mean(axis=1)
        borders = np.asarray(field.partition.edges[axis][1:-1])
        at = np.zeros(len(bends), bool)
        at[2 * borders - 2] = at[2 * borders - 1] = True  # centred on either side of a border
        found.append(bends[at].mean() / bends[~at].mean())
    return found


def test_coded_fields_have_the_cells_and_blend_of_the_default():
    values = ARRAYS["rough"]
    plain, coded = ef.fit(values), ef.fit(values, ef.smooth(psnr=40))
    assert coded.partition.n_cells == plain.partition.n_cells
    assert coded.partition.overlap == plain.partition.overlap
    assert coded.settings.order == plain.settings.order


@pytest.mark.thorough
def test_what_cannot_be_kept_is_refused():
    with pytest.raises(ValueError, match=r"whole numbers up to 4.61e\+18 .* rounds them by 512"):
        ef.fit(2**62 + np.arange(400).reshape(20, 20), ef.smooth(max_error=1))
    with pytest.raises(ValueError, match=r"`bytes` cannot be kept: coded as coarsely as can be"):
        ef.fit(ARRAYS["rough"], ef.smooth(bytes=2))
    with pytest.raises(
        ValueError, match=r"`bits` can be asked of fields that their samples settle"
    ):
        ef.fit(ARRAYS["rough"], ef.smooth(bits=1, network=ef.Dense(500)))
    with pytest.raises(ValueError, match=r"`bytes` must be a whole number; got 10\.5"):
        ef.smooth(bytes=10.5)


@pytest.mark.parametrize("asked", [{"max_error": 1e-6}, {"psnr": 170}, {"psnr": 400}])
def test_what_is_finer_than_rounding_is_kept_without_loss(asked):
    """Samples come back as they were coded: rounding of the function does not count."""
    values = ARRAYS["single"]
    field = ef.fit(values, ef.smooth(**asked))
    assert np.array_equal(field.samples(), values)
    assert field.samples().dtype == values.dtype


def test_nothing_is_evaluated_to_keep_a_promise(monkeypatch, tmp_path):
    """The coder knows what is decoded: no function is evaluated, no tile decoded, none made twice.

    Samples of a file are decoded into the output.
    """

    def never(*_args, **_named):
        raise AssertionError

    values, seen = rough((300, 260)), []
    monkeypatch.setattr("elmfield.field.coefficients.tiles.TILE_BYTES", 1 << 18)
    monkeypatch.setattr("elmfield.field.blend.blended.Blended.on_grid", never)
    monkeypatch.setattr("elmfield.field.coefficients.from_samples.FromSamples.project", never)
    with monkeypatch.context() as patch:
        patch.setattr("elmfield.field.coefficients.tiles.unpack_many", never)
        own = "elmfield.field.coefficients.tiles.pack_tiles"
        patch.setattr(own, lambda tiles, **asked: seen.extend(tiles) or pack_tiles(tiles, **asked))
        field = ef.fit(values, ef.smooth(max_error=0.1))
        ef.save(field, tmp_path / "x.elm")
        assert len(seen) == field.model.blended.source_samples.tiles.tiling.n_tiles
        assert np.abs(field.samples() - values).max() <= 0.1
    assert np.array_equal(ef.load(tmp_path / "x.elm").samples(), field.samples())


@pytest.mark.parametrize("asked", [{"max_error": 0.5}, {"psnr": 30}])
@pytest.mark.parametrize("periodic", [(), ("dim_1",)])
def test_the_energy_that_coding_lost_is_that_of_each_box(asked, periodic):
    values = rough((70, 90))
    field = ef.fit(values, ef.smooth(**asked), dims=["dim_0", "dim_1"], periodic=periodic)
    squares, part = (field.samples() - values) ** 2, field.partition
    for region, left in enumerate(field.model.residual):
        start, size = (x[region] for x in part.boxes)
        at = [part.within(k, start[k] + np.arange(size[k])) for k in range(2)]
        np.testing.assert_allclose(left, squares[np.ix_(*at)].sum(), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("asked", [{"psnr": 40}, {"psnr": 55}, {"bits": 1.5}], ids=str)
@pytest.mark.parametrize("n", [4, 20])
def test_many_tiles_are_coded_about_once(asked, n, tmp_path, monkeypatch):
    """In parts, each at the step that those before suggest; in a stream as in memory."""
    values, seen = np.vstack([rough((300, 520)), 3 * rough((210, 520), 1)]).astype("float32"), []
    monkeypatch.setattr("elmfield.field.coefficients.tiles.TILE_BYTES", values.nbytes // n)
    own = "elmfield.field.coefficients.tiles.pack_tiles"
    with monkeypatch.context() as patch:
        patch.setattr(own, lambda tiles, **asked: seen.extend(tiles) or pack_tiles(tiles, **asked))
        field = ef.fit(values, ef.smooth(**asked))
    tiling = field.model.blended.source_samples.tiles.tiling
    assert tiling.n_tiles >= n
    assert sum(tile.size for tile in seen) <= (2.5 if "bits" in asked else 1.6) * values.size
    if "psnr" in asked:
        allowed = np.ptp(values.astype(float)) ** 2 * 10 ** (-asked["psnr"] / 10)
        error = np.mean((field.samples().astype(float) - values) ** 2)
        assert NEAR_RATIO * allowed <= error <= allowed
    else:
        assert NEAR_RATIO <= 8 * field.n_bytes / (1.5 * values.size) <= 1
    ef.save(field, tmp_path / "a.elm")
    ef.fit(values, ef.smooth(**asked), out=tmp_path / "b.elm", memory_limit=1 << 18)
    assert (tmp_path / "a.elm").read_bytes() == (tmp_path / "b.elm").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("asked", [{"psnr": 50}, {"bits": 0.5}], ids=str)
def test_tiles_may_be_very_different(asked, monkeypatch):
    """Constant tiles have no error whatever the step, a rough one has nearly all of it."""
    values = np.zeros((400, 300))
    values[100:] += 1e-3 * rough((300, 300), 1)
    values[180:230, 200:260] = 100 * np.random.default_rng(0).standard_normal((50, 60))
    monkeypatch.setattr("elmfield.field.coefficients.tiles.TILE_BYTES", values.nbytes // 20)
    field = ef.fit(values, ef.smooth(**asked))
    assert ef.psnr(values, field.samples()) >= asked.get("psnr", 0)
    assert 8 * field.n_bytes <= asked.get("bits", 64) * values.size


def test_torch_fields_are_coded_too():
    torch = pytest.importorskip("torch")
    values = ARRAYS["rough"]
    field = ef.fit(torch.asarray(values), ef.smooth(psnr=40))
    assert ef.psnr(values, field.samples().numpy()) >= 40
    assert field.n_bytes == ef.fit(values, ef.smooth(psnr=40)).n_bytes


# --- the step ------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [2.0, 1.3, -0.8])
@pytest.mark.parametrize("start", [1e-6, 1.0, 1e6])
def test_the_step_comes_near_from_below(power, start):
    tried = []

    def at(step):
        tried.append(step)
        return step, (step / 37.0) ** power

    step, grows = guess_step(lambda s: at(s)[1], start, 2 if power > 0 else -1)
    assert grows * power > 0
    found = search_step(at, step, grows, 1e-9)
    assert NEAR_RATIO <= (found / 37.0) ** power <= 1
    assert len(tried) < 20


def test_steps_below_the_least_are_not_tried():
    tried = []

    def at(step):
        tried.append(step)
        return step, 5.0

    assert search_step(at, 10.0, 2.0, 1.0) is None
    assert min(tried) == 1.0
    # Steps are rounded to a 512th of an octave: sums in another order give the same file.
    assert abs(search_step(lambda s: (s, 0.0), 10.0, 2.0, 1.0) - 10) < 10 * 2**-9


@pytest.mark.parametrize("streamed", [False, True])
def test_whole_numbers_beyond_float64_are_coded_with_loss_as_floats(streamed, tmp_path, rng):
    values = rng.integers(0, 2**64 - 1, (40, 50), dtype=np.uint64, endpoint=True)
    out = {"out": tmp_path / "x.elm"} if streamed else {}
    found = ef.fit(values, ef.smooth(max_error=1e16), **out).samples()
    assert found.dtype == np.float64
    assert 1e15 < ef.max_error(values, found) <= 1e16
