"""The model file: back bit for bit, small, lazy, atomic, readable by others."""

import errno
import gc
import hashlib
import json
import os
import subprocess
import sys
import textwrap
import weakref
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import elmfield as ef
from elmfield.domain import make_domain
from elmfield.field import Blended, Field, FromSamples, Group
from elmfield.field.coefficients.sample_boxes import SampleBoxes
from elmfield.field.coefficients.stored import Full, Ragged
from elmfield.field.coefficients.tiles import CodedTiles, Tiling, packed
from elmfield.field.coordinates.labels import AxisLabels
from elmfield.field.model import Model
from elmfield.io.model import coefficient_files, load, metadata, recipes
from elmfield.io.store.stores import ZipStore, open_store
from elmfield.local.bases import product_modes

RNG = np.random.default_rng(3)
ROUGH = RNG.standard_normal((45, 61)).cumsum(0).cumsum(1)
COLOUR = np.stack([ROUGH, ROUGH[::-1] ** 2, ROUGH[:, ::-1]], axis=-1)
GAPS = np.where(RNG.random(ROUGH.shape) < 0.2, np.nan, ROUGH)


def _fields():
    merged = ef.beam(ROUGH, cell=9, regions=12)
    lat = 90 - 2.5 * np.arange(45)
    lon = np.float32(0.4) * np.arange(61, dtype=np.float32)
    return {
        "smooth": ef.fit(ROUGH),
        "single": ef.fit(ROUGH.astype(np.float32)),
        "colour": ef.fit(COLOUR, channel_axis=-1),
        "first": ef.fit(np.moveaxis(COLOUR, -1, 0), channel_axis=0),
        "complex": ef.fit(ROUGH + 1j * ROUGH[::-1]),
        "gaps": ef.fit(GAPS),
        "paper": ef.fit(ROUGH, ef.paper(cell=11, width=90)),
        "dense": ef.fit(ROUGH, ef.smooth(network=ef.Dense(width=600, activation="sin"))),
        "coded": ef.fit(ROUGH, ef.smooth(psnr=45)),
        "bound": ef.fit(COLOUR.astype(np.float32), ef.smooth(max_error=9.0), channel_axis=-1),
        "bytes": ef.fit(ROUGH.astype(np.int16), ef.smooth(bytes=2000)),
        "target": ef.fit(ROUGH, ef.smooth(coefficients=900)),
        "targets": ef.fit(COLOUR, ef.smooth(coefficients=2000), channel_axis=-1),
        "oriented": ef.fit(ROUGH, ef.oriented(order=1.2)),
        "denoised": ef.fit(ROUGH, ef.smooth(denoise=True)),
        "beam": ef.fit(ROUGH, ef.paper(width=60), partition=merged),
        "beam smooth": ef.fit(ROUGH, partition=merged),
        "cropped": ef.fit(ROUGH).crop([5, 7], [30, 40]),
        "beam cropped": ef.fit(ROUGH, ef.paper(width=60), partition=merged).crop([5, 7], [30, 40]),
        "periodic": ef.fit(ROUGH, periodic=(1,)),
        "uneven": ef.fit(ROUGH, coords=[np.arange(45) ** 1.5, None], dims=("z", "x")),
        "single-precision axes": ef.fit(ROUGH, coords=[lat, lon], dims=("lat", "lon")),
        "scattered": ef.fit_points(RNG.random((300, 2)) ** 2, RNG.random((300, 2))),
        "scattered line": ef.fit_points(RNG.random((60, 1)), RNG.random(60)),
        "line": ef.fit(ROUGH[0]),
        "volume": ef.fit(RNG.random((9, 20, 11))),
        "one sample": ef.fit(np.ones((1, 1))),
        "constant": ef.fit(np.full((30, 30), 7.0), ef.smooth(psnr=60)),
    }


FIELDS = _fields()


def _points(field, n=60):
    low, high = np.asarray(field.domain.low), np.asarray(field.domain.high)
    x = low + (high - low) * np.random.default_rng(5).random((n, len(low)))
    return np.stack([a.from_index(x[:, k]) for k, a in enumerate(field.domain.axes)], axis=-1)


def _numbers(field):
    """Coefficients in region order, whatever holds them."""
    found = {}
    for group in field.model.blended.groups:
        for row, region in enumerate(group.regions):
            found[int(region)] = np.asarray(group.coefficients.take(np.asarray([row])))[0]
    return [found[k] for k in sorted(found)]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, "float64") for name in FIELDS),
        *((name, "float32") for name in ("smooth", "single", "gaps", "paper", "dense", "coded")),
        *((name, "float32") for name in ("targets", "oriented", "beam", "cropped", "scattered")),
        *((name, "float16") for name in ("smooth", "complex", "paper", "target", "oriented")),
    ],
)
def test_coefficients_come_back_bit_for_bit(tmp_path, name, dtype):
    field, path = FIELDS[name], tmp_path / "model.elm"
    if name in ("scattered", "scattered line") and dtype != "float64":
        with pytest.raises(ValueError, match="`dtype` must be 'float64' for scattered samples"):
            ef.save(field, path, dtype=dtype)
        return
    ef.save(field, path, dtype=dtype)
    back = ef.load(path)
    kind = np.float64 if dtype == "float64" else np.float32
    made = field.model.blended.source_samples is not None
    digits = max(np.finfo(dtype).eps, np.finfo(field.model.coefficient_dtype).eps)
    for a, b in zip(_numbers(field), _numbers(back), strict=True):
        if made and (dtype != field.model.coefficient_dtype or name == "oriented"):
            # Samples were rounded, and a box has 1444 of them; weights of members add to that.
            more = 1e4 if name == "oriented" else 40
            np.testing.assert_allclose(b, a, rtol=0, atol=more * digits * np.abs(a).max())
        else:
            assert_array_equal(a.astype(dtype).astype(kind), b)
    again = tmp_path / "again.elm"
    ef.save(back, again, dtype=dtype)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", FIELDS)
def test_the_function_comes_back(tmp_path, name):
    field, path = FIELDS[name], tmp_path / "model.elm"
    ef.save(field, path)
    x = _points(field)
    for back in (ef.load(path), ef.load(path, lazy=False)):
        assert back.domain.dims == field.domain.dims
        assert back.domain.low == field.domain.low
        assert back.domain.high == field.domain.high
        for a, b in zip(back.domain.axes, field.domain.axes):
            assert (a.size, a.period, a.step, a.origin) == (b.size, b.period, b.step, b.origin)
            assert (a.coords is None) == (b.coords is None)
            if a.coords is not None:
                assert_array_equal(a.coords, b.coords)
            assert (a.spacing is None) == (b.spacing is None)
        assert back.model.n_coefficients == field.model.n_coefficients
        assert back.model.index_cost == field.model.index_cost
        assert back.settings == field.settings
        assert back.model.input_dtype == field.model.input_dtype
        # A merged region's triangle is made again, from the same features: rounding differs.
        rounding = 1e-9 if name in ("beam", "beam cropped", "oriented") else 0
        size = np.abs(field(x)).max()
        np.testing.assert_allclose(back(x), field(x), rtol=0, atol=rounding * size)
        np.testing.assert_allclose(
            back.gradient(x), field.gradient(x), rtol=0, atol=rounding * 100 * size
        )
        if back.model.residual is not None:
            np.testing.assert_allclose(back.model.residual, field.model.residual, rtol=1e-7)
        else:  # it could be as long as coded samples
            assert field.model.residual is None or field.model.blended.source_samples.is_lossy


@pytest.mark.parametrize("name", ["target", "targets", "beam", "colour", "coded", "bound"])
def test_a_lazy_field_can_be_cropped(tmp_path, name):
    field, path = FIELDS[name], tmp_path / "model.elm"
    ef.save(field, path)
    part = ef.load(path).crop([5, 7], [20, 30])
    x = _points(part)
    digits = 1e-9 if field.dtype == np.float64 else 1e-5
    np.testing.assert_allclose(part(x), field(x), rtol=0, atol=digits * np.abs(field(x)).max())
    ef.save(part, tmp_path / "part.elm")
    np.testing.assert_allclose(
        ef.load(tmp_path / "part.elm")(x), field(x), rtol=0, atol=digits * np.abs(field(x)).max()
    )


def test_torch_fields_can_be_saved(tmp_path):
    torch = pytest.importorskip("torch")
    field = ef.fit(torch.from_numpy(ROUGH))
    ef.save(field, tmp_path / "model.elm")
    x = _points(FIELDS["smooth"])
    np.testing.assert_allclose(ef.load(tmp_path / "model.elm")(x), field(x).numpy(), atol=1e-9)


def test_attributes_come_back(tmp_path):
    attrs = {
        "units": "K",
        "valid_range": np.asarray([1.5, np.inf]),
        "n": np.int16(3),
        "z": 1 + 2j,
        "flag": True,
        "wait": np.timedelta64(90, "m"),
        "none": None,
    }
    epoch = np.datetime64("2023-01-01T12", "ns")
    labels = ef.Labels(attrs=attrs, axes={"t": AxisLabels(epoch=epoch)}, fill_value=float("nan"))
    ef.save(Field(replace(FIELDS["line"].model, labels=labels)), tmp_path / "model.elm")
    back = ef.load(tmp_path / "model.elm").labels
    assert back.attrs == {
        "units": "K",
        "valid_range": [1.5, np.inf],
        "n": 3,
        "z": 1 + 2j,
        "flag": True,
        "wait": np.timedelta64(5400, "s"),
        "none": None,
    }
    assert back.attrs["flag"] is True
    assert back.axes["t"].epoch == np.datetime64("2023-01-01T12")
    assert np.isnan(back.fill_value)


def test_provenance(tmp_path):
    ef.save(FIELDS["line"], tmp_path / "model.elm", source=ROUGH[0])
    origin = ef.load(tmp_path / "model.elm").labels.source
    assert origin["shape"] == [61]
    assert origin["dtype"] == "float64"
    assert origin["range"] == [ROUGH[0].min(), ROUGH[0].max()]
    assert origin["sha256"] == hashlib.sha256(ROUGH[0].tobytes()).hexdigest()
    meta = metadata.read_metadata(open_store(tmp_path / "model.elm"))
    assert meta.written_by == f"elmfield {ef.__version__}"
    assert meta.input_dtype == "float64"


def test_what_no_file_can_keep_is_refused(tmp_path):
    field = Field(replace(FIELDS["line"].model, labels=ef.Labels(attrs={"bad": object()})))
    with pytest.raises(TypeError, match="can be kept with a field; got a object"):
        ef.save(field, tmp_path / "model.elm")
    assert list(tmp_path.iterdir()) == []


# --- size -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("name", ["smooth", "colour", "paper", "dense", "volume"])
@pytest.mark.parametrize("compress", [True, False])
def test_files_are_hardly_larger_than_their_coefficients(tmp_path, name, dtype, compress):
    field, path = FIELDS[name], tmp_path / "model.elm"
    assert ef.save(field, path, dtype=dtype, compress=compress) is None
    assert (
        path.stat().st_size <= 1.02 * field.model.n_coefficients * np.dtype(dtype).itemsize + 4096
    )


def test_files_are_hardly_larger_than_what_is_kept(tmp_path):
    for name in ("coded", "bound", "bytes"):
        ef.save(FIELDS[name], tmp_path / "model.elm")
        assert (tmp_path / "model.elm").stat().st_size <= FIELDS[name].n_bytes + 2500
    for name in ("smooth", "single", "colour", "volume"):
        ef.save(FIELDS[name], tmp_path / "model.elm")
        assert (tmp_path / "model.elm").stat().st_size <= 1.01 * FIELDS[name].n_bytes + 2500


def test_regions_that_keep_different_modes_cost_their_index_too(tmp_path):
    rough = np.random.default_rng(0).standard_normal((400, 400)).cumsum(0).cumsum(1)
    field = ef.fit(rough, ef.smooth(coefficients=40_000))
    ef.save(field, tmp_path / "model.elm", dtype="float32")
    residuals = 4 * field.partition.n_regions
    bound = 4 * (field.model.n_coefficients + field.model.index_cost) + residuals
    assert (tmp_path / "model.elm").stat().st_size <= 1.02 * bound + 4096


# --- others can read it ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["smooth", "gaps", "colour", "first", "coded", "cropped"])
def test_zarr_itself_reads_the_samples(tmp_path, name):
    zarr = pytest.importorskip("zarr")
    pytest.importorskip("elmfield.io.zarr")
    field, path = FIELDS[name], tmp_path / "model.elm"
    ef.save(field, path)
    with zarr.storage.ZipStore(path, mode="r") as opened:
        root = zarr.open_group(opened, mode="r")
        said, values = root.attrs["elmfield"]["samples"], root["samples"][:]
        gone = root["missing"][:] if "missing" in said else np.zeros(1)
    truth = COLOUR if name in ("colour", "first") else ROUGH
    truth = truth[tuple(map(slice, said.get("low", [0, 0]), said.get("high", ROUGH.shape)))]
    if name == "gaps":
        assert_array_equal(gone != 0, np.isnan(GAPS))
        values, truth = values[gone == 0], truth[gone == 0]
    if name == "coded":
        assert 45 <= ef.psnr(truth, values) < 46
    else:
        assert_array_equal(values, truth)


@pytest.mark.parametrize("name", ["target", "beam", "scattered"])
def test_zarr_itself_reads_the_arrays(tmp_path, name):
    zarr = pytest.importorskip("zarr")
    field, path = FIELDS[name], tmp_path / "model.elm"
    ef.save(field, path)
    with zarr.storage.ZipStore(path, mode="r") as opened:
        root = zarr.open_group(opened, mode="r")
        meta = root.attrs["elmfield"]
        assert meta["version"] == 1
        values = root["coefficients"][:]
    back = ef.load(path)
    order = coefficient_files.file_order(back.partition)
    numbers = []
    for region in order:
        for group in back.model.blended.groups:
            at = np.flatnonzero(group.regions == region)
            if len(at):
                numbers.append(group.coefficients.numbers(at))
    assert_array_equal(values, np.concatenate(numbers))


def test_kernels_can_be_made_as_the_format_says(tmp_path):
    """A reader written from docs/format.md alone, at a point where one region speaks."""
    zarr = pytest.importorskip("zarr")
    field = FIELDS["scattered"]
    ef.save(field, tmp_path / "model.elm")
    with zarr.storage.ZipStore(tmp_path / "model.elm", mode="r") as opened:
        root = zarr.open_group(opened, mode="r")
        meta = root.attrs["elmfield"]
        c, positions, members, frames, counts = (
            root[name][:].astype(float)
            for name in ("coefficients", "positions", "members", "frames", "counts")
        )
        which = root["group"][:] if len(meta["groups"]) > 1 else np.zeros(len(frames), int)
    assert len(meta["groups"]) > 1
    cells, C = meta["partition"]["edges"], len(meta["offset"])
    regions = coefficient_files.file_order(field.partition)
    positions, frames, counts = positions.reshape(-1, 2), frames.reshape(-1, 4), counts[::C]
    for place, region in enumerate(regions):
        before, n = counts[:place].sum(), int(counts[place])
        modes = meta["groups"][which[region]]["modes"]
        q = (modes["degree"] + 1) * (modes["degree"] + 2) // 2
        gone = sum(
            (g["degree"] + 1) * (g["degree"] + 2) // 2
            for g in (meta["groups"][which[r]]["modes"] for r in regions[:place])
        )
        own = members[int(before - gone) :][: n - q].astype(int)
        centre, radius = frames[region, :2], frames[region, 2:]
        t, nodes = np.array([0.05, -0.02]), (positions[own] - centre) / radius
        a, w = np.split(c[int(before) * C :][: n * C].reshape(C, n), [q], axis=1)
        powers = [(i - j, j) for i in range(modes["degree"] + 1) for j in range(i + 1)]
        beta, r = modes["power"], np.linalg.norm(t - nodes, axis=1)
        psi = (-1) ** (beta // 2 + 1) * r**beta * (np.log(r) if beta % 2 == 0 else 1)
        values = a @ [t[0] ** i * t[1] ** j for i, j in powers] + w @ psi
        axes = meta["domain"]["axes"]
        x = [ax["origin"] + ax["step"] * v for ax, v in zip(axes, centre + t * radius)]
        expected = meta["offset"] + np.asarray(meta["scale"]) * values
        np.testing.assert_allclose(field([x])[0], expected, rtol=0, atol=1e-9)
    assert np.prod(cells) == len(regions)


@pytest.mark.parametrize("order", [1.7, 2.5])
def test_modes_can_be_made_as_the_format_says(tmp_path, order):
    """A reader written from docs/format.md alone: no code of ours but json, zip and Zarr."""
    zarr = pytest.importorskip("zarr")
    field = ef.fit(ROUGH, ef.smooth(order=order))
    ef.save(field, tmp_path / "model.elm")
    with zarr.storage.ZipStore(tmp_path / "model.elm", mode="r") as opened:
        root = zarr.open_group(opened, mode="r")
        meta, samples = root.attrs["elmfield"], root["samples"][:]
    box, orders = meta["groups"][0]["modes"]["box"], meta["groups"][0]["modes"]["orders"]
    shape = [axis["size"] for axis in meta["domain"]["axes"]]
    rows, boxes, projections = [], [], []
    at = (17, 23)  # a sample in the middle of a cell: one region speaks
    cells = []
    for n, count, x in zip(shape, meta["partition"]["edges"], at):
        edges = np.round(np.linspace(0, n, count + 1))
        cells.append(int(np.searchsorted(edges, x, side="right")) - 1)
    for k, (n, s) in enumerate(zip(box, orders)):
        T = np.eye(n)
        if s < 2:  # two more at either end
            slope = np.zeros(n)
            slope[:6] = (np.arange(6) - 2.5) / 17.5
            ahead = np.stack([T[1] - 3 * slope, T[0] - slope])
            T = np.vstack([ahead, T, ahead[::-1, ::-1]])

        def features(u, omega):
            phase = np.multiply.outer(u, omega)
            return np.concatenate([np.ones((*np.shape(u), 1)), 2**0.5 * np.cos(phase),
                                   2**0.5 * np.sin(phase)], axis=-1)  # fmt: skip

        def through(m, s=s, features=features):
            """ω, prices and A of m samples, and w and β of every value."""
            omega = 2 * np.pi * np.arange(1, int(np.floor(1.25 * m)) + 1) / (1.25 * m)
            price = (max(0.01, np.pi**2 * 10 ** (-12 / s)) + np.r_[0, omega, omega] ** 2) ** s
            v = np.arange(m) - (m - 1) / 2
            A, X = features(v, omega), np.stack([np.ones(m), v], axis=1)
            whole = np.block([[(A / price) @ A.T, X], [X.T, np.zeros((2, 2))]])
            return omega, price, A, np.linalg.solve(whole, np.eye(m + 2, m))

        energy = through(n)[3][:n]
        u = np.arange(n) - (n - 1) / 2
        lines = np.stack([np.ones(n), -u], axis=1) / [n**0.5, np.linalg.norm(u)]
        # Lines have no energy; a large one puts them last, out of the others' way.
        U = np.linalg.eigh((energy + energy.T) / 2 + 1e3 * lines @ lines.T)[1][:, :-2]
        U = np.hstack([lines, U * np.where(U[0] < 0, -1, 1)])
        omega, price, A, solved = through(len(T))
        size, c = shape[k], cells[k]
        edges = np.round(np.linspace(0, size, meta["partition"]["edges"][k] + 1))
        margin = int(np.ceil(meta["partition"]["overlap"][k] - 0.5)) + meta["partition"]["context"]
        beyond = margin if meta["partition"].get("mirrored", False) else 0
        first = min(max(edges[c] - margin, -beyond), size + beyond - n)
        u = at[k] - (first + (n - 1) / 2)
        rows.append(np.r_[(features(u, omega) / price) @ A.T, 1, u] @ solved @ T @ U)
        boxes.append(slice(int(first), int(first) + n))
        projections.append(U)
    Y = (samples[tuple(boxes)] - meta["offset"][0]) / meta["scale"][0]
    c = projections[0].T @ Y @ projections[1]
    value = meta["offset"][0] + meta["scale"][0] * rows[0] @ c @ rows[1]
    assert value == pytest.approx(ROUGH[at], abs=1e-8 * np.ptp(ROUGH))


# --- laziness -------------------------------------------------------------------------------------


class Counting:
    """A file that counts the bytes read from it."""

    def __init__(self, path):
        self.file, self.count = path.open("rb"), 0

    def read(self, n=-1):
        data = self.file.read(n)
        self.count += len(data)
        return data

    def seek(self, *where):
        return self.file.seek(*where)

    def tell(self):
        return self.file.tell()

    def seekable(self):
        return True

    def close(self):
        self.file.close()


class Repeated:
    """Coefficients of very many regions that take no memory: the same few again and again."""

    def __init__(self, shape):
        self.shape, self.n_stored = shape, int(np.prod(shape))
        few = np.random.default_rng(0).standard_normal((64, *shape[1:]))
        self.like = self.template = np.round(few, 1)  # packs well, so that the test writes fast

    index_bits = 0
    is_shared = True
    source_samples = box = None

    @property
    def counts(self):
        return np.full(self.shape[0], self.shape[1] * self.shape[2])

    def take(self, rows):
        return self.template[np.asarray(rows) % 64]

    def numbers(self, rows):
        return self.take(rows).reshape(-1)

    def ragged(self, rows):
        return None


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A file of 300 MB, were it not for how well it packs."""
    n = 4608
    part = ef.Partition.regular((n, n), 16, 2.0, equal_boxes=True)
    modes = product_modes((20, 20), (1.1, 1.1))
    first, size = part.boxes
    numbers = Repeated((part.n_regions, modes.n_modes, 1))
    assert numbers.n_stored * 8 > 2.5e8
    blended = Blended(
        partition=part,
        groups=(Group(model=modes, regions=np.arange(part.n_regions), coefficients=numbers),),
        centres=first + (size - 1) / 2,
        radii=np.ones(first.shape),
    )
    path = tmp_path_factory.mktemp("big") / "big.elm"
    field = Field(
        Model(domain=make_domain((n, n)), blended=blended, offset=np.zeros(1), scale=np.ones(1))
    )
    ef.save(field, path)
    return path, numbers


@pytest.mark.slow
def test_a_large_file_opens_at_once_and_a_window_reads_little(large):
    path, numbers = large
    file = Counting(path)
    field = load.read_field(ZipStore("big.elm", file))
    assert file.count < 0.001 * 8 * numbers.n_stored  # opening reads next to nothing
    rows, columns = np.arange(3000, 3128.0), np.arange(2000, 2128.0)
    values = field.grid(rows, columns)
    assert values.shape == (128, 128)
    assert file.count < 0.01 * path.stat().st_size
    # In terms of coefficients too, not only of this file's packed ones.
    read = sum(
        len(k._cache) * k.block for k in [field.model.blended.groups[0].coefficients.shelf.values]
    )
    assert read < 0.01 * numbers.n_stored


class SameTile:
    """Tiles of a large array that take no memory: one again and again."""

    def __init__(self, tile):
        self.tile = tile

    def __getitem__(self, number):
        return self.tile


@pytest.mark.parametrize(
    "ask",
    [
        lambda f: f([[3.2, 4.1]]), lambda f: f.grid([1.5], [2.0, 3.5]), lambda f: f.resize(scale=2),
        lambda f: f.means([1, 5, 9], [2, 8]), lambda f: f.std([[3.2, 4.1]]), lambda f: f.samples(),
        lambda f: f.gradient([[3.2, 4.1]]), lambda f: f.crop([1, 1], [9, 9]).resize(scale=3),
    ],
)  # fmt: skip
def test_a_field_and_its_file_go_when_nobody_holds_them(ask, tmp_path, rng):
    ef.save(ef.fit(rng.random((40, 30))), tmp_path / "a.elm")
    ask(ef.load(tmp_path / "a.elm"))  # what is kept of settings is made
    gc.disable()
    try:
        field = ef.load(tmp_path / "a.elm")
        ask(field)
        gone = weakref.ref(field.model.blended)
        del field
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.slow
def test_a_gigabyte_of_samples_opens_at_once_and_a_window_reads_little(tmp_path):
    """16384 x 16384 samples of float32, 1.07 GB."""
    n, side = 16384, 512
    rough = np.random.default_rng(0).integers(-3, 4, (side, side)).cumsum(0).astype(np.float32)
    small = ef.fit(rough)
    tiling = Tiling((0, 0, 0), (n, n, 1), (side, side, 1))
    coded = SampleBoxes(
        source=CodedTiles(SameTile(packed(rough[..., None])), tiling, "float32"), kind="float32",
        offset=small.model.offset, scale=small.model.scale, like=np.empty(0, np.float32),
    )  # fmt: skip
    part = ef.smooth().partition((n, n), (False, False))
    (group,) = small.model.blended.groups
    first, size = part.boxes
    every = np.arange(part.n_regions)
    numbers = FromSamples(boxes=coded, partition=part, regions=every, model=group.model)
    blended = Blended(
        partition=part,
        groups=(Group(model=group.model, regions=every, coefficients=numbers),),
        centres=first + (size - 1) / 2,
        radii=np.ones(first.shape),
    )
    field = Field(Model(
        domain=make_domain((n, n)), blended=blended,
        offset=small.model.offset, scale=small.model.scale,
        input_dtype="float32",
    ))  # fmt: skip
    path = tmp_path / "big.elm"
    ef.save(field, path)
    file = Counting(path)
    field = load.read_field(ZipStore("big.elm", file))
    assert file.count < 0.02 * path.stat().st_size
    values = field.grid(np.arange(3000, 3256.0), np.arange(5000, 5256.0))
    truth = rough[np.ix_(np.arange(3000, 3256) % side, np.arange(5000, 5256) % side)]
    np.testing.assert_allclose(values, truth, rtol=0, atol=1e-5 * np.ptp(rough))
    assert file.count < 0.02 * path.stat().st_size
    assert len(field.model.blended.source_samples.tiles._kept) <= 4
    # Points and crops too.
    field = ef.load(path)
    field([[7000.5, 9000.25]])
    field.crop([12000.0, 100.0], [12010.0, 110.0]).samples()
    assert len(field.model.blended.source_samples.tiles._kept) == 2


def test_opening_reads_no_coefficients(tmp_path):
    ef.save(FIELDS["colour"], tmp_path / "model.elm")
    file = Counting(tmp_path / "model.elm")
    field = load.read_field(ZipStore("model.elm", file))
    held = field.model.blended.groups[0].coefficients.source_samples.tiles
    assert not held._kept
    assert "model" not in vars(field.model.blended.groups[0].model)
    field(_points(field))
    assert held._kept


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are a Unix matter")
def test_forked_processes_read_one_file_at_once(tmp_path):
    import multiprocessing

    path = tmp_path / "model.elm"
    ef.save(FIELDS["colour"], path)
    FORKED["field"] = ef.load(path)
    expected = FIELDS["colour"](_points(FIELDS["colour"]))
    with multiprocessing.get_context("fork").Pool(4) as pool:
        for found in pool.map(_ask_in_a_fork, range(16)):
            assert_array_equal(found, expected)


FORKED = {}


def _ask_in_a_fork(_):
    field = FORKED["field"]
    return ef.Field.__call__(field, _points(field))


def test_an_open_field_survives_its_file(tmp_path):
    path = tmp_path / "model.elm"
    ef.save(FIELDS["smooth"], path)
    field = ef.load(path)
    ef.save(FIELDS["line"], path)
    x = _points(field)
    assert_array_equal(field(x), FIELDS["smooth"](x))


def test_a_lazy_field_can_be_saved_over_itself(tmp_path):
    for name in ("model.elm", "model.elm.zarr"):
        path = tmp_path / name
        ef.save(FIELDS["targets"], path)
        ef.save(ef.load(path), path)
        x = _points(FIELDS["targets"])
        assert_array_equal(ef.load(path)(x), FIELDS["targets"](x))


# --- places ---------------------------------------------------------------------------------------


def test_a_folder_holds_the_same(tmp_path):
    ef.save(FIELDS["targets"], tmp_path / "model.elm.zarr")
    sizes = open_store(tmp_path / "model.elm.zarr").sizes()
    for name, size in sizes.items():
        assert (tmp_path / "model.elm.zarr" / name).stat().st_size == size
    assert "zarr.json" in sizes
    x = _points(FIELDS["targets"])
    assert_array_equal(ef.load(tmp_path / "model.elm.zarr")(x), FIELDS["targets"](x))
    ef.save(FIELDS["smooth"], tmp_path / "model.elm.zarr")  # in place of the old one
    x = _points(FIELDS["smooth"])
    assert_array_equal(ef.load(tmp_path / "model.elm.zarr")(x), FIELDS["smooth"](x))
    assert [p.name for p in tmp_path.iterdir()] == ["model.elm.zarr"]


@pytest.mark.parametrize("name", ["model.elm", "model.elm.zarr"])
def test_urls(name):
    pytest.importorskip("fsspec")
    field = FIELDS["target"]
    for _ in range(2):  # the second replaces the first
        ef.save(field, f"memory://there/{name}")
    x = _points(field)
    assert_array_equal(ef.load(f"memory://there/{name}")(x), field(x))
    with pytest.raises(FileNotFoundError, match="no model at memory://there/other"):
        ef.load("memory://there/other.elm")


def test_a_zip_of_the_folder_is_a_model(tmp_path):
    ef.save(FIELDS["target"], tmp_path / "model.elm.zarr")
    with zipfile.ZipFile(tmp_path / "packed.elm", "w", zipfile.ZIP_STORED) as archive:
        for file in sorted((tmp_path / "model.elm.zarr").rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(tmp_path / "model.elm.zarr").as_posix())
    x = _points(FIELDS["target"])
    assert_array_equal(ef.load(tmp_path / "packed.elm")(x), FIELDS["target"](x))


def test_unknown_targets_are_refused_and_leave_nothing(tmp_path):
    with pytest.raises(ef.StoreError, match="its folder does not exist"):
        ef.save(FIELDS["line"], tmp_path / "no" / "model.elm")
    (tmp_path / "taken.elm").mkdir()
    with pytest.raises(ef.StoreError, match="there is a folder of that name"):
        ef.save(FIELDS["line"], tmp_path / "taken.elm")
    with pytest.raises(ValueError, match="`dtype` must be"):
        ef.save(FIELDS["line"], tmp_path / "model.elm", dtype="int8")
    with pytest.raises(ValueError, match=r"`path` must end in \.elm or .*; got 'x\.npy'\.$"):
        ef.save(FIELDS["line"], tmp_path / "x.npy")
    with pytest.raises(
        ValueError, match=r"torch\.save\(field\.module\(\)\.state_dict\(\), 'x\.pt'\)"
    ):
        ef.save(FIELDS["line"], tmp_path / "x.pt")
    with pytest.raises(FileNotFoundError, match="no model at"):
        ef.load(tmp_path / "model.elm")
    assert [p.name for p in tmp_path.iterdir()] == ["taken.elm"]


def test_coefficients_beyond_float16_are_refused(tmp_path):
    field = FIELDS["line"]
    group = field.model.blended.groups[0]
    every = group.coefficients.take(np.arange(len(group.regions)))
    huge = replace(group, coefficients=Full(1e9 * every))
    field = Field(replace(field.model, blended=replace(field.model.blended, groups=(huge,))))
    with pytest.raises(ValueError, match="exceed what float16 holds"):
        ef.save(field, tmp_path / "model.elm", dtype="float16")
    assert list(tmp_path.iterdir()) == []


# --- interruptions --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model.elm", "model.elm.zarr"])
@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError(errno.ENOSPC, "No space left")])
def test_an_interrupted_save_leaves_the_old_file(tmp_path, name, failure):
    path = tmp_path / name
    ef.save(FIELDS["line"], path)

    def stop(stage, done, total):
        raise failure

    expected = KeyboardInterrupt if failure is KeyboardInterrupt else ef.StoreError
    with pytest.raises(expected):
        ef.save(FIELDS["smooth"], path, progress=stop)
    assert [p.name for p in tmp_path.iterdir()] == [name]
    x = _points(FIELDS["line"])
    assert_array_equal(ef.load(path)(x), FIELDS["line"](x))


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "fork"), reason="limits on file sizes are a Unix matter")
def test_a_full_disk_leaves_no_half_file(tmp_path):
    """A limit on file sizes stands in for a full disk: the same write fails in the same place."""
    script = """
        import resource, signal, sys
        import numpy as np, elmfield as ef
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        field = ef.fit(np.random.default_rng(0).standard_normal((200, 200)))
        sys.dont_write_bytecode = True  # compiled modules would end at the limit
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            ef.save(field, sys.argv[1])
        except ef.StoreError as error:
            print(error)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "model.elm")],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "cannot write" in ran.stdout, ran.stderr
    assert "Nothing was left behind" in ran.stdout
    assert list(tmp_path.iterdir()) == []


# --- years later ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_golden_files_still_open(golden):
    """Made by golden/make.py, one of each kind: what could be read must stay readable."""
    expected = json.loads((golden / "expected.json").read_text())
    for name, kept in expected.items():
        field = ef.load(golden / f"{name}.elm")
        values = np.asarray(field(np.asarray(kept["points"])))
        values = np.stack([values.real, values.imag], axis=-1)
        np.testing.assert_allclose(values, kept["values"], rtol=0, atol=1e-5 * kept["size"])
        assert field.labels.name == name
        assert list(field.domain.dims) == kept["axes"]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["Nehalem", "SkylakeX"])
def test_the_golden_files_open_with_other_linear_algebra(golden, kernel):
    """OpenBLAS rounds differently on other processors; modes must come out in the same order."""
    script = """
        import json, pathlib, sys, numpy as np, elmfield as ef
        golden = pathlib.Path(sys.argv[1])
        for name, kept in json.loads((golden / "expected.json").read_text()).items():
            ef.load(golden / f"{name}.elm")(np.asarray(kept["points"]))
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(golden)],
        capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "OPENBLAS_CORETYPE": kernel},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr


@pytest.fixture
def golden(request):
    return request.path.parent / "golden"


@pytest.mark.parametrize(("low", "high"), [(7, 10), (2, 15), (0, 17)])
def test_a_merged_region_cut_on_both_sides_can_be_read_again(low, high, tmp_path):
    edges, labels = np.array([0, 6, 12, 18]), np.array([0, 0, 0])
    part = ef.Partition.of((18,), (edges,), labels)
    whole = ef.fit(np.sin(np.arange(18.0)), ef.paper(width=10), partition=part)
    cut = whole.crop([low], [high])
    ef.save(cut, tmp_path / "cut.elm")
    x = np.linspace(low, high, 20)[:, None]
    np.testing.assert_allclose(ef.load(tmp_path / "cut.elm")(x), cut(x), rtol=0, atol=1e-12)


def test_settings_of_another_version_do_not_stop_a_reader():
    kept = {"made": "Smooth", "order": 1.1, "from_the_future": 3}
    assert recipes.settings_from_plain(kept) == kept
    assert recipes.settings_from_plain({"made": "os.system", "x": 1}) == {
        "made": "os.system",
        "x": 1,
    }
    for field in FIELDS.values():
        kept = json.loads(json.dumps(recipes.settings_to_plain(field.settings)))
        assert recipes.settings_from_plain(kept) == field.settings


def test_nothing_is_pickled(tmp_path):
    ef.save(FIELDS["targets"], tmp_path / "model.elm")
    script = """
        import sys, pickle
        def refuse(*_, **__): raise AssertionError("pickle was used")
        pickle.load = pickle.loads = pickle.Unpickler = refuse
        import elmfield as ef
        print(ef.load(sys.argv[1]).samples().shape)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "model.elm")],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ran.stdout.strip() == "(45, 61, 3)", ran.stderr


def test_ragged_is_what_target_fields_keep():
    assert isinstance(FIELDS["targets"].model.blended.groups[0].coefficients, Ragged)
