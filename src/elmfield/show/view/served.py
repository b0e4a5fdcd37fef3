"""The page, served: on this machine only unless told, until somebody closes it."""

import socket
import threading
import time
from typing import Any

from elmfield.errors import MissingExtraError
from elmfield.show.view.app import Write, app_of
from elmfield.show.view.looks import Look
from elmfield.show.view.scene import Scene
from elmfield.show.view.tiles import Tiles

LOCAL = "127.0.0.1"
OWN = ("127.0.0.1", "localhost", "[::1]")
"""What a browser on this machine calls it."""


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
        The address to listen at; only this machine by default.
    write : callable, optional
        Makes the files that are downloaded.
    """
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise MissingExtraError(
            "a page in the browser needs starlette and uvicorn; pip install 'elmfield[view]'."
        ) from error
    listening = _listen(host, port)
    own = frozenset({*OWN, host.lower()})
    tiles = Tiles(scene)
    config = uvicorn.Config(
        app_of(tiles, own, write),
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="none",
        limit_concurrency=400,
        timeout_keep_alive=30,
        server_header=False,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listening]}, daemon=True, name="view"
    )
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    if not scene.is_series:
        tiles.ready(_first(scene))
    where = f"[{host}]" if ":" in host else host
    return Served(tiles, server, thread, f"http://{where}:{listening.getsockname()[1]}/")


def _first(scene: Scene) -> Look:
    """What the page shows when it opens."""
    return Look(channels=(0, 1, 2) if scene.is_picture else (0,), at=scene.start)


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
