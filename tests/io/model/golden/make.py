"""Makes the golden model files, one for each kind of content, and what they answer.

python tests/io/model/golden/make.py   all of them anew: only when the format changes before 1.0
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

import elmfield as ef

HERE = Path(__file__).parent


def fields():
    """Return a field of every kind of content that the format has, by name."""
    y, x = np.mgrid[0:40, 0:50]
    values = 280 + 20 * np.sin(0.3 * y) * np.cos(0.17 * x) + 0.1 * x
    rgb = np.stack([values, values.T.reshape(values.shape), values[::-1]], axis=-1)
    place = [60 - 0.5 * np.arange(40), 7.2 * np.arange(50)]
    globe = {"dims": ("latitude", "longitude"), "coords": place}
    points = np.stack([y.ravel()[::9] * 1.0, x.ravel()[::9] * 1.0], axis=1)
    single = rgb.astype(np.float32)
    merged = ef.beam(values, cell=8, regions=9)
    return {
        "exact": ef.fit(values, ef.smooth(order=(1.3, 2.6)), periodic=("longitude",), **globe),
        "colours": ef.fit((rgb - 250).astype(np.uint8), channel_axis=-1),
        "complex": ef.fit(values + 1j * rgb[..., 1]).crop([3, 5], [30, 41]),
        "gaps": ef.fit(np.where(values > 290, np.nan, values).astype(np.float32), **globe),
        "coded": ef.fit(single, ef.smooth(psnr=40), channel_axis=-1),
        "bound": ef.fit(values, ef.smooth(max_error=0.1, mirrored=True), periodic=1),
        "oriented": ef.fit(values, ef.oriented(order=1.5), periodic=("longitude",), **globe),
        "ragged": ef.fit(single, ef.smooth(coefficients=900), channel_axis=-1),
        "dense": ef.fit(values, ef.smooth(order=1.5, cell=20, network=ef.Dense(900))),
        "paper": ef.fit(values, ef.paper(cell=20, width=64, activation="sin")),
        "merged": ef.fit(values, ef.paper(width=40), partition=merged),
        "line": ef.fit_points(points[::7, 1:] + points[::7, :1] / 50, values.ravel()[::63]),
        "kernels": ef.fit_points(points, rgb.reshape(-1, 3)[::9]),
    }


def main():
    rng = np.random.default_rng(1)
    expected = {}
    for name, field in fields().items():
        path = HERE / f"{name}.elm"
        field = ef.Field(replace(field.model, labels=ef.Labels(name=name, attrs={"units": "K"})))
        dtype = {
            "ragged": "float16",
            "dense": "float32",
            "paper": "float32",
            "merged": "float32",
        }.get(name)
        ef.save(field, path, dtype=dtype)
        field = ef.load(path)
        low, high = (np.asarray(c) for c in (field.domain.low, field.domain.high))
        index = low + (high - low) * rng.random((12, len(low)))
        points = np.stack(
            [a.from_index(index[:, k]) for k, a in enumerate(field.domain.axes)], axis=1
        )
        values = np.asarray(field(points))
        expected[name] = {
            "axes": list(field.domain.dims),
            "points": points.tolist(),
            "values": np.stack([values.real, values.imag], axis=-1).tolist(),
            "size": float(field.model.data_range),
        }
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
