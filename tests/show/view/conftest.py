"""Scenes to look at, a server for each, and a browser if there is one."""

import http.client
import json
import shutil
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from urllib.parse import urlsplit

import numpy as np
import pytest

import elmfield as ef
from elmfield.io.view_source import scene_of, written
from elmfield.show.pages import serve
from oracles.tile_bytes import unpacked

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


@pytest.fixture(scope="session")
def waves():
    """A smooth picture of numbers, 300 by 420: more than one tile, one level of means."""
    y, x = np.mgrid[0:300, 0:420]
    return np.sin(0.05 * x) * np.cos(0.04 * y) + 0.002 * x


@pytest.fixture(scope="session")
def picture():
    y, x = np.mgrid[0:90, 0:120]
    red, green = 128 + 100 * np.sin(0.1 * x), 90 + 60 * np.cos(0.002 * x * y)
    return np.stack([red, green, 120 + 40 * np.sin(0.3 * y)], -1).astype(np.uint8)


@pytest.fixture(scope="session")
def ocean():
    """Twelve months on a map that runs north, in dates and degrees, with an island."""
    xr = pytest.importorskip("xarray")
    lat, lon = -58 + 4.0 * np.arange(30), 6.0 * np.arange(60)
    month = np.arange(12)[:, None, None]
    warm = 20 * np.cos(np.deg2rad(lat))[:, None] + 3 * np.cos(np.deg2rad(3 * lon) + 0.5 * month)
    warm[:, (np.hypot(lat[:, None] - 30, lon - 100) < 20)] = np.nan
    return xr.DataArray(
        warm,
        coords={
            "time": np.datetime64("2023-01-15", "ns") + 30 * np.arange(12) * np.timedelta64(1, "D"),
            "latitude": ("latitude", lat, {"units": "degrees_north"}),
            "longitude": ("longitude", lon, {"units": "degrees_east"}),
        },
        dims=("time", "latitude", "longitude"),
        name="sst",
        attrs={"units": "degC"},
    )


class Client:
    """Asks a server, without a browser."""

    def __init__(self, served):
        self.url = served.url
        self.place = urlsplit(served.url)

    def get(self, path, *, method="GET", headers=None, body=None):
        to = http.client.HTTPConnection(self.place.hostname, self.place.port, timeout=60)
        try:
            to.request(method, path, headers=headers or {}, body=body)
            answer = to.getresponse()
            return SimpleNamespace(
                code=answer.status, headers=dict(answer.getheaders()), body=answer.read()
            )
        finally:
            to.close()

    def json(self, path, code=200):
        answer = self.get(path)
        assert answer.code == code, answer.body
        return json.loads(answer.body)

    def tile(self, level, row, column, **words):
        asked = "&".join(f"{k}={v}" for k, v in words.items())
        answer = self.get(f"/tile/{level}/{row}/{column}?{asked}")
        assert answer.code == 200, answer.body
        return unpacked(answer.body)


@pytest.fixture(scope="session")
def opened():
    """Serve what is given until the tests are done; a client and the scene."""
    running = []

    def call(values, settings=None, *, title=None, host="127.0.0.1", **options):
        scene = scene_of(values, settings, **options)
        scene = scene if title is None else replace(scene, title=title)
        served = serve(scene, partial(written, scene), host=host)
        running.append(served)
        client = Client(served)
        client.scene, client.field, client.served = scene, scene.field, served
        return client

    yield call
    for served in running:
        served.close()


@pytest.fixture(scope="session")
def small(waves):
    """A field that is quick to show."""
    return ef.fit(waves[:40, :40])


@pytest.fixture(scope="session")
def plain(opened, waves):
    return opened(waves, ef.smooth(order=2))


@pytest.fixture(scope="session")
def colours(opened, picture):
    return opened(picture, channel_axis=-1)


@pytest.fixture(scope="session")
def months(opened, ocean):
    return opened(ocean)


@pytest.fixture(scope="session")
def chromium():
    """A browser of the system's."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if found is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium)")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--force-color-profile=srgb"]
        )
        yield browser
        browser.close()
