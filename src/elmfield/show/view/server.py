"""The page's server: for this machine only by default, until it is closed."""

import ipaddress
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from elmfield.errors import MissingExtraError
from elmfield.show.view.layers import Look, Write
from elmfield.show.view.scene import Scene
from elmfield.show.view.view_tiles import Tiles

LOCAL = "127.0.0.1"
OWN = ("127.0.0.1", "localhost", "[::1]")
"""What a browser on this machine calls it."""

MAX_CONNECTIONS = 400
"""How many are served at once; more are told to come back."""

STALLED_SECONDS = 5
"""Seconds after which a connection that waits for its client is dropped."""


class Served:
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

    def __enter__(self) -> "Served":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(scene: Scene, *, port: int = 0, host: str = LOCAL, write: Write | None = None) -> Served:
    """Serve a scene in the background.

    Parameters
    ----------
    scene : Scene
        What is seen.
    port : int
        0 for one that is free.
    host : str
        The address to listen at; only this machine by default. There the page answers to the names
        in `OWN` alone; at other addresses also to every IP address and to this machine's names.
    write : callable, optional
        Makes the files that are downloaded.
    """
    try:
        import uvicorn

        from elmfield.show.view.app import app_of
    except ImportError as error:
        raise MissingExtraError(
            "a page in the browser needs starlette and uvicorn; pip install 'elmfield[view]'."
        ) from error
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
    listening = socket.socket(kind, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise ValueError(
            f"cannot listen at {host}, port {port}: {error}. Choose another port, or none."
        ) from error
    return listening
