"""Several arrays of one shape, encoded together."""

import pytest

import elmfield as ef
from support import close, host, on_samples


@pytest.mark.parametrize("settings", [None, ef.paper(cell=8, width=30), ef.smooth(psnr=30)])
def test_a_batch_gives_the_fields_of_its_frames(xp, settings, rng):
    frames = rng.standard_normal((3, 20, 24, 2))
    encode = ef.encoder((20, 24, 2), settings, channel_axis=-1)
    fields = encode.batch(xp.asarray(frames))
    assert len(fields) == 3
    for frame, field in zip(frames, fields):
        alone = encode(xp.asarray(frame))
        close(on_samples(field), host(on_samples(alone)), 1e-10)
        assert field.model.data_range == pytest.approx(alone.model.data_range)
    plain = ef.encoder((20, 24), ef.smooth())
    video = plain.batch(xp.asarray(frames[..., 0]))
    close(on_samples(video[1]), frames[1, ..., 0], 1e-9)


def test_a_batch_of_another_shape_is_refused(rng):
    encode = ef.encoder((20, 24))
    with pytest.raises(ValueError, match=r"`frames` must have shape \(n, 20, 24\)"):
        encode.batch(rng.random((3, 24, 20)))
