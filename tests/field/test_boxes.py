"""The contract of boxes of samples, over every implementation; and coarse looks at them."""

import numpy as np
import pytest

import elmfield as ef
from elmfield.field.tiles import Coded, Decoded, InMemory, block_means
from elmfield.field.tiling import Tiling, packed
from support import close

VALUES = np.random.default_rng(4).integers(-90, 90, (50, 41, 2)).cumsum(0).astype(np.int16)
OFFSET, SCALE = np.array([10.0, -3.0]), np.array([64.0, 512.0])


def in_tiles(**others):
    tiling = Tiling((0, 0, 0), VALUES.shape, (16, 32, 2))
    tiles = [packed(VALUES[tiling.slab(i)]) for i in range(tiling.n_tiles)]
    return Coded(
        decoded=Decoded(InMemory(tiles), tiling, "int16"),
        offset=OFFSET, scale=SCALE, dtype=np.dtype("float64"), **others,
    )  # fmt: skip


def in_one_array():
    field = ef.fit(VALUES, ef.smooth(order=1.1), channel_axis=-1)
    boxes = field.blended.made_of
    return type(boxes)(values=VALUES, offset=OFFSET, scale=SCALE, kind="int16")


@pytest.fixture(params=[in_one_array, in_tiles], ids=["whole", "coded"])
def boxes(request):
    return request.param()


class TestEveryKindOfBoxes:
    def test_says_what_it_keeps(self, boxes):
        assert boxes.kind == "int16"
        assert boxes.is_raw
        assert boxes.n_channels == 2
        assert boxes.like.dtype == np.float64
        assert 0 < boxes.n_bytes <= VALUES.nbytes
        assert (boxes.coded is None) or boxes.coded is boxes
        assert boxes.gaps((slice(0, 3), slice(0, 3))) is None

    def test_gives_slabs_and_boxes_in_the_unit_of_the_fit(self, boxes):
        slab = (slice(7, 39), slice(3, 35))
        assert np.array_equal(boxes.kept(slab), VALUES[slab])
        close(boxes.block(slab), (VALUES[slab] - OFFSET) / SCALE, 0)
        part = ef.Partition.regular((50, 41), 8, 2.0, equal_boxes=True)
        box = tuple(int(n) for n in part.boxes[1][0])
        regions = np.array([3, 0, 17, 3])
        for Y, first in zip(boxes.of(part, regions, box), part.boxes[0][regions]):
            at = tuple(slice(a, a + n) for a, n in zip(first, box))
            close(Y, ((VALUES[at] - OFFSET) / SCALE).reshape(-1, 2), 0)

    def test_gives_channels(self, boxes):
        slab = (slice(0, 50), slice(0, 41))
        for own in (slice(0, 1), slice(1, 2)):
            part = boxes.channels(own)
            assert part.n_channels == 1
            assert np.array_equal(part.kept(slab), VALUES[..., own])
            close(part.block(slab), boxes.block(slab)[..., own], 0)

    def test_gives_means(self, boxes):
        for k in (1, 2, 4):
            means = boxes.coarse(k)
            assert means.shape == (-(-50 >> k), -(-41 >> k), 2)
            side = 1 << k
            last = VALUES[(means.shape[0] - 1) * side :, :side].astype(float).mean((0, 1))
            close(means[-1, 0], (last - OFFSET) / SCALE, 1e-12)


def test_block_means_are_means_of_blocks():
    y = np.arange(35.0).reshape(5, 7, 1)
    means = block_means(y, 2)[..., 0]
    assert means.shape == (2, 2)
    assert means[1, 1] == y[4:, 4:].mean()


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_coarse_look_at_coded_samples(dtype, tmp_path):
    y, x = np.mgrid[0:200, 0:300]
    values = (128 + 100 * np.sin(y / 30) * np.cos(x / 40)).astype(dtype)
    colours = np.stack([values, values[::-1], 255 - values])
    ef.save(ef.fit(colours, ef.smooth(psnr=45), channel_axis=0), tmp_path / "x.elm")
    field = ef.load(tmp_path / "x.elm")
    for k in (1, 3, 5):
        look = field.coarse(k)
        side = 1 << k
        assert look.shape == (3, -(-200 // side), -(-300 // side))
        mean = colours[:, :side, side : 2 * side].astype(float).mean((1, 2))
        close(look[:, 0, 1], mean, 4.5)
    assert not field.blended.made_of.decoded._kept or dtype == "float32"


def test_a_coarse_look_at_anything():
    values = np.random.default_rng(0).standard_normal((40, 30)).cumsum(0)
    close(ef.fit(values).coarse(1)[3, 4], values[6:8, 8:10].mean(), 1e-12)
    assert ef.fit(values, ef.paper(cell=20, width=50)).coarse(2).shape == (10, 8)
    assert ef.fit(values).crop([10, 10], [29, 25]).coarse(2).shape == (5, 4)
    assert np.array_equal(ef.fit(values).coarse(0), ef.fit(values).samples())
    with pytest.raises(ValueError, match="`k` must be a whole number of at least 0"):
        ef.fit(values).coarse(-1)
