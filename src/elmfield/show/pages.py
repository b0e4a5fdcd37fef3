"""The page: served, for this machine only by default, until it is closed; or written as files.

A page as files needs no server. Facts and tiles are scripts: a page that was opened as a file may
load those, and nothing else. Numbers are kept in 16 bits from each tile's lowest to its highest,
compressed, in base 64. As many levels go in as fit the size that is asked for: the whole picture
first, then closer and closer.
"""

import base64
import gzip
import ipaddress
import json
import lzma
import math
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib.resources import files
from typing import Any

import numpy as np

from elmfield._array.progress import silent
from elmfield._array.typing import Progress
from elmfield.errors import need
from elmfield.show.layers import Look, Write, series
from elmfield.show.scene import METHODS, Scene
from elmfield.show.view_tiles import Tiles, pack_floats, pack_short

LOCAL = "127.0.0.1"
OWN = ("127.0.0.1", "localhost", "[::1]")
"""What a browser on this machine calls it."""

MAX_CONNECTIONS = 400
"""How many are served at once; more are told to come back."""

STALLED_SECONDS = 5
"""Seconds after which a connection that waits for its client is dropped."""


class Served(AbstractContextManager["Served"]):
    """A page that is being served; `url` is its address.

    In a notebook it shows itself. ``close()`` ends it, as does leaving a ``with`` block.
    """

    def __init__(self, tiles: Tiles, server: Any, thread: threading.Thread, url: str) -> None:
        self.url = url
        self._tiles, self._server, self._thread = tiles, server, thread

    def __repr__(self) -> str:
        state = "served at" if self._thread.is_alive() else "no longer served at"
        return f"{self._tiles.scene.title}, {state} {self.url}"

    def _repr_html_(self) -> str:
        return (
            f'<iframe src="{self.url}" title="elmfield view" width="100%" height="620" '
            'style="border:0;border-radius:8px"></iframe>'
        )

    def close(self) -> None:
        """Serve no longer."""
        self._tiles.close()
        self._server.should_exit = True
        self._thread.join(5)

    def wait(self) -> None:
        """Return when the page is no longer served; an interruption closes it."""
        try:
            while self._thread.is_alive():
                self._thread.join(0.5)
        finally:
            self.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(scene: Scene, write: Write, *, port: int = 0, host: str = LOCAL) -> Served:
    """Serve a scene in the background.

    Parameters
    ----------
    scene : Scene
        What is seen.
    write : callable
        Makes the files that are downloaded.
    port : int
        0 for one that is free.
    host : str
        The address to listen at; only this machine by default. There the page answers to the names
        in `OWN` alone; at other addresses also to every IP address and to this machine's names.
    """
    uvicorn = need("uvicorn", "view", "a page in the browser")
    need("starlette", "view", "a page in the browser")
    from elmfield.show.app import app_of

    listening = _listen(host, port)
    bound = ipaddress.ip_address(listening.getsockname()[0])
    names = {*OWN, host.lower()}
    if not bound.is_loopback:
        name = socket.gethostname().lower()
        names |= {name, f"{name}.local", socket.getfqdn().lower()}
    tiles = Tiles(scene)
    config = uvicorn.Config(
        app_of(tiles, frozenset(names), write, addresses=not bound.is_loopback),
        http="h11",
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="none",
        limit_concurrency=MAX_CONNECTIONS,
        timeout_notify=STALLED_SECONDS,
        server_header=False,
    )
    server = uvicorn.Server(config)
    config.callback_notify = drop_stalled(server.server_state.connections)
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listening]}, daemon=True, name="view"
    )
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    if not scene.is_series:
        tiles.ready(Look.first(scene))
    if bound.is_unspecified:
        host = LOCAL if bound.version == 4 else "::1"
    where = f"[{host}]" if ":" in host else host
    return Served(tiles, server, thread, f"http://{where}:{listening.getsockname()[1]}/")


def drop_stalled(connections: Iterable[Any]) -> Callable[[], Awaitable[None]]:
    """Return what the server calls now and then to drop connections that wait for their client.

    Such a connection has sent no whole request since the last call, or takes nothing of its answer.
    uvicorn limits only the silence between two requests.
    """
    seen: dict[Any, tuple[Any, int]] = {}

    async def look() -> None:
        nonlocal seen
        now = {c: (c.cycle, c.transport.get_write_buffer_size()) for c in connections}
        for connection, (cycle, unsent) in now.items():
            is_computed = cycle is not None and not cycle.response_complete and not unsent
            if seen.get(connection) == (cycle, unsent) and not is_computed:
                connection.transport.abort()
        seen = now

    return look


def _listen(host: str, port: int) -> socket.socket:
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = ":" in host and socket.has_dualstack_ipv6()
    try:
        return socket.create_server((host, port), family=kind, dualstack_ipv6=both)
    except (OSError, OverflowError) as error:
        raise ValueError(
            f"cannot listen at {host}, port {port}: {error}. Choose another port, or none."
        ) from error


# --- a page without a server ----------------------------------------------------------------------


FOLDER = files(__package__) / "page"
PAGE = tuple(sorted(p.name.removesuffix(".xz") for p in FOLDER.iterdir() if p.is_file()))
"""The files of the page; no others are served."""

TILES_MAX_BYTES = 64 << 20
"""Bytes of tiles, before they are compressed."""

EXPORTED_FINEST_LEVEL = -4
"""The finest level that goes in: 16 pixels to a sample."""

Put = Callable[[str, bytes], None]
"""Takes a file of the page: its path below the page's folder, and its content."""


def page_file(name: str) -> bytes:
    """A file of the page; large ones are packed."""
    if (FOLDER / name).is_file():
        return (FOLDER / name).read_bytes()
    return lzma.decompress((FOLDER / f"{name}.xz").read_bytes())


Layers = dict[str, tuple[Look, int]]
"""Pictures of the page by name: what each shows, and the finest level of it that goes in."""


def export(
    scene: Scene, put: Put, *, size: int = TILES_MAX_BYTES, progress: Progress = silent
) -> int:
    """Hand every file of a static page to `put`; return how many of them are tiles.

    Parameters
    ----------
    scene : Scene
        What is seen; sliders stay where they begin.
    put : callable
        Takes path and content of each file.
    size : int
        Bytes that tiles may take before they are compressed.
    progress : callable
        Of (stage, done, total).
    """
    tiles = Tiles(scene)
    facts = scene.facts()
    first, count = Look.first(scene), 0
    if scene.is_series:
        n, k = scene.field.shape[scene.along], scene.along
        ends = scene.field.domain.low[k], scene.field.domain.high[k]
        facts["exported"] = {"series": series(scene, first, *ends, min(16 * n, 1 << 16))}
    else:
        layers = _layers(scene, first, size)
        looks = {q: replace(first, quantity=q) for q in scene.quantities}
        facts["exported"] = {
            "layers": {name: {"finest": finest} for name, (_, finest) in layers.items()},
            "quantiles": {q: tiles.quantiles(look) for q, look in looks.items()},
            "channels": first.channels,
        }
        count = _put_tiles(tiles, layers, put, progress)
    facts |= {"formats": [], "lacks": {}, "directions": False, "planes": facts["planes"][:1]}
    page = {name: page_file(name) for name in PAGE}
    last = b'<script src="view.js"'
    facts_tag = b'<script src="facts.js" defer></script>\n'
    page["index.html"] = page["index.html"].replace(last, facts_tag + last)
    page["facts.js"] = b"window.exportedFacts = " + json.dumps(facts).encode()
    for name, data in page.items():
        put(name, data)
    return count


def _layers(scene: Scene, first: Look, size: int) -> Layers:
    """What goes in, level by level while it fits: the field, splines, and the rest."""
    others = [("value", m) for m in METHODS] + [(q, "field") for q in scene.quantities[1:]]
    looks = {f"{q}-{m}": replace(first, quantity=q, method=m) for q, m in others}
    looks["regions-field"] = Look(quantity="regions", at=first.at)

    def bytes_of(look: Look, level: int) -> int:
        channels = 0.5 if look.quantity == "regions" else len(look.channels)
        return int(math.prod(scene.plane.pixels(level)) * 2 * channels)

    coarsest = scene.plane.coarsest
    finest = dict.fromkeys(looks, coarsest)
    size -= sum(bytes_of(look, coarsest) for look in looks.values())
    for level in range(coarsest - 1, EXPORTED_FINEST_LEVEL - 1, -1):
        for name, look in looks.items():  # the field first, splines, the others
            if finest[name] == level + 1 and (own := bytes_of(look, level)) <= size:
                finest[name], size = level, size - own
    return {name: (look, finest[name]) for name, look in looks.items()}


def _put_tiles(tiles: Tiles, layers: Layers, put: Put, progress: Progress) -> int:
    plane = tiles.scene.plane
    work = [
        (name, look, level, row, column)
        for name, (look, finest) in layers.items()
        for level in range(plane.coarsest, finest - 1, -1)
        for row, column in np.ndindex(plane.tiles(level))
    ]
    for done, (name, look, level, row, column) in enumerate(work, 1):
        with tiles.lock:
            values = tiles.whole(look, level, row, column)
        data = pack_floats(values) if values.dtype == bool else pack_short(values)
        text = base64.b64encode(gzip.compress(data, 6, mtime=0))
        script = b'document.currentScript.data = "%b"' % text
        put(f"tiles/{name}/{level}/{row}_{column}.js", script)
        progress("export", done, len(work))
    return len(work)
