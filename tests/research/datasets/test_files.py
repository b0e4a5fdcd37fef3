"""Where files are looked for, and how missing ones are fetched or made."""

import hashlib
import re
import socket
from dataclasses import replace

import numpy as np
import pytest

from paper.research import datasets
from paper.research.datasets import catalogue, files


def test_a_missing_file_is_fetched_once_and_kept(nowhere, server, offer, toy):
    values, sha256, place = toy
    offer(f"{server}/some.npy", sha256)
    told = []
    assert not datasets.present("toy")
    assert not (nowhere / "cache").exists()  # asking changes nothing
    got = datasets.load("toy", progress=lambda *report: told.append(report))
    np.testing.assert_array_equal(got, values)
    size = place.stat().st_size
    assert told[-1] == ("fetching toy.npy", size, size)
    assert len(told) > 5
    assert [d for _, d, _ in told] == sorted(d for _, d, _ in told)
    place.unlink()  # from now on only the cache has it
    np.testing.assert_array_equal(datasets.load("toy"), values)
    assert datasets.path("toy") == (nowhere / "cache" / "data" / "toys" / "toy.npy",)
    assert datasets.present("toy")


def test_the_named_folder_comes_before_the_cache(nowhere, server, offer, toy):
    values, sha256, _ = toy
    offer(f"{server}/some.npy", sha256)
    datasets.load("toy")
    own = nowhere / "data" / "toys" / "toy.npy"
    own.parent.mkdir()
    np.save(own, values + 1)
    with pytest.warns(UserWarning, match="checksum does not match"):
        np.testing.assert_array_equal(datasets.load("toy"), values + 1)
    assert datasets.path("toy") == (own,)


@pytest.fixture
def at_hand(nowhere, offer):
    """A toy in the data folder: its values, and where it lies."""
    place = nowhere / "data" / "toys" / "toy.npy"
    place.parent.mkdir()
    values = np.arange(90000.0).reshape(300, 300)
    np.save(place, values)
    offer(None, hashlib.sha256(place.read_bytes()).hexdigest())
    return values, place


def test_an_altered_file_is_read_with_a_warning(at_hand):
    values, place = at_hand
    np.testing.assert_array_equal(datasets.load("toy"), values)  # as it should be: no warning
    values[3, 4] = 7
    np.save(place, values)
    said = f"toy.npy in {re.escape(str(place.parent))} is not .* will not be the recorded ones"
    with pytest.warns(UserWarning, match=said) as told:
        np.testing.assert_array_equal(datasets.load("toy"), values)
    assert told[0].filename == __file__


def test_a_file_is_compared_once(at_hand, monkeypatch):
    seen, whole = [], hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda *a: seen.append(a) or whole(*a))
    for _ in range(3):
        datasets.load("toy")
    assert len(seen) == 1


@pytest.mark.parametrize("left", [100, 5000])
def test_a_truncated_file_is_named_with_its_folder(at_hand, left):
    _, place = at_hand
    place.write_bytes(place.read_bytes()[:left])
    said = f"{re.escape(str(place))} cannot be read: .*Its checksum does not match.*from a shop"
    with pytest.raises(ValueError, match=said):
        datasets.load("toy")


def test_a_file_of_another_shape_is_not_the_data_set(at_hand):
    """A WAV file that was cut off is read without complaint."""
    values, place = at_hand
    np.save(place, values[:200])
    said = r"its shape is \(200, 300\), not \(300, 300\)\. Its checksum does not match"
    with pytest.raises(ValueError, match=said):
        datasets.load("toy")


def test_a_package_that_is_missing_is_no_fault_of_the_file(at_hand, monkeypatch):
    _, place = at_hand
    place.write_bytes(b"other")

    def read(paths, prepare):
        raise ImportError("no package")

    altered = replace(datasets.about("toy"), read=read)
    monkeypatch.setitem(catalogue.CATALOGUE, "toy", altered)
    with pytest.raises(ImportError, match="no package"):
        datasets.load("toy")


def test_a_cache_that_is_a_file_is_named(nowhere, server, offer, toy):
    _, sha256, _ = toy
    offer(f"{server}/some.npy", sha256)
    (nowhere / "cache").write_text("not a folder")
    with pytest.raises(datasets.MissingDataError, match=r"cache is a file, not a folder\. Let ELM"):
        datasets.load("toy")


def test_a_wrong_file_is_not_kept(nowhere, server, offer, toy):
    _, _, place = toy
    sha256 = hashlib.sha256(place.read_bytes()).hexdigest()
    place.write_bytes(place.read_bytes()[:-1])
    offer(f"{server}/some.npy", sha256)
    with pytest.raises(datasets.MissingDataError, match=f"not the expected file.*{sha256}"):
        datasets.load("toy")
    assert [p for p in (nowhere / "cache").rglob("*") if p.is_file()] == []


def test_no_network_is_said_plainly(nowhere, offer):
    with socket.socket() as taken:  # a port on which nobody listens
        taken.bind(("127.0.0.1", 0))
        offer(f"http://127.0.0.1:{taken.getsockname()[1]}/some.npy")
        with pytest.raises(datasets.MissingDataError) as caught:
            datasets.load("toy")
    assert "could not be reached" in str(caught.value)
    assert "Is there a network?" in str(caught.value)
    assert str(nowhere / "cache" / "data" / "toys" / "toy.npy") in str(caught.value)
    assert [p for p in (nowhere / "cache").rglob("*") if p.is_file()] == []


def test_a_server_that_stops_answering_is_not_waited_for(nowhere, offer, monkeypatch):
    monkeypatch.setattr(files, "TIMEOUT", 0.2)
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        offer(f"http://127.0.0.1:{mute.getsockname()[1]}/some.npy")
        with pytest.raises(datasets.MissingDataError, match="could not be reached: timed out"):
            datasets.load("toy")


def test_a_refusal_is_quoted(nowhere, server, offer):
    offer(f"{server}/other.npy")
    with pytest.raises(datasets.MissingDataError, match="was refused: 404"):
        datasets.load("toy")


def test_without_an_address_the_message_says_where_to_get_it(nowhere, offer):
    offer(None)
    with pytest.raises(
        FileNotFoundError, match=r"'toy' is not at hand.*from a shop.*toys.toy\.npy"
    ):
        datasets.load("toy")


def test_a_folder_that_is_none_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("ELMFIELD_DATA", str(tmp_path / "typo"))
    with pytest.raises(datasets.MissingDataError, match=r"ELMFIELD_DATA names no folder: .*typo"):
        datasets.load("kodim05")


def test_what_cannot_be_fetched_is_taken_from_its_other_file(nowhere, server, offer, toy):
    values, sha256, _ = toy
    other = datasets.File("toys/other.npy", sha256, f"{server}/some.npy")
    offer(None, otherwise=(other,))
    np.testing.assert_array_equal(datasets.load("toy"), values)
    assert datasets.path("toy")[0].name == "other.npy"


def test_what_can_be_made_is_made_once(nowhere, monkeypatch):
    calls = []

    def write(path, progress):
        calls.append(path)
        np.savez(path, w=np.ones((4, 4, 2), np.float32))

    made = replace(datasets.about("navier-stokes"), make=write)
    monkeypatch.setitem(catalogue.CATALOGUE, "navier-stokes", made)
    assert not datasets.present("navier-stokes")
    for _ in range(2):
        assert datasets.load("navier-stokes").shape == (4, 4, 2)
    assert len(calls) == 1
    assert datasets.present("navier-stokes")
    assert len(list((nowhere / "cache").rglob("*.npz"))) == 1


def test_making_that_fails_leaves_nothing(nowhere, monkeypatch):
    def write(path, progress):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    made = replace(datasets.about("navier-stokes"), make=write)
    monkeypatch.setitem(catalogue.CATALOGUE, "navier-stokes", made)
    with pytest.raises(KeyboardInterrupt):
        datasets.load("navier-stokes")
    assert [p for p in (nowhere / "cache").rglob("*") if p.is_file()] == []


def test_a_progress_that_is_none_of_the_kinds_is_refused():
    with pytest.raises(TypeError, match="`progress` must be True, False or a callable"):
        datasets.load("mri", progress=3)
