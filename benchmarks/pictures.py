"""Pictures as cameras make them: enlarged, shifted; flat parts, colour noise, counts.

    python benchmarks/pictures.py                   everything
    python benchmarks/pictures.py enlarged shifted  some sections

Sections: enlarged, shifted, local, flat, colour, bands, counts, level, box_lines, cost. Each
rewrites its part of ``results/pictures.json``; ``benchmarks/tables.py`` makes the tables of
docs/images.md of it. What was chosen by looking (the box whose covariance turns channels apart, the
share of flat samples, that the default's order for means is the spectrum's exponent) was chosen on
scikit-image's pictures and Sentinel-2 tiles; Kodak's are scored.
"""

import time

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter, map_coordinates
from skimage import data, restoration, transform

import elmfield as ef
from common import main, record
from elmfield.fit.noise_model import noise_level
from measurement.rivals import filled
from paper.research.datasets import files

SIDE = 240
"""Pixels of the middle of each picture that are scored."""

BORDER = 8

OTHERS = ("camera", "astronaut", "coffee", "chelsea", "rocket", "brick", "grass", "gravel",
          "coins", "immunohistochemistry", "retina", "hubble_deep_field")  # fmt: skip
"""Pictures of scikit-image; its moon is one that was enlarged twice, linearly."""

PRESETS = {"default": ef.smooth(), "oriented": ef.oriented()}


def kodak():
    """Name and colours, 0 to 255, of the Kodak pictures."""
    for path in sorted((files.folders()[0] / "kodak").glob("*.png")):
        yield path.stem, np.asarray(Image.open(path), float)


def middle(picture, side=SIDE):
    i, j = ((n - side) // 2 for n in picture.shape[:2])
    return picture[i : i + side, j : j + side]


def grey(picture):
    return picture if picture.ndim == 2 else picture[..., :3] @ [0.299, 0.587, 0.114]


def pictures():
    """Grey pictures: whose, name, samples."""
    for name, picture in kodak():
        yield "Kodak", name, middle(grey(picture))
    for name in OTHERS:
        yield "scikit-image", name, middle(grey(np.asarray(getattr(data, name)(), float)))


def averaged(picture, r):
    return picture.reshape(len(picture) // r, r, -1, r).mean(axis=(1, 3))


def psnr(truth, found):
    inner = (slice(BORDER, -BORDER),) * 2
    return ef.psnr(truth[inner], found[inner], data_range=255)


def by_pillow(values, r, how):
    size = (values.shape[1] * r, values.shape[0] * r)
    return np.asarray(Image.fromarray(values.astype(np.float32)).resize(size, how), float)


def enlarged():
    """What was averaged over 2 x 2 or 3 x 3 pixels, enlarged again."""
    rows = []
    for whose, name, truth in pictures():
        for r in (2, 3):
            small = averaged(truth, r)
            row = {"of": whose, "data": name, "scale": r}
            row["bicubic"] = psnr(truth, by_pillow(small, r, Image.BICUBIC))
            row["Lanczos"] = psnr(truth, by_pillow(small, r, Image.LANCZOS))
            cubic = transform.resize(small, truth.shape, order=3, mode="reflect")
            row["scikit-image cubic"] = psnr(truth, cubic)
            for preset, settings in PRESETS.items():
                row[f"{preset}, points"] = psnr(truth, ef.fit(small, settings).resize(scale=r))
                large = ef.fit(small, settings, samples="means").resize(scale=r)
                row[f"{preset}, means"] = psnr(truth, large)
                off = np.abs(averaged(large, r) - small).max() / np.ptp(small)
                row[f"{preset}, averaged back"] = float(off)
            rows.append(row)
        print(rows[-1], flush=True)
    record("pictures", "enlarged", rows)


def shifted():
    """2 x 2 means, asked for those that lie half a pixel beside them."""
    rows = []
    for whose, name, truth in pictures():
        every = (truth[:-1] + truth[1:])[:, :-1] + (truth[:-1] + truth[1:])[:, 1:]
        every = every[: SIDE - 2, : SIDE - 2] / 4  # means at all places, half of them given
        given = every[::2, ::2]
        at = [np.arange(n) / 2 for n in every.shape]
        held = np.ones(every.shape, bool)
        held[::2, ::2] = False
        held[:16], held[-16:], held[:, :16], held[:, -16:] = False, False, False, False

        def score(found, every=every, held=held):
            return ef.psnr(every[held], found[held], data_range=255)

        row = {"of": whose, "data": name}
        grid = np.meshgrid(*at, indexing="ij")
        for label, order in (("linear", 1), ("cubic", 3), ("quintic", 5)):
            row[label] = score(map_coordinates(given, grid, order=order, mode="mirror"))
        for preset, settings in PRESETS.items():
            row[f"{preset}, points"] = score(ef.fit(given, settings).grid(*at))
            field = ef.fit(given, settings, samples="means")
            found = np.empty_like(every)
            for i in (0, 1):  # cells one sample wide, those between the samples apart
                for j in (0, 1):
                    some = field.grid(at[0][i::2], at[1][j::2])
                    found[i::2, j::2] = some
            row[f"{preset}, means"] = score(found)
        rows.append(row)
        print(row, flush=True)
    record("pictures", "shifted", rows)


ORDERS = (1.3, 1.6, 2.0, 2.4, 2.9)


def local():
    """What orders and presets chosen place by place could gain at most: the truth chooses.

    Each place takes the best of the answers of all orders and both presets around it, by the true
    error; no rule that sees the samples alone can choose better among them.
    """
    rows = []
    for whose, name, truth in pictures():
        for protocol, small, samples in (
            ("area", averaged(truth, 2), "means"),
            ("points", truth[::2, ::2], "points"),
        ):
            row = {"of": whose, "data": name, "protocol": protocol}
            at = [np.arange(n) / 2 for n in truth.shape]
            answers = {}
            for preset, make in (("default", ef.smooth), ("oriented", ef.oriented)):
                for order in ("auto", *ORDERS):
                    field = ef.fit(small, make(order=order), samples=samples)
                    large = field.resize(scale=2) if protocol == "area" else field.grid(*at)
                    answers[preset, order] = np.asarray(large)
            for preset in PRESETS:
                some = {key: found for key, found in answers.items() if key[0] == preset}
                row[preset] = psnr(truth, answers[preset, "auto"])
                row[f"{preset}, order chosen by the truth"] = psnr(truth, best_around(truth, some))
            row["all, chosen by the truth"] = psnr(truth, best_around(truth, answers))
            rows.append(row)
        print(rows[-1], flush=True)
    record("pictures", "local", rows)


def best_around(truth, answers):
    """The answer with the least squared error in some 40 pixels around each, place by place."""
    errors = [gaussian_filter((found - truth) ** 2, 12) for found in answers.values()]
    return np.choose(np.argmin(errors, axis=0), list(answers.values()))


def with_flat_parts():
    """Pictures with saturated or drawn parts, 0 to 255."""
    kodim = dict(kodak())
    y, x = np.mgrid[:128, :128]
    yield "kodim20, red", kodim["kodim20"][:128, :128, 0]
    yield "kodim20, blue", kodim["kodim20"][:128, :128, 2]
    yield "kodim03, saturated", np.minimum(kodim["kodim03"][200:328, 200:328, 0] * 1.6, 255)
    yield "kodim23, saturated", np.minimum(kodim["kodim23"][200:328, 300:428, 1] * 1.8, 255)
    yield "kodim12, saturated", np.minimum(kodim["kodim12"][:128, :128, 1] * 1.5, 255)
    yield "disc", 255.0 * ((y - 60) ** 2 + (x - 70) ** 2 < 40**2)
    yield "blocks", 20 + 200.0 * ((y // 24 + x // 24) % 2)
    yield "page", data.page()[:128, :128].astype(float)
    yield "horse", 255.0 * ~data.horse()[60:188, 60:188]
    yield "coins, black below 100", np.maximum(data.coins()[:128, :128].astype(float), 100)


def flat():
    """Exactly flat parts beside gaps, with and without half a grey of noise."""
    rows = []
    for name, truth in with_flat_parts():
        for share in (0.3, 0.5, 0.7, 0.8):
            rng = np.random.default_rng(0)
            gone = rng.random(truth.shape) < share
            row = {"data": name, "missing": share}
            for label, noise in (("as it is", 0.0), ("half a grey of noise", 1.0)):
                noisy = truth + noise * rng.uniform(-0.5, 0.5, truth.shape)
                field = ef.fit(np.where(gone, np.nan, noisy))
                row[label] = float(np.sqrt(np.mean((field.samples() - truth)[gone] ** 2)))
            if share in (0.3, 0.7):
                for label, found, _ in filled(truth, gone):
                    if label.startswith("griddata"):
                        row[label] = float(np.sqrt(np.mean((found - truth[gone]) ** 2)))
                filled_in = restoration.inpaint_biharmonic(truth, gone)
                row["biharmonic"] = float(np.sqrt(np.mean((filled_in - truth)[gone] ** 2)))
            rows.append(row)
        print(rows[-1], flush=True)
    record("pictures", "flat", rows)


BM3D_PICTURES = ("kodim05", "kodim20", "kodim23", "kodim24")


def colour():
    """White noise in colour pictures, middles of 256 pixels; CBM3D (package `bm3d`) on four."""
    try:
        from bm3d import bm3d_rgb
    except ImportError:
        bm3d_rgb = None
    rows = []
    for name, picture in kodak():
        clean = middle(picture, 256)
        for level in (5, 10, 25):
            noisy = clean + level * np.random.default_rng(0).standard_normal(clean.shape)
            row = {"data": name, "level": level}

            def score(found, clean=clean):
                return ef.psnr(clean, found, data_range=255)

            field = ef.fit(noisy, ef.oriented(order=1.1, denoise=float(level)), channel_axis=-1)
            row["ours"] = score(field.samples())
            alone = (ef.fit(noisy[..., k], ef.oriented(order=1.1, denoise=float(level))).samples()
                     for k in range(3))  # fmt: skip
            row["channel by channel"] = score(np.stack(list(alone), axis=-1))
            y = noisy / 255
            how = {"h": 0.8 * level / 255, "sigma": level / 255, "fast_mode": True}
            row["non-local means"] = score(
                255 * restoration.denoise_nl_means(y, channel_axis=-1, **how)
            )
            # Total variation by its best weight, which favours it.
            row["total variation"] = max(
                score(255 * restoration.denoise_tv_chambolle(y, weight=w * level / 255,
                                                             channel_axis=-1))
                for w in (0.5, 0.7, 1, 1.4)
            )  # fmt: skip
            if bm3d_rgb is not None and name in BM3D_PICTURES:
                row["CBM3D"] = score(bm3d_rgb(noisy, float(level)))
            rows.append(row)
        print(rows[-1], flush=True)
    record("pictures", "colour", rows)


def bands():
    """Unequal noise in 12 bands of Sentinel-2, and in 8 coils of a scanner."""
    import tifffile

    rows, found = [], {}
    for path in sorted((files.folders()[0] / "sentinel2").glob("s2_l2a*.tif")):
        values = tifffile.imread(path)
        found[path.stem[-8:]] = np.moveaxis(values, int(np.argmin(values.shape)), -1)[:160, :160]
    header = files.folders()[0] / "mri" / "brain_8coil_kspace_full.cfl"
    space = np.fromfile(header, np.complex64).reshape((8, 180, 230)).transpose(2, 1, 0)
    coils = np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(space, (0, 1)), axes=(0, 1)), (0, 1))
    found["8 coils"] = np.concatenate([coils.real, coils.imag], axis=-1)
    for name, values in found.items():
        clean = np.asarray(values, float)
        C = clean.shape[-1]
        rng = np.random.default_rng(0)
        level = clean.reshape(-1, C).std(axis=0) * rng.permutation(np.linspace(0.1, 0.5, C))
        noisy = clean + level * rng.standard_normal(clean.shape)

        def score(got, clean=clean, C=C):
            errors = ((got - clean) ** 2).reshape(-1, C).mean(axis=0)
            return float(np.mean(10 * np.log10(clean.reshape(-1, C).var(axis=0) / errors)))

        field = ef.fit(noisy, ef.oriented(order=1.1, denoise=level), channel_axis=-1)
        alone = [ef.fit(noisy[..., k], ef.oriented(order=1.1, denoise=level[k])).samples()
                 for k in range(C)]  # fmt: skip
        row = {"data": name, "noisy": score(noisy), "together": score(field.samples())}
        rows.append(row | {"band by band": score(np.stack(alone, axis=-1))})
        print(rows[-1], flush=True)
    record("pictures", "bands", rows)


def counts():
    """Poisson counts: by "poisson", beside Anscombe's transform with non-local means."""
    rows = []
    for name, picture in kodak():
        for peak in (5, 30, 100):
            clean = middle(grey(picture), 192) / 255 * peak
            given = np.random.default_rng(0).poisson(clean).astype(float)
            z = 2 * np.sqrt(given + 0.375)
            z = restoration.denoise_nl_means(z, h=0.8, sigma=1.0, fast_mode=True)
            a = 1.5**0.5
            back = z**2 / 4 + a / 4 / z - 11 / 8 / z**2 + 5 / 8 * a / z**3 - 1 / 8
            field = ef.fit(given, ef.oriented(order=1.1, denoise="poisson"))
            how = {"data_range": peak}
            row = {"data": name, "peak": peak, "poisson": ef.psnr(clean, field.samples(), **how)}
            row["Anscombe, non-local means"] = ef.psnr(clean, back, **how)
            rows.append(row)
        print(rows[-1], flush=True)
    record("pictures", "counts", rows)


def level():
    """The estimated level of white noise, on pictures with and without grain of their own.

    What is found in a picture as it is should be √(own² + added²), and its own noise is not known.
    A Gaussian of one pixel takes the grain off and leaves the picture: then the truth is known.
    """
    rows = []
    for name, picture in kodak():
        for grain, y in (("own", grey(picture)), ("none", gaussian_filter(grey(picture), 1.0))):
            row = {"data": name, "grain": grain}
            for s in (0, 1, 2, 5, 10, 25, 50):
                noise = s * np.random.default_rng(0).standard_normal(y.shape)
                row[str(s)] = float(noise_level((y + noise)[..., None])[0])
            rows.append(row)
            print(row, flush=True)
    record("pictures", "level", rows)


def box_lines():
    """Lines where boxes of the lossy codec meet, at 40 dB: before and after they are smoothed."""
    from codec_training.smoothing import lines
    from codec_training.tables import known
    from elmfield.codec.lossy import deblock
    from elmfield.codec.lossy.packing import rank_sizes
    from elmfield.codec.lossy.sections import write_boxes
    from elmfield.codec.lossy.transform import UNIT

    rows, weights = [], known()["smoothing2"]
    for name, picture in kodak():
        y, step = grey(picture), 8.0
        for _ in range(2):  # the second time nearly at 40 dB
            x = (y - y.mean())[None] / step
            size = rank_sizes(x)[0]
            _, coded = write_boxes(x, size)
            _, smoothed = deblock.choose_gains(x, coded, size, weights, 0.0)
            db = ef.psnr(x * step, smoothed * (step / UNIT), data_range=255)
            row = {"data": name, "dB": db, "uncoded": lines(x[0], size)}
            row |= {"coded": lines(coded[0], size), "smoothed": lines(smoothed[0], size)}
            step *= 10 ** ((db - 40) / 15)
        rows.append(row)
        print(row, flush=True)
    record("pictures", "box_lines", rows)


def cost():
    """Processor time of fits to 512 x 512 samples: means against points, colours against grey."""
    name, picture = next((n, p) for n, p in kodak() if n == "kodim05")
    square = grey(picture)[:512, :512]
    rows = []

    def least(work, times=5):
        spent = []
        for _ in range(times):
            start = time.process_time()
            work()
            spent.append(time.process_time() - start)
        return min(spent)

    for preset, settings in PRESETS.items():
        row = {"data": name, "preset": preset}
        for kind in ("points", "means"):
            row[f"fit, {kind}"] = least(lambda s=settings, k=kind: ef.fit(square, s, samples=k))
            field = ef.fit(square, settings, samples=kind)
            row[f"resize, {kind}"] = least(lambda f=field: f.resize(scale=2), 3)
        rows.append(row)
    noisy = picture[:256, :256] + 25 * np.random.default_rng(0).standard_normal((256, 256, 3))
    how = ef.oriented(order=1.1, denoise=25.0)
    grey_one = least(lambda: ef.fit(noisy[..., 0], how), 4)
    colours = least(lambda: ef.fit(noisy, how, channel_axis=-1), 4)
    rows.append({"data": name, "preset": "denoise", "grey": grey_one, "colours": colours})
    print(rows, flush=True)
    record("pictures", "cost", rows)


if __name__ == "__main__":
    main(__doc__, {
        "enlarged": enlarged, "shifted": shifted, "local": local, "flat": flat,
        "colour": colour, "bands": bands, "counts": counts, "level": level, "cost": cost,
        "box_lines": box_lines,
    })  # fmt: skip
