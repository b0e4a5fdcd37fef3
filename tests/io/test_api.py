"""One door: what `fit`, `read` and `write` make of what a caller holds."""

import inspect
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import elmfield as ef
from elmfield.io.gridded import Gridded
from scans import plain_grid

RNG = np.random.default_rng(0)
PHOTO = RNG.integers(0, 256, (20, 24, 3), np.uint8)


def same(a, b):
    """Two fields are the same function, to the last bit."""
    assert a.domain.dims == b.domain.dims
    assert_array_equal(a.samples(), b.samples())
    assert_array_equal(a.resize((31, 37)), b.resize((31, 37)))


@pytest.fixture
def photo(tmp_path):
    ef.write(PHOTO, tmp_path / "photo.png", channel_axis=-1)
    return tmp_path / "photo.png"


# --- fit ------------------------------------------------------------------------------------------


def test_a_path_is_fitted_with_what_the_file_says(photo):
    field = ef.fit(photo)
    assert field.model.n_channels == 3
    assert field.labels.channels.labels == ["red", "green", "blue"]
    bare = ef.fit(PHOTO, channel_axis=2, dims=("row", "column"), samples="means")
    same(field, bare)
    same(ef.fit(str(photo)), bare)
    same(ef.fit(ef.read(photo)), bare)


def test_a_variable_of_a_file(tmp_path):
    a, b = RNG.random((2, 20, 24))
    np.savez(tmp_path / "both.npz", a=a, b=b)
    assert_allclose(ef.fit(tmp_path / "both.npz", variable="b").samples(), b, atol=1e-9)
    with pytest.raises(ValueError, match=r"holds 2 arrays .* say which one: variable='a'"):
        ef.fit(tmp_path / "both.npz")


def test_lists_and_masked_arrays():
    values = RNG.random((20, 24))
    same(ef.fit(values.tolist()), ef.fit(values))
    mask = values > 0.9
    same(ef.fit(np.ma.masked_array(values, mask)), ef.fit(values, mask=mask))


def test_channels_by_name_or_number():
    wide = ef.fit(PHOTO, channel_axis="colour", dims=("row", "column", "colour"))
    assert wide.domain.dims == ("row", "column")
    assert wide.model.channel_axis == 2
    assert wide.labels.channels.name == "colour"
    same(wide, ef.fit(PHOTO, channel_axis=-1, dims=("row", "column")))
    same(wide, ef.fit(PHOTO, channel_axis=-1, dims=("row", "column", "colour")))


def test_channels_of_a_file_by_name_or_number(tmp_path):
    np.savez(tmp_path / "x.npz", u=RNG.random((3, 20, 24)))
    one = ef.fit(tmp_path / "x.npz", channel_axis="axis0")
    assert one.model.channel_axis == 0
    assert one.domain.dims == ("axis1", "axis2")
    same(one, ef.fit(tmp_path / "x.npz", channel_axis=-3))


def test_a_file_with_channels_keeps_them(photo):
    same(ef.fit(photo, channel_axis=-1), ef.fit(photo))
    same(ef.fit(photo, channel_axis="colour"), ef.fit(photo))
    with pytest.raises(ValueError, match=r"must be 2 \('colour'\), where these .* got 0. Leave"):
        ef.fit(photo, channel_axis=0)


def test_periods_of_samples_can_be_said_otherwise():
    lon = 10.0 * np.arange(36)
    samples = Gridded(
        values=np.cos(np.deg2rad(lon)) * np.ones((20, 1)),
        dims=("y", "lon"),
        coords={"lon": lon},
        periods={"lon": 360.0},
    )
    assert ef.fit(samples).domain.periodic == (False, True)
    assert ef.fit(samples, periodic=()).domain.periodic == (False, False)
    assert ef.fit(samples, periodic={"lon": 400.0}).domain.axes[1].period == 400
    assert ef.fit(samples, periodic=0).domain.periodic == (True, False)


def test_one_real_signature_and_docstring():
    parameters = inspect.signature(ef.fit).parameters
    assert list(parameters)[:2] == ["values", "settings"]
    assert not any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in parameters.values())
    assert not hasattr(ef.fit, "__wrapped__")
    for name in parameters:
        assert name in ef.fit.__doc__


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"variable": "sst"}, TypeError, "`variable` names an array in a file; got variable='sst'"),
        ({"channel_axis": "band"}, ValueError, "names a dim, 'band', and an array has none"),
        ({"channel_axis": "b", "dims": ("y", "x")}, ValueError, r"one of the axes \['y', 'x'\]"),
        ({"channel_axis": "b", "dims": ("x",)}, ValueError, "must name all 2 axes, channels too"),
        ({"channel_axis": 2}, ValueError, "`channel_axis` must be an axis of the array, between"),
        ({"progress": "yes"}, TypeError, "`progress` must be True, False or a callable of"),
        ({"coords": {"z": [1.0]}}, ValueError, r"`coords` names \['z'\]"),
        ({"periodic": {"z": 3.0}}, ValueError, "`periodic` names .*'z'"),
    ],
)
def test_what_fit_refuses(options, error, message):
    with pytest.raises(error, match=message):
        ef.fit(np.eye(20), **options)


@pytest.mark.parametrize("name", ["dims", "coords"])
def test_labels_are_not_given_twice(photo, name):
    with pytest.raises(TypeError, match=f"`{name}` comes from the file itself; fit the bare"):
        ef.fit(photo, **{name: ("a", "b")})
    with pytest.raises(
        TypeError, match=f"`{name}` comes from the samples themselves; fit the bare"
    ):
        ef.fit(ef.read(photo), **{name: ("a", "b")})


def test_the_variables_of_a_dataset_must_lie_on_one_grid():
    xr = pytest.importorskip("xarray")
    ds = xr.Dataset({"sst": (("y", "x"), np.eye(20)), "line": ("y", np.arange(20.0))})
    with pytest.raises(ValueError, match=r"must lie on one grid; got sst \('y', 'x'\), line"):
        ef.fit(ds)
    with pytest.raises(ValueError, match="at least one variable of real numbers"):
        ef.fit(xr.Dataset({"name": ("y", ["a", "b"])}))
    with pytest.raises(TypeError, match="the variables of a Dataset are its channels"):
        ef.fit(ds[["sst"]], channel_axis=0)


def test_an_encoder_takes_samples_that_lie_where_its_own_do():
    x, values = 0.5 * np.arange(24), RNG.random((20, 24, 3))
    samples = Gridded(values=values, dims=("y", "x"), coords={"x": x}, channel_axis=2)
    encode = ef.encoder((20, 24, 3), channel_axis=2, dims=("y", "x"), coords={"x": x})
    same(encode(samples), ef.fit(samples))
    for other in (
        ef.encoder((20, 24, 3), channel_axis=2),
        ef.encoder((20, 24, 3), channel_axis=2, dims=("y", "x")),
        ef.encoder((20, 24, 3), channel_axis=2, dims=("y", "x"), coords={"x": x + 1}),
    ):
        with pytest.raises(ValueError, match="must lie where the encoder's samples do; got dims"):
            other(samples)


# --- read -----------------------------------------------------------------------------------------


def test_what_is_read_is_an_array_and_says_what_it_is(photo):
    samples = ef.read(photo)
    assert_array_equal(np.asarray(samples), PHOTO)
    assert np.asarray(samples, float).dtype == float
    assert repr(samples).splitlines() == [
        "Gridded: 20 × 24 × 3 uint8",
        "  row: 20",
        "  column: 24",
        "  colour: 3 channels: red, green, blue",
    ]


def test_coordinates_units_and_dates_are_shown():
    xr = pytest.importorskip("xarray")
    from elmfield.io.inputs import from_dataarray

    da = xr.DataArray(
        np.ones((2, 36), np.float32), name="sst", attrs={"units": "degC"}, dims=("time", "lon"),
        coords={
            "time": np.asarray(["2023-01-01", "2023-01-02T06"], "datetime64[ns]"),
            "lon": ("lon", 10.0 * np.arange(36), {"units": "degrees_east"}),
        },
    )  # fmt: skip
    assert repr(from_dataarray(da)).splitlines() == [
        "Gridded 'sst': 2 × 36 float32, degC",
        "  time: 2, 2023-01-01 to 2023-01-02T06:00:00",
        "  lon: 36, 0 to 350 degrees_east (periodic)",
    ]


@pytest.mark.parametrize("call", [ef.fit, ef.read])
def test_paths_that_lead_nowhere(call, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*nowhere\.png"):
        call(tmp_path / "nowhere.png")
    with pytest.raises(IsADirectoryError, match="is a folder; say which file in it"):
        call(tmp_path)
    (tmp_path / "x.png").mkdir()
    with pytest.raises(IsADirectoryError, match="is a folder; say which file in it"):
        call(tmp_path / "x.png")
    with pytest.raises(ValueError, match=r"files ending in '\.xyz' are not known; known: \.png"):
        call(Path("a.xyz"))
    for name in ("m.elm", "m.elm.zarr"):
        with pytest.raises(ValueError, match=f"{name} is a model, not samples; open it with load"):
            call(name)


def test_what_is_no_path():
    with pytest.raises(TypeError, match="`path` must be a text or a path; got a int"):
        ef.read(3)
    with pytest.raises(TypeError, match="`path` must be a text or a path; got a ndarray"):
        ef.write("x.png", np.eye(3))


# --- write ----------------------------------------------------------------------------------------


def test_a_field_is_written_as_its_input_was(photo, tmp_path):
    field = ef.fit(photo)
    assert ef.write(field, tmp_path / "same.png") is None
    assert_array_equal(np.asarray(ef.read(tmp_path / "same.png")), PHOTO)
    ef.write(field, tmp_path / "large.png", scale=2)
    assert_array_equal(
        np.asarray(ef.read(tmp_path / "large.png")), field.resize((40, 48), dtype="uint8")
    )
    ef.write(field, tmp_path / "wide.npy", shape=(10, 48), dtype="float32")
    assert_array_equal(
        np.asarray(ef.read(tmp_path / "wide.npy")), field.resize((10, 48), dtype="float32")
    )


def test_nodes_and_quantities(tmp_path):
    x = 0.5 * np.arange(20)
    field = ef.fit(3 * x, coords=[x], dims=["x"])
    ef.write(field, tmp_path / "nodes.npz", scale=2, align="nodes")
    nodes = ef.read(tmp_path / "nodes.npz", variable="values")
    assert_allclose(nodes.coords["x"], 0.25 * np.arange(39))
    assert_array_equal(nodes.values, field.grid(nodes.coords["x"]))
    ef.write(field, tmp_path / "slope.npy", quantity="gradient_magnitude")
    assert_allclose(np.load(tmp_path / "slope.npy"), np.abs(field.gradient(x[:, None]))[:, 0])


@pytest.mark.parametrize("quantity", ["gradient", "hessian"])
def test_vectors_are_no_samples_of_a_file(tmp_path, quantity):
    with pytest.raises(ValueError, match=f"a {quantity} has several. Ask for 'gradient_magnitude'"):
        ef.write(ef.fit(RNG.random((9, 9))), tmp_path / "x.npy", quantity=quantity)


def test_arrays_and_dataarrays_are_written(tmp_path):
    xr = pytest.importorskip("xarray")
    da = xr.DataArray(RNG.random((5, 7)), dims=("y", "x"), coords={"y": 2.0 * np.arange(5)})
    ef.write(da, tmp_path / "x.nc")
    assert_array_equal(ef.read(tmp_path / "x.nc").values, da)
    ef.write(da.values, tmp_path / "x.npy")
    assert_array_equal(ef.read(tmp_path / "x.npy").values, da)
    ef.write(np.ma.masked_array([[1, 2], [3, 4]], [[0, 1], [0, 0]]), tmp_path / "gaps.npy")
    assert_array_equal(np.load(tmp_path / "gaps.npy"), [[1, np.nan], [3, 4]])
    ef.write(np.asarray([[1.2, 300], [-4, 2.5]]), tmp_path / "whole.npy", dtype="uint8")
    assert_array_equal(np.load(tmp_path / "whole.npy"), [[1, 255], [0, 2]])


def test_a_reporter_hears_of_the_rendering(tmp_path):
    heard = []
    field = ef.fit(np.eye(20), progress=lambda *told: heard.append(told))
    ef.write(field, tmp_path / "x.npy", progress=lambda *told: heard.append(told))
    assert heard[0][0] == "fit"
    assert heard[-1] == ("render", 20, 20)


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("x.npy", {"scale": 2}, TypeError, "`scale` is for a Field; got ndarray. Fit one first"),
        ("x.npy", {"quantity": "gradient"}, TypeError, "`quantity` is for a Field"),
        ("x.npy", {"progress": "yes"}, TypeError, "`progress` must be True, False or a callable"),
        ("x.xyz", {}, ValueError, r"files ending in '\.xyz' are not known"),
        ("x.elm", {}, ValueError, r"x\.elm is a model's name; save a field with save\(field"),
        ("no/x.npy", {}, FileNotFoundError, "its folder does not exist"),
    ],
)
def test_what_write_refuses(tmp_path, name, options, error, message):
    with pytest.raises(error, match=message):
        ef.write(np.eye(20), tmp_path / name, **options)
    assert list(tmp_path.iterdir()) == []


def test_a_picture_of_three_axes_says_what_to_do(tmp_path):
    with pytest.raises(ValueError, match=r"two axes; got 3 .* holds colours: channel_axis=-1"):
        ef.write(PHOTO, tmp_path / "x.png")


@pytest.mark.parametrize("options", [{"scale": -1}, {"shape": (3,)}, {"align": "corners"}])
def test_grids_that_cannot_be(tmp_path, options):
    field = ef.fit(np.eye(20))
    with pytest.raises(ValueError, match=r"`(scale|size|shape|align)` must be"):
        ef.write(field, tmp_path / "x.npy", **options)
    assert list(tmp_path.iterdir()) == []


def test_channels_of_gridded_samples():
    samples = plain_grid(np.zeros((4, 5, 6)), ("a", "b", "c"))
    taken = samples.with_channels("b")
    assert (taken.dims, taken.shape, taken.channel_axis) == (("a", "c"), (4, 6), 1)
    assert taken.with_channels(1) is taken
    with pytest.raises(ValueError, match=r"one of the axes \['a', 'b', 'c'\], or a number between"):
        samples.with_channels("d")


# --- encoders of labelled arrays ------------------------------------------------------------------


def maps(n=3):
    """Maps of one grid, one after the other."""
    xr = pytest.importorskip("xarray")
    lat, lon = np.linspace(80, -80, 17), np.arange(0, 360, 10.0)
    time = np.datetime64("0850-01-01", "s") + np.arange(n) * np.timedelta64(6, "h")
    values = np.random.default_rng(0).random((n, 17, 36), np.float32)
    return xr.DataArray(
        values,
        dims=("time", "lat", "lon"),
        coords={"time": time, "lat": lat, "lon": lon},
        name="t2m",
        attrs={"units": "K"},
    )


def test_an_encoder_of_a_labelled_array_encodes_those_on_its_grid():
    xr, da = pytest.importorskip("xarray"), maps()
    encode = ef.encoder(da[0], ef.smooth(order=2))
    for one in da:
        field, alone = encode(one), ef.fit(one, ef.smooth(order=2))
        xr.testing.assert_identical(field.to_xarray(), one)
        assert field.domain == alone.domain
        assert field.domain.periodic == (False, True)
        assert_array_equal(field([[3.3, 40.0]]), alone([[3.3, 40.0]]))
    gaps = da[1].where(da[1] > 0.1)
    xr.testing.assert_identical(encode(gaps).to_xarray(), gaps)
    assert encode(da[0].values).shape == (17, 36)  # numbers alone too
    whole = ef.encoder(da)
    xr.testing.assert_identical(whole(da + 1).to_xarray(), (da + 1).assign_attrs(da.attrs))
    both = da.to_dataset()
    xr.testing.assert_identical(ef.encoder(both)(both).to_xarray(), both)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda da: da[:, ::2], "got time: 3, .* lat: 9, 80 to -80;"),
        (lambda da: da[0], "got lat: 17, 80 to -80; lon: 36, 0 to 350 \\(periodic\\). Fit it"),
        (lambda da: da.assign_coords(lat=da.lat + 1), "lat: 17, 81 to -79;"),
        (lambda da: da.rename(lat="y"), "y: 17, 80 to -80;"),
        (
            lambda da: da.assign_coords(time=da.time + np.timedelta64(1, "D")),
            r"the grid time: 3, 0850-01-01 to .*; got time: 3, 0850-01-02 to 0850-01-02T12:00:00;",
        ),
    ],
)
def test_arrays_on_another_grid_are_refused_with_both_grids(change, wanted):
    encode = ef.encoder(maps())
    with pytest.raises(ValueError, match=wanted):
        encode(change(maps()))


def test_an_encoder_takes_shapes_not_arrays():
    with pytest.raises(ValueError, match=r"one per axis; got .* Pass array.shape"):
        ef.encoder(np.zeros((3, 4)))
    with pytest.raises(ValueError, match="one per axis; got 'x'"):
        ef.encoder("x")
