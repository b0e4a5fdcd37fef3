"""napari's reader: layers of models, lazily and at several scales, without napari."""

import tomllib
from importlib import import_module

import numpy as np
import pytest

import elmfield as ef
from elmfield.io.napari import COARSEST_PIXELS, MAX_CHUNKS, get_reader, layer_of, read_layers
from support import ROOT, close

pytest.importorskip("dask.array")


def read(path):
    return get_reader(str(path))(str(path))


@pytest.fixture
def waves():
    y, x = np.mgrid[0:40, 0:1100]
    return np.sin(0.05 * x) * np.cos(0.04 * y)


@pytest.mark.thorough
def test_a_model_is_one_layer_of_several_scales(waves, tmp_path):
    ef.save(ef.fit(waves), tmp_path / "waves.elm")
    [(arrays, options, kind)] = read(tmp_path / "waves.elm")
    assert kind == "image"
    assert options["name"] == "waves.elm"
    assert options["multiscale"]
    shapes = [a.shape for a in arrays]
    assert shapes == [(160, 4400), (80, 2200), (40, 1100), (20, 550), (10, 275)]
    field = options["metadata"]["field"]
    for array in arrays:
        size = np.array(field.shape) / array.shape  # of a pixel; means where that is more than 1
        rows, columns = ((np.arange(n) + 0.5) * s - 0.5 for n, s in zip(array.shape, size))
        near = np.asarray(array[3:6, 90:95])
        close(near, field.grid(rows[3:6], columns[90:95]), 1e-4 if size[0] <= 1 else 0.02)
    pixel = np.array([4, 1000])  # of the finest level; where napari has it, in samples
    place = np.array(options["translate"]) + pixel * options["scale"]
    close(np.asarray(arrays[0][4, 1000]), field(place), 1e-5)


def test_nothing_is_evaluated_before_it_is_seen(waves, monkeypatch):
    field, asked = ef.fit(waves), []
    from elmfield.field import grid_values

    real = grid_values.gridded

    def counted(model, x, *args, **options):
        if sizes := [len(c) for c in x if len(c)]:  # Dask looks at empty ones
            asked.append(sizes)
        return real(model, x, *args, **options)

    monkeypatch.setattr(grid_values, "gridded", counted)
    arrays, _, _ = layer_of(field)
    assert asked == []
    np.asarray(arrays[0][:8, :8])
    assert len(asked) == 1
    assert max(asked[0]) <= COARSEST_PIXELS


def test_only_the_last_axes_become_finer(rng):
    axes = {"z": 5.0 * np.arange(6), "y": 2.0 + 0.5 * np.arange(20), "x": -3.0 * np.arange(30)}
    given = ef.Gridded(values=rng.random((6, 20, 30)), dims=("z", "y", "x"), coords=axes)
    arrays, options, _ = layer_of(ef.fit(given))
    assert [a.shape for a in arrays] == [(6, 80, 120), (6, 40, 60), (6, 20, 30)]
    assert arrays[0].chunks[0] == (1,) * 6
    assert options["scale"] == [5.0, 0.125, 0.75]
    assert options["translate"] == [0.0, 2 - 0.1875, -1.125]


def test_many_slices_are_not_a_chunk_each():
    arrays, _, _ = layer_of(ef.fit(np.zeros((3 * MAX_CHUNKS, 2, 2), np.float32)))
    assert len(arrays[0].chunks[0]) <= MAX_CHUNKS


def test_pictures_are_coloured_and_other_channels_are_layers(rng):
    values = (255 * rng.random((3, 20, 30))).astype(np.uint8)
    arrays, options, _ = layer_of(ef.fit(values, channel_axis=0))
    assert options["rgb"]
    assert arrays[0].shape == (80, 120, 3)
    assert np.array_equal(np.asarray(arrays[2]), np.moveaxis(values, 0, -1))
    arrays, options, _ = layer_of(ef.fit(rng.random((20, 2, 30)), channel_axis=1), "bands")
    assert options["channel_axis"] == 1
    assert options["name"] == ["bands channel 0", "bands channel 1"]
    assert arrays[0].shape == (80, 2, 120)


def test_gaps_are_nan_and_complex_numbers_magnitudes(waves):
    values = np.where(waves > 0.9, np.nan, waves)
    arrays, _, _ = layer_of(ef.fit(ef.Gridded(values=values, dims=("y", "x"))))
    assert np.isnan(np.asarray(arrays[2])).sum() == np.isnan(values).sum()
    arrays, _, _ = layer_of(ef.fit(waves * np.exp(2j)))
    assert arrays[0].dtype.kind == "f"
    close(np.asarray(arrays[2][:5, :9]), np.abs(waves[:5, :9]), 1e-6)


@pytest.mark.parametrize(
    "path", ["photo.png", "", [], ["a.elm", "b.png"], None, 3, "elm", b"a.elm", [None]]
)
def test_what_is_no_model_is_left_to_others(path):
    assert get_reader(path) is None


def test_folders_are_read_too(waves, tmp_path):
    ef.save(ef.fit(waves[:, :40]), tmp_path / "a.elm.zarr")
    [(arrays, options, _)] = read(tmp_path / "a.elm.zarr")
    assert options["name"] == "a.elm.zarr"
    assert arrays[-1].shape == (40, 40)


def test_mistakes_are_told(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no model at .*gone\.elm"):
        read(tmp_path / "gone.elm")
    (tmp_path / "bad.elm").write_bytes(b"nothing")
    with pytest.raises(ef.StoreError, match=r"bad\.elm"):
        read(tmp_path / "bad.elm")
    ef.save(ef.fit(np.arange(50.0)), tmp_path / "sound.elm")
    with pytest.raises(ValueError, match=r"sound\.elm has one axis; use elmfield view"):
        read(tmp_path / "sound.elm")
    with pytest.raises(ValueError, match=r"`path` must end in \.elm or \.elm\.zarr; got 'a\.png'"):
        read_layers("a.png")
    with pytest.raises(TypeError, match="`path` must be a text or a path; got a list"):
        read_layers(["a.elm"])
    with pytest.raises(TypeError, match="`field` must be a Field; got a ndarray"):
        layer_of(np.eye(5))


def test_the_manifest_names_what_there_is():
    yaml = pytest.importorskip("yaml")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    package, _, file = project["entry-points"]["napari.manifest"]["elmfield"].partition(":")
    told = yaml.safe_load((ROOT / "src" / package / file).read_text(encoding="utf-8"))
    assert told["name"] == project["name"]
    [command], [reader] = told["contributions"]["commands"], told["contributions"]["readers"]
    assert reader["command"] == command["id"]
    module, _, name = command["python_name"].partition(":")
    assert getattr(import_module(module), name) is get_reader
    for pattern in reader["filename_patterns"]:
        assert get_reader(pattern.replace("*", "photo")) is not None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of npe2's own models
def test_npe2_takes_the_manifest():
    npe2 = pytest.importorskip("npe2", reason="npe2 is not installed")
    manifest = npe2.PluginManifest.from_file(ROOT / "src" / "elmfield" / "napari.yaml")
    manifest.validate_imports()
