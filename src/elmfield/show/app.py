"""The server's answers: the page, facts, tiles, points, profiles, files; of one scene, GET only.

Every answer is bounded: tiles are small, lines short, files limited, words checked. Requests for
another host, as a foreign page could make them by pointing its own name at this machine,
are refused. Needs starlette.
"""

import asyncio
import ipaddress
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import PurePath
from urllib.parse import quote

import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from elmfield._array.checks import choice
from elmfield.errors import StoreError
from elmfield.show import layers
from elmfield.show.layers import Download, Look, Write, plain
from elmfield.show.pages import PAGE, page_file
from elmfield.show.scene import FINEST_LEVEL, METHODS, PARTS, Scene
from elmfield.show.view_tiles import Tiles

_TEXTS = {".html": "html", ".css": "css", ".js": "javascript", ".txt": "plain"}
MEDIA_TYPES = {suffix: f"text/{kind}; charset=utf-8" for suffix, kind in _TEXTS.items()}
MEDIA_TYPES[".svg"] = "image/svg+xml"

DOWNLOAD_MAX_VALUES = 1 << 24

MAX_QUESTION = 2000
"""Characters."""

NUMBER = re.compile(r"-?\d{1,12}(\.\d{1,17})?([eE][+-]?\d{1,2})?\Z", re.ASCII)

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data: blob:; "
    "style-src 'self' 'unsafe-inline'; object-src 'none'; base-uri 'none'; "
    "frame-ancestors 'self' http://localhost:* http://127.0.0.1:*",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def app_of(
    tiles: Tiles, hosts: frozenset[str], write: Write, *, addresses: bool = False
) -> ASGIApp:
    """An ASGI application that shows one scene to callers of certain hosts.

    Parameters
    ----------
    tiles : Tiles
        The scene's.
    hosts : frozenset of str
        What the Host header may say, without its port.
    write : callable
        Makes the files that are downloaded.
    addresses : bool
        Whether the Host header may also be any IP address: those cannot be pointed elsewhere.
    """
    answers = Answers(tiles, write)
    turn = asyncio.Semaphore(1)  # of tiles; what a pointer asks for does not wait

    async def respond(request: Request) -> Response:
        """Make an answer in a thread, in turn; not for a client that has gone."""
        async with turn if request.scope["path"].startswith("/tile/") else nullcontext():
            if await request.is_disconnected():
                return Response(status_code=499)
            try:
                made = await run_in_threadpool(answers.answer, request)
                return made if isinstance(made, Response) else as_json(made)
            except sum(FAILURES, ()) as error:
                code, text = next(FAILURES[k] for k in FAILURES if isinstance(error, k))
                return refusal(text.format(error), code)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        wrong = _wrong(scope, hosts, addresses)
        made = refusal(*wrong) if wrong else await respond(Request(scope, receive))
        made.headers.update(HEADERS)
        await made(scope, receive, send)

    return app


class NotThereError(LookupError):
    """There is no such page, or tile."""


FAILURES: dict[tuple[type[Exception], ...], tuple[int, str]] = {
    (NotThereError,): (404, "{}"),
    (StoreError, OSError): (503, "the model cannot be read any more: {}"),
    (MemoryError,): (507, "that takes more memory than there is; ask for less."),
    (ImportError,): (501, "{}"),
    (ValueError, TypeError): (400, "{}"),
}
"""Code and text for what goes wrong; the first that fits."""


NUMBERS = ("quantiles", "point", "profile", "series", "directions", "download")
"""Addresses with a question, and methods of :class:`Answers`."""


class Answers:
    """One method for each address: what it returns is sent, as JSON if it is no response."""

    def __init__(self, tiles: Tiles, write: Write) -> None:
        self.tiles, self.scene, self.write = tiles, tiles.scene, write

    def answer(self, request: Request) -> object:
        """What is at an address: facts, numbers, a tile, or a file of the page."""
        name, *place = request.scope["path"].removeprefix("/").split("/")
        query = request.query_params
        if name == "tile" and len(place) == 3:
            return self.tile(query, place)
        if name == "facts.json" and not place:
            return self.scene.facts()
        if name in NUMBERS and not place:
            with self.tiles.lock:
                return getattr(self, name)(query)
        if place or (name := name or "index.html") not in PAGE:
            raise NotThereError("there is no such page.")
        kind = MEDIA_TYPES[PurePath(name).suffix]
        return Response(page_file(name), media_type=kind, headers={"Cache-Control": "no-cache"})

    def tile(self, query: Mapping[str, str], place: Sequence[str]) -> Response:
        """Numbers of one tile."""
        look = look_of(self.scene, query, "regions")
        data = self.tiles.tile(look, *tile_of(self.scene.on_axes(look.axes), place))
        kept = "no-store" if data[6] else "private, max-age=3600"
        return _file(data, {"Cache-Control": kept})

    def quantiles(self, query: Mapping[str, str]) -> object:
        """Of what is shown, 0 to 100 percent."""
        return self.tiles.quantiles(look_of(self.scene, query))

    def point(self, query: Mapping[str, str]) -> object:
        """What is at one place."""
        index = several(query, "index", len(self.scene.field.shape))
        return layers.at_point(self.scene, index)

    def profile(self, query: Mapping[str, str]) -> object:
        """Along a line."""
        ends = np.reshape(several(query, "line", 4), (2, 2))
        look = look_of(self.scene, query)
        scene = self.scene.on_axes(look.axes)
        start, end = np.clip(ends, scene.plane.low, scene.plane.high)
        return layers.profile(scene, look, start, end)

    def series(self, query: Mapping[str, str]) -> object:
        """A series between two places, and its samples where they can be told apart."""
        scene, look = self.scene, look_of(self.scene, query)
        if not scene.is_series:
            raise ValueError("this is not a series; ask for tiles.")
        low, high = several(query, "between", 2)
        k, domain = scene.along, scene.field.domain
        low, high = max(low, domain.low[k]), min(high, domain.high[k])
        if not low < high:
            raise ValueError("`between` must be two places inside the series, ascending.")
        n = int(min(max(number(query.get("n", "800"), "n"), 2), 4000))
        own = np.arange(max(0, np.ceil(low)), min(scene.field.shape[k] - 1, high) + 1)
        found, samples = layers.series(scene, look, low, high, n), None
        if high - low <= n / 4 and len(own):
            x = layers.spread(scene, look.at, own)
            shown = layers.numbers(scene, look, x).reshape(len(own), -1)
            samples = {"at": own.tolist(), "values": [plain(c) for c in shown.T]}
        return {**found, "samples": samples}

    def directions(self, query: Mapping[str, str]) -> object:
        """Lines along which regions are smooth."""
        a, b, c, d = several(query, "window", 4)
        return layers.directions_between(self.scene, (a, b), (c, d))

    def download(self, query: Mapping[str, str]) -> Response:
        """What is seen, as a file."""
        order = download_of(self.scene, query)
        name, data = self.write(order)
        ascii_name = name.encode("ascii", "replace").decode().replace("?", "-")
        place = f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{quote(name)}"
        return _file(data, {"Content-Disposition": place, "Cache-Control": "no-store"})


def _file(data: bytes, headers: Mapping[str, str]) -> Response:
    return Response(data, media_type="application/octet-stream", headers=headers)


def refusal(text: str, code: int) -> Response:
    """An error that the page shows."""
    return as_json({"error": text}, code)


def as_json(content: object, code: int = 200) -> Response:
    """An answer in ASCII: names may have letters that UTF-8 has not, as file names do."""
    text = json.dumps(content, allow_nan=False)
    return Response(
        text, code, media_type="application/json", headers={"Cache-Control": "no-store"}
    )


def _wrong(scope: Scope, hosts: frozenset[str], addresses: bool) -> tuple[str, int] | None:
    """What is wrong with a request, and the code for it."""
    if scope["type"] != "http":
        return "pages only.", 400
    given = [v.decode("latin-1") for k, v in scope["headers"] if k == b"host"]
    host = given[0] if len(given) == 1 else ""
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    known = name.lower() in hosts or (addresses and _is_address(name))
    if not name or not known:
        return "this page does not go by that name; open the address it printed.", 403
    if scope["method"] not in ("GET", "HEAD"):
        return "this page only shows; use GET.", 405
    if len(scope["query_string"]) + len(scope["path"]) > MAX_QUESTION:
        return "that question is too long.", 414
    return None


def _is_address(name: str) -> bool:
    """Whether a name of a host is an IP address; of version 6 in brackets."""
    bare = name.removeprefix("[").removesuffix("]")
    try:
        version = ipaddress.ip_address(bare).version
    except ValueError:
        return False
    return name == (f"[{bare}]" if version == 6 else bare)


# --- what requests say ----------------------------------------------------------------------------


def number(text: str, name: str) -> float:
    """A finite number as people write it."""
    if not NUMBER.match(text):
        raise ValueError(f"`{name}` must be a number; got {text[:40]!r}.")
    return float(text)


def several(query: Mapping[str, str], name: str, count: int) -> tuple[float, ...]:
    """So many numbers, joined by commas."""
    parts = query.get(name, "").split(",") if query.get(name) else []
    if len(parts) != count:
        raise ValueError(f"`{name}` must be {count} numbers joined by commas; got {len(parts)}.")
    return tuple(number(p, name) for p in parts)


def look_of(scene: Scene, query: Mapping[str, str], *others: str) -> Look:
    """What is to be shown: a quantity of the scene's, or one of some others."""
    axes = several(query, "plane", 2) if "plane" in query else ()
    scene = scene.on_axes(axes)
    known = (*scene.quantities, *others)
    n = scene.field.model.n_channels
    chosen = query.get("channels", "0").split(",")
    if not 1 <= len(chosen) <= 4 or not all(c.isascii() and c.isdigit() for c in chosen):
        raise ValueError("`channels` must be up to four numbers joined by commas.")
    channels = tuple(int(c) for c in chosen)
    if max(channels) >= n:
        raise ValueError(f"`channels` must lie below {n}; got {max(channels)}.")
    at = several(query, "at", len(scene.others)) if scene.others else ()
    low, high = scene.field.domain.low, scene.field.domain.high
    inside = tuple(min(max(v, low[k]), high[k]) for k, v in zip(scene.others, at))
    quantity = choice("quantity", query.get("quantity", known[0]), known)
    method = choice("method", query.get("method", METHODS[0]), METHODS)
    part = choice("part", query.get("part", PARTS[0]), PARTS)
    return Look(quantity, method, channels, part, inside, scene.axes or ())


def tile_of(scene: Scene, words: Sequence[str]) -> tuple[int, int, int]:
    """Level, row and column of a tile that is there."""
    if scene.is_series:
        raise NotThereError("a series has no tiles.")
    if all(re.fullmatch(r"-?[0-9]{1,9}", text) for text in words):
        level, row, column = map(int, words)
        if FINEST_LEVEL <= level <= scene.plane.coarsest:
            rows, columns = scene.plane.tiles(level)
            if 0 <= row < rows and 0 <= column < columns:
                return level, row, column
    raise NotThereError(
        f"there is no tile with level, row and column {', '.join(t[:40] for t in words)}; levels "
        f"run from {FINEST_LEVEL} to {scene.plane.coarsest}."
    )


def download_of(scene: Scene, query: Mapping[str, str]) -> Download:
    """The download that is asked for; not more of it than fits in memory."""
    look = look_of(scene, query)
    scene = scene.on_axes(look.axes)
    if look.quantity not in ("value", "gradient", "laplacian", "std"):
        raise ValueError("values, gradients, Laplacians and deviations can be downloaded.")
    ends = np.sort(np.reshape(several(query, "window", 4), (2, 2)))
    rows, columns = np.clip(ends.T, scene.plane.low, scene.plane.high).T.tolist()
    if not (rows[0] < rows[1] and columns[0] < columns[1]):
        raise ValueError("the window holds nothing; move into the picture first.")
    scale = number(query.get("scale", "1"), "scale")
    if not 1e-6 < scale <= 64:
        raise ValueError(f"`scale` must lie between 0 and 64 samples to a sample; got {scale:g}.")
    p, q = (max(1, round((last - first) * scale)) for first, last in (rows, columns))
    if p * q * len(look.channels) > DOWNLOAD_MAX_VALUES:
        told = f"{p} by {q} values are more than the {DOWNLOAD_MAX_VALUES} of one download"
        raise ValueError(f"{told}; zoom in, or take a smaller scale.")
    suffix = choice("format", query.get("format", scene.formats[0]), scene.formats)
    colours = query.get("colours", "viridis")[:40]
    limits = several(query, "limits", 2) if "limits" in query else None
    return Download(suffix, look, rows, columns, (p, q), colours, limits)
