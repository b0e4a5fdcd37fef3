"""The contract of boxes of samples, over every implementation; and coarse looks at them."""

import numpy as np
import pytest

import elmfield as ef
from elmfield.field.coefficients.sample_boxes import SampleBoxes
from elmfield.field.coefficients.tiles import CodedTiles, Tiling, Totals, packed, sums_of
from elmfield.field.grid_values import coarse_means
from elmfield.fit.statistics import Slabs
from elmfield.samples import InMemory
from support import block_means, close

VALUES = np.random.default_rng(4).integers(-90, 90, (50, 41, 2)).cumsum(0).astype(np.int16)
OFFSET, SCALE = np.array([10.0, -3.0]), np.array([64.0, 512.0])


def in_tiles(tile=(16, 32, 2), **others):
    tiling = Tiling((0, 0, 0), VALUES.shape, tile)
    tiles = [packed(VALUES[tiling.slab(i)]) for i in range(tiling.n_tiles)]
    return made_of(CodedTiles(tiles, tiling, "int16"), **others)


def made_of(source, **others):
    return SampleBoxes(
        source=source, offset=OFFSET, scale=SCALE, like=OFFSET[:0], kind="int16", **others
    )


def in_one_array():
    return made_of(InMemory(VALUES))


def in_slabs():
    return made_of(Slabs(source=InMemory(VALUES), channel_axis=-1 % VALUES.ndim))


def in_odd_tiles():
    return in_tiles((13, 10, 1))


@pytest.fixture(
    params=[in_one_array, in_tiles, in_odd_tiles, in_slabs],
    ids=["whole", "coded", "odd tiles", "slabs"],
)
def boxes(request):
    return request.param()


class TestEveryKindOfBoxes:
    def test_says_what_it_keeps(self, boxes):
        assert boxes.kind == "int16"
        assert boxes.is_raw
        assert boxes.n_channels == 2
        assert boxes.like.dtype == np.float64
        assert 0 < boxes.n_bytes <= VALUES.nbytes
        assert boxes.tiles is None or boxes.tiles is boxes.source
        assert boxes.gaps((slice(0, 3), slice(0, 3))) is None

    def test_gives_slabs_and_boxes_in_the_unit_of_the_fit(self, boxes):
        slab = (slice(7, 39), slice(3, 35))
        assert np.array_equal(boxes.read(slab), VALUES[slab])
        close(boxes.read_standardised(slab), (VALUES[slab] - OFFSET) / SCALE, 0)
        part = ef.Partition.regular((50, 41), 8, 2.0, equal_boxes=True)
        box = tuple(int(n) for n in part.boxes[1][0])
        regions = np.array([3, 0, 17, 3])
        for Y, first in zip(boxes.gather(part, regions, box), part.boxes[0][regions]):
            at = tuple(slice(a, a + n) for a, n in zip(first, box))
            close(Y, ((VALUES[at] - OFFSET) / SCALE).reshape(-1, 2), 0)

    def test_gives_channels(self, boxes):
        slab = (slice(0, 50), slice(0, 41))
        for own in (slice(0, 1), slice(1, 2)):
            part = boxes.channels(own)
            assert part.n_channels == 1
            assert np.array_equal(part.read(slab), VALUES[..., own])
            close(part.read_standardised(slab), boxes.read_standardised(slab)[..., own], 0)

    def test_gives_means(self, boxes):
        for k in (1, 2, 3, 4, 6, 62):
            means = block_means(VALUES.astype(float), k, 2)
            close(boxes.coarse(k), (means - OFFSET) / SCALE, 1e-12)


@pytest.mark.parametrize("of", [0, 1, 2])
def test_totals_are_of_slabs_in_any_cut(of):
    y = np.arange(35.0 * 26).reshape(35, 26, 1)
    tiling = Tiling((3, 5, 0), (38, 31, 1), (35, 26, 1))
    totals = Totals(tiling, 3)
    for a, b in [(20, 35), (0, 4), (4, 20)]:
        slab = (slice(3 + a, 3 + b), slice(5, 31))
        totals.add(slab, sums_of(tiling, 3, slab, block_means(y[a:b], of, 2), of))
    close(totals.means(), block_means(y, 3, 2), 1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_coarse_look_at_coded_samples(dtype, tmp_path):
    y, x = np.mgrid[0:200, 0:300]
    values = (128 + 100 * np.sin(y / 30) * np.cos(x / 40)).astype(dtype)
    colours = np.stack([values, values[::-1], 255 - values])
    ef.save(ef.fit(colours, ef.smooth(psnr=45), channel_axis=0), tmp_path / "x.elm")
    field = ef.load(tmp_path / "x.elm")
    looks = {k: np.moveaxis(coarse_means(field.model, k), 0, -1) for k in (1, 3, 5, 7, 8)}
    assert not field.model.blended.source_samples.tiles._kept or dtype == "float32"
    samples = np.moveaxis(field.samples(), 0, -1).astype(float)
    for k, look in looks.items():  # whole numbers have whole means
        close(look, block_means(samples, k, 2), 0.6 if dtype == "uint8" else 0.1)


def test_a_coarse_look_at_anything():
    values = np.random.default_rng(0).standard_normal((40, 30)).cumsum(0)
    field = ef.fit(values)
    for part in (
        field,
        ef.fit(values, ef.paper(cell=20, width=50)),
        ef.fit(values, ef.smooth(coefficients=300)),
        field.crop([10, 10], [29, 25]),
        field.crop([3.2, 4], [20, 4.5]),
        ef.fit(values[..., None] * [1, 1j], channel_axis=-1),
    ):
        for k in (1, 2, 5, 99):
            close(coarse_means(part.model, k), block_means(part.samples(), k, 2), 1e-12)
    assert coarse_means(field.crop([10.2, 4], [10.8, 9]).model, 1).shape == (0, 3)
    assert np.array_equal(coarse_means(field.model, 0), field.samples())
    with pytest.raises(ValueError, match="`k` must be a whole number of at least 0"):
        coarse_means(field.model, -1)


@pytest.mark.slow
def test_tiles_need_not_be_whole_blocks(tmp_path, monkeypatch):
    """Means once were put where their tile began, and what no tile reached was never written."""
    monkeypatch.setattr("elmfield.field.coefficients.tiles.TILE_BYTES", 1 << 13)
    x = np.indices((130, 110)).sum(0) / 240.0
    field = ef.fit(x, ef.smooth(order=1.5, max_error=0.001))
    assert field.model.blended.source_samples.tiles.tiling.tile == (24, 48, 1)
    for k in (3, 4, 5, 7, 8):
        close(coarse_means(field.model, k), block_means(x, k, 2), 0.001)
    for values in (x, np.random.default_rng(0).standard_normal((65, 35, 45))):
        ef.save(ef.fit(values), tmp_path / "x.elm")
        field = ef.load(tmp_path / "x.elm")
        for k in (4, 5, 9):
            close(coarse_means(field.model, k), block_means(values, k, values.ndim), 1e-12)


def test_gaps_that_all_channels_share_are_kept_once(rng):
    values, slab = rng.random((12, 10, 3)), (slice(0, 12), slice(0, 10))
    values[3, 4] = np.nan
    assert ef.fit(values, channel_axis=-1).model.blended.source_samples.gaps(slab).shape == (
        12,
        10,
        1,
    )
    values[5, 6, 1] = np.nan
    gaps = ef.fit(values, channel_axis=-1).model.blended.source_samples.gaps(slab)
    np.testing.assert_array_equal(gaps, np.isnan(values))
