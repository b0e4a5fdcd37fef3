"""How the golden model files were made. Run once, with elmfield 0.1.0; never run again.

python tests/io/model/golden/make.py free.elm   a new kind of file; others are left alone

The older ones hold what the lines below gave at their time: those before `free.elm` pay for lines,
those before `oriented.elm` have coefficients.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

import elmfield as ef

HERE = Path(__file__).parent


def main():
    y, x = np.mgrid[0:40, 0:50]
    values = 280 + 20 * np.sin(0.3 * y) * np.cos(0.17 * x) + 0.1 * x
    rgb = np.stack([values, values.T.reshape(values.shape), values[::-1]], axis=-1)
    axes = {"dims": ("latitude", "longitude")}
    place = [60 - 0.5 * np.arange(40), 7.2 * np.arange(50)]
    places = np.stack([y.ravel()[::9] * 1.0, x.ravel()[::9] * 1.0], axis=1)
    merged = ef.beam(values, cell=8, regions=9)
    fields = {
        "smooth.elm": ef.fit(
            values, ef.smooth(order=(1.5, 2.0)), coords=place, periodic=("longitude",), **axes
        ),
        "target.elm": ef.fit(rgb.astype(np.float32), ef.smooth(max_error=0.5), channel_axis=-1),
        "paper.elm": ef.fit(values, ef.paper(cell=20, width=64, activation="sin")),
        "beam.elm": ef.fit(values, ef.paper(width=40), partition=merged),
        "mirrored.elm": ef.fit(values),  # format version 2
        "scattered.elm": ef.fit_points(places, values.ravel()[::9]),
        "free.elm": ef.fit(
            values, ef.smooth(order=(1.3, 2.6)), coords=place, periodic=("longitude",), **axes
        ),  # format version 3, as all that follow
        "free-target.elm": ef.fit(rgb.astype(np.float32), ef.smooth(psnr=50), channel_axis=-1),
        "free-dense.elm": ef.fit(values, ef.smooth(order=1.5, cell=20, network=ef.Dense(900))),
        "free-scattered.elm": ef.fit_points(places, values.ravel()[::9]),
        "oriented.elm": ef.fit(
            values, ef.oriented(order=1.5), coords=place, periodic=("longitude",), **axes
        ),  # samples, as all that follow
        "samples.elm": ef.fit((rgb - 250).astype(np.uint8), channel_axis=-1),
        "gaps.elm": ef.fit(
            np.where(values > 290, np.nan, values).astype(np.float32), coords=place, **axes
        ),
        "coded.elm": ef.fit(rgb.astype(np.float32), ef.smooth(psnr=40), channel_axis=-1),
        "bound.elm": ef.fit(values, ef.smooth(max_error=0.1), periodic=1),
        "kernels.elm": ef.fit_points(places, rgb.reshape(-1, 3)[::9]),
    }
    rng = np.random.default_rng(1)
    expected = json.loads((HERE / "expected.json").read_text())
    for name, field in ((name, fields[name]) for name in sys.argv[1:]):
        field = replace(
            field, attributes={"name": name[:-4], "attrs": {"units": "K"}, "align": "nodes"}
        )
        whole = field.blended.made_of is not None or name == "kernels.elm"
        narrow = "float16" if name.endswith("target.elm") else "float32"
        ef.save(field, HERE / name, dtype=None if whole else narrow)
        field = ef.load(HERE / name)
        low, high = (np.asarray(c) for c in (field.domain.low, field.domain.high))
        index = low + (high - low) * rng.random((12, 2))
        points = np.stack(
            [a.from_index(index[:, k]) for k, a in enumerate(field.domain.axes)], axis=1
        )
        expected[name] = {
            "name": name[:-4],
            "axes": list(field.domain.dims),
            "points": points.tolist(),
            "values": np.asarray(field(points), float).tolist(),
            "size": float(np.ptp(values)),
        }
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
