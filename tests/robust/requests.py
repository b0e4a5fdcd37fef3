"""Requests that no page of ours sends, each from a seed: odd fields and titles, names of hosts,
questions, headers, and clients that do not finish.

A request may be refused with a sentence. It must be answered, never with an error of the server's,
and a page is shown to nobody who calls it by a name that is not its own.
"""

import collections
import json
import re
import socket
from urllib.parse import quote, urlsplit

import numpy as np

import elmfield as ef
from elmfield.io.view_source import view

ANSWERED = (200, 206)
REFUSED = (400, 403, 404, 405, 411, 413, 414, 431, 501)
TITLES = (
    "日本.png", "naïve", "\udcff\ud800", 'a"; filename="b', "a\r\nX-Evil: b", "", "." * 300,
    "é" * 9000, "../../etc/passwd", "a\0b", "</script><script>", "🦊" * 70 + ".elm", "%E6%97",
    "\u202egnp",
)  # fmt: skip
OWN = {"127.0.0.1", "localhost", "[::1]"}


def fields(rng):
    """One field of each kind that a page treats in its own way."""
    y, x = np.mgrid[0:40, 0:50]
    waves = np.sin(0.2 * x) * np.cos(0.3 * y)
    gaps = np.where(rng.random(waves.shape) < 0.1, np.nan, waves)
    return [
        ef.fit(waves),
        ef.fit(gaps, ef.smooth(max_error=0.01)),
        ef.fit(waves + 1j * waves.T[:40, :40].repeat(2, 1)[:, :50]),
        ef.fit(np.stack([waves] * 3, -1), channel_axis=-1),
        ef.fit(np.stack([waves] * 5, 0), channel_axis=0),
        ef.fit(np.stack([waves, waves + 1, waves]), ef.smooth(order=2)),
        ef.fit(waves, ef.oriented()),
        ef.fit(waves, periodic=[0, 1]),
        ef.fit(waves[0]),
        ef.fit(waves[:1]),
        ef.fit(waves[:1, :1]),
        ef.fit(np.zeros((3, 4))),
    ]


class Pages:
    """Pages of all kinds, at this machine's own address and at all of them."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.served = [
            (view(f, title=TITLES[k % len(TITLES)], host=host, browser=False), host == "0.0.0.0")
            for k, f in enumerate(fields(rng))
            for host in (("127.0.0.1", "0.0.0.0")[k % 2],)
        ]
        self.unfinished = collections.deque()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for to in self.unfinished:
            to.close()
        for page, _ in self.served:
            page.close()

    def leave(self, place, begun):
        """Begin a request, and say nothing more; of many the first is closed."""
        to = socket.create_connection(place, timeout=60)
        to.sendall(begun)
        self.unfinished.append(to)
        if len(self.unfinished) > 30:
            self.unfinished.popleft().close()


def attempt(seed, pages):
    """Ask once; what was asked, and "done", "refused" or what was wrong."""
    rng = np.random.default_rng(seed)
    page, everywhere = pages.served[rng.integers(len(pages.served))]
    place = ("127.0.0.1", urlsplit(page.url).port)
    host, method, target = _host(rng), _method(rng), _target(rng)
    lines = [b"%b %b HTTP/1.1" % (method, target), b"Host: " + host, *_headers(rng)]
    asked = b"\r\n".join(lines) + b"\r\nConnection: close\r\n\r\n"
    if rng.integers(8) == 0:
        pages.leave(place, asked[: rng.integers(len(asked) - 1)])
    try:
        with socket.create_connection(place, timeout=100) as to:
            to.sendall(asked)
            answer = b"".join(iter(lambda: to.recv(1 << 16), b""))
    except ConnectionError as error:  # too long: refused before all of it was sent
        return asked[:300], "refused" if len(asked) > 1 << 16 else f"wrong: {error}"
    except TimeoutError:
        return asked[:300], "wrong: hung"
    return asked[:300], _outcome(answer, method, _is_own(host.strip(), everywhere))


def _outcome(answer, method, own):
    answer = answer.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    if not re.match(rb"HTTP/1\.1 \d{3} ", head):
        return f"wrong: no answer, {answer[:80]!r}"
    code = int(head[9:12])
    if b"\r\nx-evil" in head.lower():
        return "wrong: a header of somebody else's"
    if code in ANSWERED and not own:
        return "wrong: shown to another host"
    if code == 403 and own:
        return "wrong: refused by its own name"
    if code not in ANSWERED + REFUSED:
        return f"wrong: {code} {body[:200]!r}"
    if method != b"HEAD" and re.search(rb"content-type: application/json", head):
        json.loads(body)
    return "done" if code in ANSWERED else "refused"


def _is_own(host, everywhere):
    """Whether a page goes by a name: decided otherwise than the page does."""
    text = host.decode("latin-1").lower()
    name = re.sub(r":[^:\]]*\Z", "", text)
    if name in OWN or not everywhere:
        return name in OWN
    if name and name in (socket.gethostname().lower(), socket.getfqdn().lower()):
        return True
    kind, bare = (socket.AF_INET6, name[1:-1]) if name[:1] == "[" else (socket.AF_INET, name)
    if name[:1] == "[" and name[-1:] != "]":
        return False
    try:
        socket.inet_pton(kind, bare)
    except (OSError, ValueError):
        return False
    return True


def _pick(rng, usual, odd, share=0.05):
    """One of the usual ones, seldom an odd one."""
    some = odd if rng.random() < share else usual
    return some[rng.integers(len(some))]


def _host(rng):
    usual = ["127.0.0.1", "localhost", "LocalHost:80", "[::1]:9"]
    odd = [
        "192.168.7.9", "[2001:db8::1]", "::1", "evil.example", "127.0.0.1.evil.example", "[::1",
        "localhost.evil.example:80", "evil@127.0.0.1", "127.0.0.1@evil", "127.1", "0x7f.0.0.1", "",
        ":", "2130706433", "[", "[]", "1.2.3.4:", "127.0.0.1, evil", "127.0.0.1/..", "127.0.0.1#",
        "0177.0.0.1", socket.gethostname(), rng.bytes(9).decode("latin-1"),
    ]  # fmt: skip
    text = _pick(rng, usual, odd, 0.25).encode("latin-1")
    if rng.integers(12) == 0 and text:
        at = rng.integers(len(text))
        text = text[:at] + bytes([rng.integers(32, 256)]) + text[at + rng.integers(2) :]
    return text.replace(b"\r", b"").replace(b"\n", b"")


def _method(rng):
    odd = [b"HEAD", b"POST", b"OPTIONS", b"TRACE", b"CONNECT", b"get", b"G\xff", b"PRI"]
    return _pick(rng, [b"GET"], odd)


def _number(rng):
    odd = ("nan", "inf", "-1", "1e99", "9" * 30, "0x10", "٣", "", "1;2", "-0", "1e-30")
    return _pick(rng, [f"{rng.uniform(-5, 60):.{rng.integers(7)}f}"], odd, 0.02)


def _numbers(rng, count):
    return ",".join(_number(rng) for _ in range(count + _pick(rng, [0], [1, -1])))


def _target(rng):
    """An address, nearly right or wrong altogether."""
    level, row, column = rng.integers(-7, 3), *rng.integers(-1, 4, 2)
    usual = [
        "/", "/facts.json", f"/tile/{level}/{row}/{column}", f"/tile/{level}/0/0", "/quantiles",
        "/point", "/profile", "/series", "/directions", "/download", "/view.js",
    ]  # fmt: skip
    odd = [
        "/..%2f..%2fetc%2fpasswd", "//evil.example/", "/%00", "/\udcff", "/page/../app.py", "*",
        "http://evil.example/facts.json",
    ]  # fmt: skip
    words = {
        "index": _numbers(rng, int(rng.integers(1, 4))), "line": _numbers(rng, 4),
        "window": ",".join(sorted(_numbers(rng, 4).split(","))), "between": _numbers(rng, 2),
        "at": _numbers(rng, 1), "n": _number(rng),
        "plane": _pick(rng, ["1,2", "0,2", "0,1"], ["1,0", "axial", "1", _numbers(rng, 2)], 0.1),
        "scale": _pick(rng, ["1", "2", "0.5"], ["0.01", "64", _number(rng)]),
        "quantity": _pick(rng, ["value", "gradient", "laplacian"], ["error", "regions", "__"], 0.2),
        "method": _pick(rng, ["field", "nearest", "linear", "cubic"], ["quintic"]),
        "channels": _pick(rng, ["0"], ["0,1,2", "4", "-1", "0,0,0,0,0", "9" * 50, "0,", "²"], 0.1),
        "part": _pick(rng, ["magnitude", "phase", "real", "imaginary"], ["x"]),
        "format": _pick(rng, [".png", ".npy", ".nc", ".tif"], [".exe", "/etc"]),
        "colours": _pick(rng, ["grey", "viridis"], ["x"]), "limits": _numbers(rng, 2),
        "x": rng.bytes(3).decode("latin-1") * _pick(rng, [1], [900]),
    }  # fmt: skip
    some = [k for k in words if (rng.integers(4) == 0 if k == "plane" else rng.integers(20))]
    query = "&".join(f"{k}={quote(words[k], safe=',')}" for k in some)
    path = quote(_pick(rng, usual, odd), safe="/:%*", errors="surrogateescape")
    target = f"{path}?{query}".encode()
    if rng.integers(20) == 0:
        at = rng.integers(len(target))
        target = target[:at] + rng.bytes(1).strip() + target[at:]
    return target


def _headers(rng):
    odd = [
        b"Host: evil.example", b"Content-Length: 7", b"Content-Length: -1", b"Range: bytes=0-3",
        b"Transfer-Encoding: chunked", b"Transfer-Encoding: x", b"Expect: 100-continue",
        b"Upgrade: websocket\r\nConnection: Upgrade", b"X-Forwarded-Host: localhost", b"no header",
        b"Origin: http://evil.example", b"X: " + b"x" * 70_000, b"\xff: \xff",
    ]  # fmt: skip
    return [odd[rng.integers(len(odd))] for _ in range(_pick(rng, [0], [1, 2], 0.2))]
