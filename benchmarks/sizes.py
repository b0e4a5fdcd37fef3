"""Bytes of models beside the files people have, lines at cell borders, and what a window reads.

    python benchmarks/sizes.py                 everything
    python benchmarks/sizes.py files lines     some sections

Sections: files, lines, access. Each rewrites its part of ``results/sizes.json``.
"""

import io
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

import elmfield as ef
from common import in_parts, main, record
from measurement.data import PHOTOGRAPHS
from paper.research import datasets
from paper.research.datasets.files import folders

FILES = {
    "kodim05, 768 × 512, colour": "kodak/kodim05.png",
    "kodim23, 768 × 512, colour": "kodak/kodim23.png",
    "Blue Marble, 4096 × 2048, colour": "large_image/blue_marble_4096x2048.jpg",
    "ERA5 t2m, 721 × 1440": "era5/era5_t2m_20230101T12_winter.nc",
    "ERA5 t2m, packed in 16 bits": "era5/era5_t2m_20190101T12_winter_packed_int16.nc",
    "brain T1, 176 × 188 × 144": "volume/brain_t1_gd_skullstripped_176x188x144.nii.gz",
    "heights, 359 × 367": "dem/dem_fort_worth_359x367.tif",
}

PSNR = 40

FOLDER = folders()[0]


def size(field, folder):
    """Bytes of a field's file, and seconds of processor time to write it."""
    began = time.process_time()
    ef.save(field, folder / "model.elm")
    return (folder / "model.elm").stat().st_size, time.process_time() - began


def png(values):
    """Bytes of an optimised PNG."""
    file = io.BytesIO()
    Image.fromarray(values).save(file, "png", optimize=True)
    return len(file.getvalue())


def jpeg(values, psnr):
    """Bytes of the smallest JPEG with at least this PSNR."""
    low, high, found = 20, 100, None
    while low <= high:
        quality = (low + high) // 2
        file = io.BytesIO()
        Image.fromarray(values).save(file, "jpeg", quality=quality, optimize=True)
        if ef.psnr(values, np.asarray(Image.open(file))) >= psnr:
            found, high = len(file.getvalue()), quality - 1
        else:
            low = quality + 1
    return found


def files():
    def row(label):
        path = FOLDER / FILES[label]
        samples = ef.read(path)
        values = np.asarray(samples.values)
        picture = values.dtype == np.uint8
        file = png(values) if path.suffix == ".jpg" else path.stat().st_size
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            exact, seconds = size(ef.fit(samples), folder)
            began = time.perf_counter()
            ef.load(folder / "model.elm")
            opened = time.perf_counter() - began
            coded = size(ef.fit(samples, ef.smooth(psnr=PSNR)), folder)[0]
        found = {"data": label, "kind": "PNG" if picture else path.suffix, "file": file}
        found |= {"samples": values.nbytes, "exact": exact, "coded": coded}
        found |= {"seconds": seconds, "opened": opened}
        return found | {"jpeg": jpeg(values, PSNR) if picture else None}

    in_parts("sizes", "files", [(label,) for label in FILES], row, psnr=PSNR)


# --- lines where cells meet ----------------------------------------------------------------------


CELL = 32
"""Samples between borders of the codec's largest boxes in pictures."""

MOVED = 13
"""Samples cut off in front, so that boxes lie elsewhere."""


def roughness(values, psnr, cut=0):
    """Second differences at borders over those elsewhere, magnified twice; one for each axis.

    With `cut`, at the same places of a picture that was cut before it was coded.
    """
    field = ef.fit(np.ascontiguousarray(values[cut:, cut:]), ef.smooth(psnr=psnr))
    large, found = field.resize(scale=2), []
    for axis in (0, 1):
        bends = np.moveaxis(np.abs(np.diff(large, 2, axis=axis)), axis, 0).mean(axis=1)
        borders = np.arange(CELL, values.shape[axis], CELL) - cut
        at = np.zeros(len(bends), bool)
        at[2 * borders - 2] = at[2 * borders - 1] = True  # centred on either side of a border
        found.append(float(bends[at].mean() / bends[~at].mean()))
    return found


def lines():
    """At borders; in the picture itself; and at the same places where boxes lie elsewhere."""
    from codec_training.tables import unseen  # `common` has put its folder on the path

    def row(name):
        values = np.round(datasets.load(PHOTOGRAPHS[name])).astype(np.uint8)
        found = {"data": name, "itself": roughness(values, None)}
        with unseen(name):
            for psnr in (40, 35):
                found[f"{psnr}"] = roughness(values, psnr)
                found[f"{psnr}, boxes elsewhere"] = roughness(values, psnr, MOVED)
        return found

    in_parts("sizes", "lines", [(name,) for name in PHOTOGRAPHS], row)


# --- a window of a large model --------------------------------------------------------------------


def access():
    rows = []
    values = np.asarray(ef.read(FOLDER / FILES["Blue Marble, 4096 × 2048, colour"]).values)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "model.elm"
        ef.save(ef.fit(values, channel_axis=-1), path)
        began = time.perf_counter()
        field = ef.load(path)
        opened = time.perf_counter() - began
        began = time.process_time()
        window = {"axis0": (1000, 1256), "axis1": (2000, 2256)}
        field.resize((256, 256), window=window)
        took = time.process_time() - began
        boxes = field.model.blended.source_samples
        read = sum(boxes.decoded.tiles.size(i) for i in boxes.decoded._kept)
        rows.append(
            {"samples": values.nbytes, "file": path.stat().st_size, "opened": opened}
            | {"window": took, "read": read}
        )
        print(rows[-1])
    record("sizes", "access", rows)


if __name__ == "__main__":
    main(__doc__, {"files": files, "lines": lines, "access": access})
