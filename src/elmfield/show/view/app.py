"""The server's answers: the page, facts, tiles, points, profiles, files; of one scene, GET only.

Every answer is bounded: tiles are small, lines short, files limited. Requests for another host, as
a page of somebody else could make them, are refused.
"""

import asyncio
import lzma
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

from elmfield.errors import StoreError
from elmfield.show.view import asked
from elmfield.show.view.looks import Look
from elmfield.show.view.places import at_point, directions_between, profile
from elmfield.show.view.tiles import Tiles, line

PAGE = {
    "index.html": "text/html; charset=utf-8",
    "view.css": "text/css; charset=utf-8",
    "plain.js": "text/javascript; charset=utf-8",
    "view.js": "text/javascript; charset=utf-8",
    "numbers.js": "text/javascript; charset=utf-8",
    "axes.js": "text/javascript; charset=utf-8",
    "series.js": "text/javascript; charset=utf-8",
    "picture.js": "text/javascript; charset=utf-8",
    "profile.js": "text/javascript; charset=utf-8",
    "state.js": "text/javascript; charset=utf-8",
    "openseadragon.min.js": "text/javascript; charset=utf-8",
    "openseadragon.LICENSE.txt": "text/plain; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""The files of the page; no others are served."""

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data: blob:; "
    "style-src 'self' 'unsafe-inline'; object-src 'none'; base-uri 'none'; "
    "frame-ancestors 'self' http://localhost:* http://127.0.0.1:*",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}

Write = Callable[[asked.Wanted], tuple[str, bytes]]
"""Makes a file: its name and its content."""


def page_file(name: str) -> bytes:
    """A file of the page; large ones are kept packed."""
    folder = files(__package__) / "page"
    packed = folder / f"{name}.xz"
    return (
        lzma.decompress(packed.read_bytes()) if packed.is_file() else (folder / name).read_bytes()
    )


def app_of(tiles: Tiles, hosts: frozenset[str], write: Write | None = None) -> Any:
    """An ASGI application that shows one scene to callers of certain hosts.

    Parameters
    ----------
    tiles : Tiles
        The scene's.
    hosts : frozenset of str
        What the Host header may say, without its port.
    write : callable, optional
        Makes the files that are downloaded.
    """
    from starlette.applications import Starlette
    from starlette.routing import Route

    answers = Answers(tiles, write)
    routes = [
        Route("/", answers.page),
        Route("/facts.json", answers.facts),
        Route("/tile/{level}/{row}/{column}", answers.tile),
        Route("/quantiles", answers.quantiles),
        Route("/point", answers.point),
        Route("/profile", answers.profile),
        Route("/series", answers.series),
        Route("/directions", answers.directions),
        Route("/download", answers.download),
        Route("/{name}", answers.page),
    ]
    inner = Starlette(routes=routes)
    inner.router.redirect_slashes = False  # an address is there, or it is not
    return Guard(inner, hosts)


class Guard:
    """Lets through what a page of ours would ask: GET, our host, short questions."""

    def __init__(self, inner: Any, hosts: frozenset[str]) -> None:
        self.inner, self.hosts = inner, hosts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self.inner(scope, receive, send)
            return
        from starlette.responses import JSONResponse

        wrong = self._wrong(scope) if scope["type"] == "http" else (400, "pages only.")
        inner = self.inner if wrong is None else JSONResponse({"error": wrong[1]}, wrong[0])

        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = [(k.lower().encode(), v.encode()) for k, v in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *own]}
            await send(message)

        await inner(scope, receive, sent)

    def _wrong(self, scope: Any) -> tuple[int, str] | None:
        given = [v.decode("latin-1") for k, v in scope["headers"] if k == b"host"]
        host = given[0] if len(given) == 1 else ""
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if name.lower() not in self.hosts:
            return 403, "this page is for the machine it runs on; open the address it printed."
        if scope["method"] not in ("GET", "HEAD"):
            return 405, "this page only shows; use GET."
        if len(scope["query_string"]) + len(scope["path"]) > asked.WORDS:
            return 414, "that question is too long."
        return None


class Answers:
    """One method for each address."""

    def __init__(self, tiles: Tiles, write: Write | None) -> None:
        self.tiles, self.scene, self.write = tiles, tiles.scene, write
        self._turn = asyncio.Semaphore(1)  # of tiles; what a pointer asks for does not wait

    async def page(self, request: Any) -> Any:
        """The page and its files."""
        from starlette.responses import Response

        name = request.path_params.get("name", "index.html")
        if name not in PAGE:
            return told("there is no such page.", 404)
        return Response(
            page_file(name), media_type=PAGE[name], headers={"Cache-Control": "no-cache"}
        )

    async def facts(self, request: Any) -> Any:
        """What the page must know."""
        return await self._answer(request, self.scene.facts)

    async def tile(self, request: Any) -> Any:
        """Numbers of one tile."""
        from starlette.responses import Response

        def make() -> Any:
            where = asked.tile_of(self.scene, request.path_params)
            look = asked.look_of(self.scene, request.query_params)
            data = self.tiles.tile(look, *where)
            kept = "no-store" if data[6] else "private, max-age=3600"
            return Response(
                data, media_type="application/octet-stream", headers={"Cache-Control": kept}
            )

        async with self._turn:
            return await self._answer(request, make)

    async def quantiles(self, request: Any) -> Any:
        """Of what is shown, 0 to 100 percent."""
        return await self._answer(request, lambda: self.tiles.quantiles(self._look(request)))

    async def point(self, request: Any) -> Any:
        """What is at one place."""

        def make() -> Any:
            index = asked.several(request.query_params, "index", len(self.scene.field.shape))
            with self.tiles.lock:
                return at_point(self.scene, index)

        return await self._answer(request, make)

    async def profile(self, request: Any) -> Any:
        """Along a line."""

        def make() -> Any:
            self._needs_plane()
            start, end = asked.ends_of(self.scene, request.query_params)
            look = self._look(request)
            with self.tiles.lock:
                return profile(self.scene, look, start, end)

        return await self._answer(request, make)

    async def series(self, request: Any) -> Any:
        """A series between two places."""

        def make() -> Any:
            return self._series(self._look(request), request.query_params)

        return await self._answer(request, make)

    def _series(self, look: Look, query: Mapping[str, str]) -> Any:
        scene = self.scene
        if not scene.is_series or look.quantity == "regions":
            raise ValueError("this is not a series; ask for tiles.")
        low, high = asked.several(query, "between", 2)
        k = scene.along
        first, last = scene.field.domain.low[k], scene.field.domain.high[k]
        low, high = max(low, first), min(high, last)
        if not low < high:
            raise ValueError("`between` must be two places inside the series, ascending.")
        n = int(min(max(asked.number(query.get("n", "800"), "n"), 2), 4000))
        with self.tiles.lock:
            at, values, spans = line(scene, look, low, high, n)
            samples = None
            if high - low <= n / 4:
                import numpy as np

                from elmfield.show.view.looks import numbers, spread

                own = np.arange(max(0, np.ceil(low)), min(scene.field.shape[k] - 1, high) + 1)
                if len(own):
                    shown = numbers(scene, look, spread(scene, look.at, {0: own}))
                    samples = {
                        "at": own.tolist(),
                        "values": cleaned(shown.reshape(len(own), -1).T),
                    }
        return {
            "at": at.tolist(),
            "values": cleaned(values.T),
            "low": cleaned(spans[..., 0].T),
            "high": cleaned(spans[..., 1].T),
            "samples": samples,
        }

    async def directions(self, request: Any) -> Any:
        """Lines along which regions are smooth."""

        def make() -> Any:
            if not self.scene.has_directions:
                raise ValueError("this field's regions believe in no direction.")
            a, b, c, d = asked.several(request.query_params, "window", 4)
            with self.tiles.lock:
                return directions_between(self.scene, (a, b), (c, d))

        return await self._answer(request, make)

    async def download(self, request: Any) -> Any:
        """What is seen, as a file."""
        from starlette.responses import Response

        def make() -> Any:
            self._needs_plane()
            write = self.write
            if write is None:
                raise ValueError("this page cannot write files.")
            order = asked.wanted(self.scene, request.query_params)
            with self.tiles.lock:
                name, data = write(order)
            return Response(
                data,
                media_type="application/octet-stream",
                headers={
                    "Content-Disposition": f'attachment; filename="{name}"',
                    "Cache-Control": "no-store",
                },
            )

        return await self._answer(request, make)

    def _look(self, request: Any) -> Look:
        look = asked.look_of(self.scene, request.query_params)
        if look.quantity == "regions":
            raise ValueError("regions have no numbers to read.")
        return look

    def _needs_plane(self) -> None:
        if self.scene.is_series:
            raise ValueError("a series has no plane.")

    async def _answer(self, request: Any, make: Callable[[], Any]) -> Any:
        """Make an answer in a thread; not for somebody who has gone."""
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import JSONResponse, Response

        if await request.is_disconnected():
            return Response(status_code=499)
        try:
            made = await run_in_threadpool(make)
        except asked.NotThereError as error:
            return told(str(error), 404)
        except (StoreError, OSError) as error:
            return told(f"the model cannot be read any more: {error}", 503)
        except MemoryError:
            return told("that takes more memory than there is; ask for less.", 507)
        except ImportError as error:
            return told(str(error), 501)
        except (ValueError, TypeError) as error:
            return told(str(error), 400)
        if isinstance(made, Response):
            return made
        return JSONResponse(made, headers={"Cache-Control": "no-store"})


def told(text: str, code: int) -> Any:
    """An error that the page shows."""
    from starlette.responses import JSONResponse

    return JSONResponse({"error": text}, code, headers={"Cache-Control": "no-store"})


def cleaned(rows: Any) -> list[list[float | None]]:
    """Rows of numbers for JSON; what is not finite is None."""
    return [[float(v) if v == v and abs(v) != float("inf") else None for v in row] for row in rows]
