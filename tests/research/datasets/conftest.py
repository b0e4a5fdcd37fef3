"""An empty data folder, a server, and a toy data set to fetch from it."""

import hashlib
import http.server
import threading

import numpy as np
import pytest

from paper.research import datasets
from paper.research.datasets import catalogue, prepare


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """An empty data folder and an empty cache."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("ELMFIELD_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("ELMFIELD_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def server(tmp_path):
    """An HTTP server of the folder www; its address."""
    (tmp_path / "www").mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(tmp_path / "www"))

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.fixture
def offer(monkeypatch):
    """Put a data set of one NumPy file into the catalogue."""

    def put(url, sha256="0" * 64, **words):
        file = datasets.File("toys/toy.npy", sha256, url)
        made = datasets.Dataset(
            "toy", "a toy", (300, 300), "extra", "none", "a shop", (file,), prepare.plain, **words
        )
        monkeypatch.setitem(catalogue.CATALOGUE, "toy", made)

    return put


@pytest.fixture
def toy(nowhere, server):
    """A file the server has: its values, its SHA-256, and where it lies."""
    values = np.arange(90000.0).reshape(300, 300)
    place = nowhere / "www" / "some.npy"
    np.save(place, values)
    return values, hashlib.sha256(place.read_bytes()).hexdigest(), place
