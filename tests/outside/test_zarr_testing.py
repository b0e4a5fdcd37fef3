"""zarr.testing's strategies and state machine, on arrays in our codecs."""

import os

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

pytest.importorskip("zarr", minversion="3.1.6")

import zarr
from hypothesis.stateful import run_state_machine_as_test
from zarr.storage import MemoryStore
from zarr.testing import stateful, strategies

from elmfield.io.zarr import Codec, NumcodecsCodec

ASKED = "JUDGES" in os.environ
SETTINGS = settings(
    max_examples=200 if ASKED else 12,
    stateful_step_count=30,
    deadline=None,
    derandomize=not ASKED,
    suppress_health_check=list(HealthCheck),
)
USED = []  # arrays in our codecs


def is_number(dtype):
    return dtype.kind in "biufc" and dtype.itemsize <= (16 if dtype.kind == "c" else 8)


NUMBERS = strategies.dtypes().filter(is_number)
ARRAYS = NUMBERS.flatmap(lambda t: strategies.numpy_arrays(dtype=t))
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True, scope="module")
def ours():
    """`Group.create_array`, by which the strategies make arrays, with our codec in each format."""
    theirs = zarr.Group.create_array

    def create_array(self, *args, **options):
        codec = {"compressors": NumcodecsCodec()}
        if self.metadata.zarr_format == 3:
            codec = (
                {"serializer": Codec(), "compressors": None} if is_number(options["dtype"]) else {}
            )
        USED.extend(codec)
        return theirs(self, *args, **options | codec)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zarr.Group, "create_array", create_array)
        yield


def drawn(data, **options):
    """An array of Zarr and what it holds."""
    values = data.draw(options.pop("values", ARRAYS))
    return data.draw(strategies.arrays(arrays=st.just(values), **options)), values


def is_ours(array):
    found = array.metadata.to_dict()
    return "elmfield" in str(found.get("codecs", found.get("compressor")))


@SETTINGS
@given(data=st.data())
def test_array_roundtrip(data):
    array, values = drawn(data)
    assert is_ours(array)
    np.testing.assert_array_equal(array[:], values)


@SETTINGS
@given(data=st.data())
def test_zarr_2_with_any_dtype(data):
    array, values = drawn(data, values=strategies.numpy_arrays(), zarr_formats=st.just(2))
    np.testing.assert_array_equal(array[:], values)


@SETTINGS
@given(data=st.data())
def test_basic_indexing(data):
    array, values = drawn(data)
    indexer = data.draw(strategies.basic_indices(shape=values.shape))
    np.testing.assert_array_equal(array[indexer], values[indexer])
    new = data.draw(
        strategies.numpy_arrays(shapes=st.just(values[indexer].shape), dtype=values.dtype)
    )
    expected = values.copy()
    array[indexer] = expected[indexer] = new
    np.testing.assert_array_equal(array[:], expected)


@SETTINGS
@given(data=st.data())
def test_oindex(data):
    values = ARRAYS.filter(lambda a: a.ndim and a.size)
    array, values = drawn(data, values=values)
    theirs, numpys = data.draw(strategies.orthogonal_indices(shape=values.shape))
    np.testing.assert_array_equal(array.oindex[theirs], values[numpys])


class OurStore(MemoryStore):
    """The store whose arrays are in our codec; the machine's model keeps Zarr's own."""


def test_hierarchy_state_machine(monkeypatch):
    theirs = zarr.array
    USED.clear()

    def array(values, *, store, codecs, **options):  # up to Zarr 3.1; later it is create_array
        if isinstance(store, OurStore) and is_number(values.dtype):
            codecs = [Codec()]
            USED.append(codecs)
        return theirs(values, store=store, codecs=codecs, **options)

    monkeypatch.setattr(zarr, "array", array)
    run_state_machine_as_test(
        lambda: stateful.ZarrHierarchyStateMachine(OurStore()), settings=SETTINGS
    )
    assert len(USED) > 3
