"""Arrays without loss: bytes beside PNG, JPEG XL and zstd, and time beside them.

    python benchmarks/lossless.py                  everything
    python benchmarks/lossless.py pictures speed   some sections

Sections: pictures, arrays, large, speed, model. Each rewrites its part of
``results/lossless.json``; ``benchmarks/tables.py`` turns that into the tables of the documents.
"""

import io
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import imagecodecs
import numpy as np
from numcodecs import Blosc
from PIL import Image

import elmfield as ef
from common import main, record
from elmfield import codec
from elmfield._array import running
from elmfield._array.running import n_threads
from measurement.data import PHOTOGRAPHS, WEATHER
from paper.research import datasets

ZSTD = Blosc("zstd", 9, Blosc.BITSHUFFLE)
LUMA = np.array([0.299, 0.587, 0.114])
TILE = 512


def png(picture):
    """The smaller of two optimised PNGs."""
    out = io.BytesIO()
    Image.fromarray(picture).save(out, "PNG", optimize=True)
    return min(out.getvalue(), imagecodecs.png_encode(picture, level=9), key=len)


def jpeg_xl(picture):
    """JPEG XL without loss, at its usual effort."""
    return imagecodecs.jpegxl_encode(picture, lossless=True)


def packed(values, channel_axis=None):
    """Our bytes, once they came back bit for bit."""
    data = codec.pack(values, channel_axis=channel_axis)
    back = codec.unpack(data)
    assert back.dtype == values.dtype
    assert back.tobytes() == np.ascontiguousarray(values).tobytes()
    return data


# --- 1. photographs -------------------------------------------------------------------------------


def pictures():
    """Kodak: whole pictures in grey and in colour."""
    rows = []
    for label, name in PHOTOGRAPHS.items():
        rgb = np.asarray(Image.open(datasets.path(name)[0]).convert("RGB"))
        grey = np.rint(rgb @ LUMA).astype(np.uint8)
        for kind, picture, axis in (("grey", grey, None), ("colour", rgb, -1)):
            row = {"picture": label, "kind": kind, "samples": picture.size}
            row |= {"png": len(png(picture)), "jpeg_xl": len(jpeg_xl(picture))}
            row["ours"] = len(packed(picture, axis))
            rows.append(row)
            print(row, flush=True)
    record("lossless", "pictures", rows)


# --- 2. arrays of science -------------------------------------------------------------------------


def _fields():
    """(label, array, channel axis) of data as their files have them."""
    import nibabel
    import tifffile
    import xarray

    for label, name in WEATHER.items():
        with xarray.open_dataset(datasets.path(name)[0], decode_timedelta=False) as file:
            (variable,) = (v for v in file.data_vars.values() if v.ndim >= 2)
            yield label, variable.values.squeeze(), None
    brain = nibabel.load(datasets.path("brain-volume")[0]).dataobj
    yield "brain volume", np.asarray(brain.get_unscaled()), None
    yield "brain volume, scaled", np.asarray(brain).astype(np.float32), None
    yield "Navier-Stokes volume", datasets.load("navier-stokes").astype(np.float32), None
    bands = tifffile.imread(datasets.path("sentinel2-l2a-chile")[0])
    yield "Sentinel-2, 12 bands", bands, int(np.argmin(bands.shape))


def arrays():
    """Bytes beside zstd with bit shuffling."""
    rows = []
    for label, values, axis in _fields():
        values = np.ascontiguousarray(values)
        row = {"data": label, "dtype": str(values.dtype), "shape": list(values.shape)}
        row |= {"raw": values.nbytes, "zstd": len(ZSTD.encode(values))}
        row["ours"] = len(packed(values, axis))
        rows.append(row)
        print(row, flush=True)
    record("lossless", "arrays", rows)


# --- 3. a large picture in tiles ------------------------------------------------------------------


def large():
    """A picture of 25 million samples, cut into tiles."""
    rgb = np.asarray(Image.open(datasets.path("blue-marble")[0]).convert("RGB"))
    row = {"picture": "Blue Marble", "shape": list(rgb.shape), "tile": TILE}
    row |= {"png": len(png(rgb)), "jpeg_xl": len(jpeg_xl(rgb)), "ours": 0}
    for y in range(0, rgb.shape[0], TILE):
        for x in range(0, rgb.shape[1], TILE):
            row["ours"] += len(packed(rgb[y : y + TILE, x : x + TILE], -1))
    print(row, flush=True)
    record("lossless", "large", [row])


# --- 4. time --------------------------------------------------------------------------------------


def _cpu(work):
    """What work gives, and the seconds of processor it took."""
    start = time.process_time()
    done = work()
    return done, time.process_time() - start


@contextmanager
def _loops(used):
    """Within this context compiled loops are used, or not."""
    usual, running.pays = running.pays, lambda work: used
    try:
        yield
    finally:
        running.pays = usual


WAYS = {"ours": True, "ours, NumPy alone": False}


def speed():
    """Colour tiles of 512 x 512 from photographs: processor time for a million samples."""
    tiles = []
    for name in list(PHOTOGRAPHS.values())[:8]:
        rgb = np.asarray(Image.open(datasets.path(name)[0]).convert("RGB"))
        tiles.append(np.ascontiguousarray(rgb[:TILE, :TILE]))
    samples, rows = sum(tile.size for tile in tiles) / 1e6, []
    for label, used in WAYS.items():
        with _loops(used):
            codec.unpack(codec.pack(tiles[0], channel_axis=-1))
            ours, encode = _cpu(lambda: [codec.pack(tile, channel_axis=-1) for tile in tiles])
            _, decode = _cpu(lambda ours=ours: [codec.unpack(data) for data in ours])
            _, together = _cpu(lambda ours=ours: codec.unpack_many(ours))
        rows.append({"codec": label, "encode": encode / samples, "decode": decode / samples})
        rows[-1]["together"] = together / samples
    for label, write, read in (
        ("PNG, optimised", png, imagecodecs.png_decode),
        ("JPEG XL", jpeg_xl, imagecodecs.jpegxl_decode),
    ):
        theirs, encode = _cpu(lambda write=write: [write(tile) for tile in tiles])
        _, decode = _cpu(lambda read=read, theirs=theirs: [read(data) for data in theirs])
        rows.append({"codec": label, "encode": encode / samples, "decode": decode / samples})
    for row in rows:
        print(row, flush=True)
    record("lossless", "speed", rows)


# --- 5. a model of a large picture ----------------------------------------------------------------


def _clock(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def model():
    """Seconds by the clock for the default model of a large picture."""
    rgb = np.asarray(Image.open(datasets.path("blue-marble")[0]).convert("RGB"))
    window = {"axis0": (1000, 1256), "axis1": (2000, 2256)}
    whole, small = (ef.fit(part, channel_axis=-1) for part in (rgb, rgb[:TILE, :TILE]))
    rows = []
    for label, used in WAYS.items():
        with tempfile.TemporaryDirectory() as folder, _loops(used):
            path = Path(folder) / "model.elm"
            ef.save(small, path)
            ef.load(path).samples()
            row = {"codec": label, "threads": n_threads()}
            row["save"] = _clock(lambda path=path: ef.save(whole, path))
            row |= {"bytes": path.stat().st_size, "open": _clock(lambda path=path: ef.load(path))}
            field = ef.load(path)
            row["window"] = _clock(lambda field=field: field.resize((256, 256), window=window))
            tiles = ef.load(path).model.blended.source_samples.tiles
            row["read"] = _clock(tiles.whole)
        rows.append(row)
        print(row, flush=True)
    record("lossless", "model", rows)


if __name__ == "__main__":
    sections = {"pictures": pictures, "arrays": arrays, "large": large, "speed": speed}
    main(__doc__, sections | {"model": model})
