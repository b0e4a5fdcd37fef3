"""Arrays in our codec inside icechunk, VirtualiZarr, kerchunk, and xarray's appends and regions."""

import json

import numpy as np
import pytest

xr = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")
from elmfield.io.zarr import Codec, NumcodecsCodec  # noqa: E402

ERROR = 0.01
ENCODING = {"t": {"serializer": Codec(max_error=ERROR), "compressors": None}}


def frames(n, first=0):
    i, j, k = np.meshgrid(np.arange(first, first + n), np.arange(20), np.arange(30), indexing="ij")
    values = (280 + np.sin(i / 3) * np.cos(j / 5) * k).astype("float32")
    coords = {"time": np.arange(first, first + n), "x": np.arange(30.0)}
    return xr.Dataset({"t": (("time", "y", "x"), values)}, coords=coords)


def assert_near(found, truth):
    assert found.sizes == truth.sizes
    off = np.abs(found.t.values.astype(float) - truth.t.values)
    assert 0 < off.max() <= ERROR


def test_append_along_time(tmp_path):
    path = tmp_path / "a.zarr"
    frames(4).chunk(time=2).to_zarr(path, encoding=ENCODING, consolidated=False)
    frames(3, 4).to_zarr(path, append_dim="time", consolidated=False)
    assert_near(xr.open_zarr(path, consolidated=False), frames(7))


@pytest.mark.thorough
def test_regions_from_dask_chunks(tmp_path):
    dask = pytest.importorskip("dask")
    path, whole = tmp_path / "a.zarr", frames(6).chunk(time=2, y=10)
    whole.to_zarr(path, encoding=ENCODING, compute=False, consolidated=False)
    with dask.config.set(scheduler="threads"):
        for k in (0, 2, 4):
            part = whole[["t"]].isel(time=slice(k, k + 2)).drop_vars(["x", "time"])
            part.to_zarr(path, region={"time": slice(k, k + 2)}, consolidated=False)
    found = xr.open_zarr(path, consolidated=False)
    assert found.t.chunksizes["time"] == (2, 2, 2)
    assert_near(found, frames(6))


def test_the_copy_that_anyone_reads(tmp_path):
    frames(3).to_zarr(tmp_path / "a.zarr", encoding=ENCODING, consolidated=False)
    found = xr.open_zarr(tmp_path / "a.zarr", consolidated=False)
    found.drop_encoding().to_zarr(tmp_path / "b.zarr", consolidated=False)
    assert "elmfield" not in (tmp_path / "b.zarr" / "t" / "zarr.json").read_text()
    assert np.array_equal(xr.open_zarr(tmp_path / "b.zarr", consolidated=False).t, found.t)


@pytest.mark.filterwarnings("ignore")
def test_icechunk_keeps_versions_of_it():
    icechunk = pytest.importorskip("icechunk", reason="icechunk is not installed")
    repository = icechunk.Repository.create(icechunk.in_memory_storage())
    session = repository.writable_session("main")
    frames(4).chunk(time=2).to_zarr(session.store, encoding=ENCODING, consolidated=False)
    first = session.commit("four frames")
    session = repository.writable_session("main")
    frames(3, 4).to_zarr(session.store, append_dim="time", consolidated=False)
    session.commit("three more")
    for asked, n in (({"branch": "main"}, 7), ({"snapshot_id": first}, 4)):
        store = repository.readonly_session(**asked).store
        assert_near(xr.open_zarr(store, consolidated=False), frames(n))
        codecs = zarr.open_group(store, mode="r")["t"].metadata.to_dict()["codecs"]
        assert codecs[0]["name"] == "elmfield"


@pytest.mark.filterwarnings("ignore")
def test_virtualizarr_refers_to_its_chunks(tmp_path):
    # In icechunk; its writer of kerchunk's references leaves serializers of Zarr 3 out.
    virtualizarr = pytest.importorskip("virtualizarr", reason="VirtualiZarr is not installed")
    pytest.importorskip("arro3.core", reason="VirtualiZarr's extra `zarr` is not installed")
    icechunk = pytest.importorskip("icechunk", reason="icechunk is not installed")
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr.parsers import ZarrParser

    path, prefix = tmp_path / "a.zarr", f"file://{tmp_path}/"
    frames(4).chunk(time=2).to_zarr(path, encoding=ENCODING, consolidated=False)
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    virtual = virtualizarr.open_virtual_dataset(
        str(path), registry=registry, parser=ZarrParser(), loadable_variables=["time", "x"]
    ).vz.rename_paths(lambda old: f"file://{old.removeprefix('file:').removeprefix('//')}")
    config = icechunk.RepositoryConfig.default()
    chunks = icechunk.local_filesystem_store(str(tmp_path))
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, chunks))
    repository = icechunk.Repository.create(
        icechunk.in_memory_storage(), config, authorize_virtual_chunk_access={prefix: None}
    )
    session = repository.writable_session("main")
    virtual.vz.to_icechunk(session.store)
    session.commit("references")
    store = repository.readonly_session("main").store
    assert_near(xr.open_zarr(store, consolidated=False), frames(4))


@pytest.mark.filterwarnings("ignore")
def test_references_of_kerchunk_are_read(tmp_path):
    pytest.importorskip("kerchunk", reason="kerchunk is not installed")
    from kerchunk.zarr import single_zarr

    encoding = {"t": {"compressors": NumcodecsCodec(max_error=ERROR)}}
    path = tmp_path / "a.zarr"
    frames(4).chunk(time=2).to_zarr(path, encoding=encoding, zarr_format=2, consolidated=False)
    references = single_zarr(str(path))
    (tmp_path / "a.json").write_text(json.dumps(references))
    found = xr.open_dataset(str(tmp_path / "a.json"), engine="kerchunk", chunks={})
    assert_near(found, frames(4))
