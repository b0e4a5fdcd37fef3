"""Arrays that must come back as they went in, each from a seed: dtypes, shapes, gaps, and ways.

Ways are memory, both kinds of files, a stream, the xarray engine, a crop, Dask and labelled arrays.
And axes of dates and durations, of any unit and year.
"""

import warnings

import numpy as np

import elmfield as ef
from robust.damage import Hung, limited

DTYPES = (
    "?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16",
    ">i2", ">u4", ">i8", ">f4", ">f8", ">c16",
)  # fmt: skip
SETTINGS = (None, {"order": 1.1}, {"order": 2, "cell": 9}, {"order": 3, "mirrored": True})


def array(rng):
    """Numbers of any dtype and size, as far apart as the dtype has them; -0 among them."""
    d = int(rng.choice([1, 2, 2, 3, 4]))
    shape = tuple(int(n) for n in rng.integers(1, {1: 200, 2: 40, 3: 10, 4: 6}[d], d))
    dtype = np.dtype(str(rng.choice(DTYPES)))
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        info, part = np.iinfo(dtype), int(rng.choice([1, 7, 1000]))
        native = dtype.newbyteorder("=")
        found = rng.integers(info.min // part, info.max // part, shape, native, endpoint=True)
        return found.astype(dtype)
    most = float(np.log10(np.finfo(dtype).max)) - 4  # larger sums have no place in their dtype
    values = rng.standard_normal(shape) * 10.0 ** rng.uniform(-most, most)
    if rng.integers(2):
        values = values.flat[0] * (1 + 1e-6 * rng.standard_normal(shape))
    values.flat[0] = -0.0
    with np.errstate(all="ignore"):
        found = (values + 1j * values[::-1]) if dtype.kind == "c" else values
        return found.astype(dtype)


def same(got, values, there, exact):
    """Whether samples are bit for bit what was given, where there are some; in their dtype."""
    got = np.asarray(got)
    native = values.astype(values.dtype.newbyteorder("="))
    if exact and got.dtype != native.dtype:
        return f"{got.dtype} instead of {native.dtype}"
    if got.shape != native.shape:
        return f"{got.shape} instead of {native.shape}"
    wanted = native.astype(got.dtype)[there]
    return None if got[there].tobytes() == wanted.tobytes() else "other bits"


def ways(field, rng, folder):
    """Samples as they come back, and the part of the array that they are."""
    everything = (slice(None),) * len(field.shape)
    yield "samples", field.samples(missing="fill"), everything
    ends = [np.sort(rng.uniform(-0.5, n - 0.5, 2)) for n in field.shape]
    inner = tuple(slice(*np.ceil(e).astype(int)) for e in ends)
    crop = field.crop([e[0] for e in ends], [e[1] for e in ends])
    yield "crop", crop.samples(missing="fill"), inner
    yield "dask", field.samples(missing="fill", chunks={}).compute(scheduler="sync"), everything
    yield "xarray", field.to_xarray(missing="fill").values, everything
    for name in ("a.elm", "a.elm.zarr"):
        ef.save(field, folder / name)
        yield name, ef.load(folder / name).samples(missing="fill"), everything
    yield from engine(folder / "a.elm", rng, everything)


def engine(path, rng, everything):
    """What xarray makes of a file."""
    import xarray as xr

    with xr.open_dataset(path, engine="elmfield", missing="fill") as ds:
        (name,) = ds.data_vars
        yield "engine", ds[name].values, everything
        part = tuple(
            slice(int(rng.integers(0, n)), None, int(rng.choice([1, 2, 3]))) for n in ds[name].shape
        )
        yield "engine, a part", ds[name][part].values, part
        some = [xr.DataArray(rng.integers(-n, n, 9), dims="p") for n in ds[name].shape]
        picked = ds[name].isel(dict(zip(ds[name].dims, some)))
        yield "engine, points", picked.values, tuple(np.asarray(s) for s in some)


TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def dates(rng):
    """Dates or durations of any unit, rising or falling, even or not, close together or not."""
    unit = str(rng.choice(list(TICKS)))
    first = int(rng.integers(*((1700, 2150) if unit == "ns" else (-4000, 9999))))
    gap = 10.0 ** rng.uniform(0, np.log10(TICKS[unit] * 3e7))
    steps = np.full(11, int(gap)) if rng.integers(2) else rng.integers(1, int(gap) + 2, 11)
    ticks = np.cumsum(steps).astype(f"m8[{unit}]")
    found = ticks if rng.integers(5) == 0 else np.datetime64(f"{first:05d}", unit) + ticks
    return found[::-1] if rng.integers(3) == 0 else found


def one_calendar(seed, folder):
    """ "the same", or what is not."""
    import shutil

    import xarray as xr

    rng = np.random.default_rng(seed)
    time = dates(rng)
    da = xr.DataArray(rng.random((11, 3)), coords={"t": time}, dims=("t", "x"), name="a")
    settings, path = ef.smooth(order=2), folder / "d.elm.zarr"
    try:
        field = ef.fit(da, settings)
        shutil.rmtree(path, ignore_errors=True)
        ef.save(ef.fit(da[:7], settings), path)
        ef.save(field, folder / "d.elm")
        with xr.open_dataset(folder / "d.elm", engine="elmfield") as ds:
            opened = ds.t.values
        ends = np.sort(time[[2, 6]])
        told = {
            "memory": field.to_xarray().t.values,
            "file": ef.load(folder / "d.elm").to_xarray().t.values,
            "engine": opened,
            "append": ef.append(path, da[7:]).to_xarray().t.values,
            "crop": field.crop([ends[0], 0], [ends[1], 2]).to_xarray().t.values,
            "interp": field.interp(t=time[4:6]).t.values,
        }
    except Exception as error:
        return f"foreign: {type(error).__name__}: {error}"
    for how, got in told.items():
        wanted = {"crop": time[2:7], "interp": time[4:6]}.get(how, time)
        if got.dtype != wanted.dtype or not np.array_equal(got, wanted):
            return f"wrong: {how} of {time.dtype}, {time[0]}: {got[0]} {got.dtype}"
    return "the same"


def one_trip(seed, folder):
    """ "the same", or what is not."""
    rng = np.random.default_rng(seed)
    values = array(rng)
    there, options = np.ones(values.shape, bool), {}
    if rng.integers(3) == 0 and values.size > 3:
        there = rng.random(values.shape) < 0.8
        there.flat[0] = True
        if values.dtype.kind in "fc" and rng.integers(2):
            values[~there] = np.nan
        else:
            options["mask"] = ~there
    told = SETTINGS[int(rng.integers(len(SETTINGS)))]
    settings = ef.oriented() if rng.integers(4) == 0 else told and ef.smooth(**told)
    if isinstance(settings, ef.Oriented) and values.ndim > 3:
        settings = None
    given = np.asfortranarray(values) if rng.integers(2) else values
    try:
        with limited(120), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return _trip(given, values, there, settings, options, rng, folder)
    except Hung:
        return "hung"
    except Exception as error:
        return f"foreign: {type(error).__name__}: {error}"


def _trip(given, values, there, settings, options, rng, folder):
    # What is filled in may be a fraction, or have more digits than float16.
    exact = there.all() or (values.dtype.kind in "fc" and values.dtype.itemsize > 2)
    field = ef.fit(given, settings, **options)
    every = list(ways(field, rng, folder))
    if max(values.shape) >= 8:
        streamed = ef.fit(given, settings, out=folder / "s.elm", **options)
        every.append(("stream", streamed.samples(missing="fill"), ...))
    for how, got, part in every:
        wrong = same(got, values[part], there[part], exact)
        if wrong is not None:
            return f"wrong: {how} of {values.dtype} {values.shape}: {wrong}"
    return "the same"
