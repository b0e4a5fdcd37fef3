"""The golden tiles of this folder: one of each kind, made once; run again to add new ones."""

import json
from pathlib import Path

import numpy as np

from elmfield.codec import pack, unpack

HERE = Path(__file__).parent


def arrays():
    """Small arrays by name, and the axis of their channels."""
    rng = np.random.default_rng(14)
    y, x = np.mgrid[:45, :60]
    picture = (90 + 60 * np.sin(x / 9) * np.cos(y / 7) + rng.normal(0, 2, y.shape)).astype(np.uint8)
    height = (30 * np.sin(x / 20) + y / 3 + rng.normal(0, 0.5, y.shape)).astype(np.float32)
    yield "grey", picture, None
    yield "colour", np.stack([picture, picture[::-1] // 2, 200 - picture], axis=-1), -1
    yield "volume", np.cumsum(rng.integers(-2, 3, (9, 12, 20)), axis=1).astype(np.int16), None
    yield "sequence", np.cumsum(rng.integers(-9, 10, (3, 5, 6, 30)), axis=-1).astype(np.int32), None
    yield "float", height, None
    yield "lattice", (250 + 0.01 * np.rint(100 * height)).astype(np.float32), None
    yield "gaps", np.where(x > 3 * y, np.nan, height).astype(np.float64), None
    yield "mask", picture > 90, None
    yield "wide", rng.integers(0, 2**63, (20, 30)).astype(np.uint64), None
    yield "stored", rng.integers(0, 256, 40).astype(np.uint8), None


def with_loss():
    """Small arrays by name, the axis of their channels, and what is asked of them."""
    exact = {name: (values, axis) for name, values, axis in arrays()}
    yield "step", *exact["grey"], {"step": 6.0}
    yield "bound", *exact["float"], {"max_error": 0.5}
    yield "gaps", exact["gaps"][0], None, {"step": 2.0}
    yield "colour", *exact["colour"], {"step": 9.0}
    yield "volume", *exact["volume"], {"step": 3.0}
    rough = np.random.default_rng(3).integers(0, 200, (30, 40)).astype(np.uint8)
    yield "lattice", rough, None, {"step": 2.9}
    yield "interpolated", exact["float"][0] + 900, None, {"max_error": 0.3, "effort": 1}
    gone = np.where(exact["gaps"][0] > 20, np.nan, exact["gaps"][0])
    yield "interpolated gaps", gone, None, {"max_error": 0.02, "effort": 1}
    yield "line", np.cumsum(np.sin(np.arange(300) ** 1.3 / 40)), None, {"step": 0.3}


if __name__ == "__main__":
    names = []
    for name, values, axis in arrays():
        names.append(name)
        if not (HERE / f"{name}.tile").exists():
            np.save(HERE / f"{name}.npy", values)
            (HERE / f"{name}.tile").write_bytes(pack(values, channel_axis=axis))
    (HERE / "expected.json").write_text(json.dumps(names) + "\n")
    file = HERE / "lossy.json"
    tiles = json.loads(file.read_text()) if file.exists() else {}
    for name, values, axis, asked in with_loss():
        if name not in tiles:
            data = pack(values, channel_axis=axis, **asked)
            samples = unpack(data)
            tiles[name] = {
                "bytes": data.hex(),
                "dtype": samples.dtype.name,
                "samples": samples.tobytes().hex(),
            }
    file.write_text(json.dumps(tiles, indent=1) + "\n")
