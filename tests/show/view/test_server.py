"""The server: what it tells, and what it refuses."""

import contextlib
import json
import re
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote
from urllib.request import urlopen

import numpy as np
import pytest

import elmfield as ef
from elmfield.io.view_source import scene_of
from elmfield.show.app import MEDIA_TYPES
from elmfield.show.pages import PAGE, drop_stalled, serve
from elmfield.show.scene import Scene
from support import close


def test_the_page_and_its_files_are_served(plain):
    page = plain.get("/")
    assert page.code == 200
    assert page.headers["content-type"].startswith("text/html")
    for name in PAGE:
        kind = MEDIA_TYPES[Path(name).suffix]
        answer = plain.get(f"/{name}")
        assert (answer.code, answer.headers["content-type"]) == (200, kind)
    assert b"BSD" in plain.get("/openseadragon.min.js").body[:400] or (
        b"CodePlex" in plain.get("/openseadragon.LICENSE.txt").body
    )


def test_facts_say_what_there_is(months, colours, plain):
    facts = months.json("/facts.json")
    assert [a["name"] for a in facts["axes"]] == ["time", "latitude", "longitude"]
    assert facts["units"] == "degC"
    assert facts["plane"]["flipped"] == [True, False]
    assert facts["others"] == [0]
    assert facts["cross"] == [0.0, 14.0, 29.0]
    began = np.datetime64("2023-01-15").astype("datetime64[s]").astype(float)
    assert facts["axes"][0]["epoch"] == began
    assert colours.json("/facts.json")["channels"] == ["red", "green", "blue"]
    assert not plain.json("/facts.json")["directions"]


def test_facts_say_why_there_are_no_errors(plain, waves):
    assert plain.json("/facts.json")["lacks"] == {}
    some = waves[:40, :40]
    exact, coded = (Scene(ef.fit(some, s)).facts() for s in (ef.smooth(), ef.smooth(psnr=30)))
    assert "the error is 0" in exact["lacks"]["error"]
    assert "--samples" in coded["lacks"]["error"]
    assert "error" not in coded["quantities"]


def test_a_point_has_its_value_and_gradient(plain, months, ocean):
    found = plain.json("/point?index=100.25,33.5")
    at = [100.25, 33.5]
    close(found["value"], [plain.field(at)], 1e-12)
    close(found["gradient"][0], plain.field.gradient(at), 1e-12)
    close(found["laplacian"], [plain.field.laplacian(at)], 1e-12)
    assert found["sample"] == [100, 34]
    missing = months.json("/point?index=3,22,17")  # the island
    assert missing["missing"] is True
    assert missing["nearest"] is None
    there = months.json("/point?index=3,2,5")
    assert there["coords"][1:] == [-50.0, 30.0]
    assert there["nearest"] == pytest.approx([ocean.values[3, 2, 5]])


def test_a_profile_is_the_field_along_a_line(plain, waves):
    found = plain.json("/profile?line=10,20,50,100")
    t = np.asarray(found["t"])
    points = np.asarray([10, 20]) + t[:, None] * [40, 80]
    close(found["values"][0], plain.field(points), 1e-6)
    # One sample for each column that is crossed, within half a row.
    marks = np.asarray(found["marks"])
    close(marks, np.arange(81) / 80, 1e-12)
    rows = np.floor(10 + marks * 40 + 0.5).astype(int)
    close(found["samples"][0], waves[rows, np.arange(20, 101)], 1e-6)
    assert max(found["off"]) <= 0.5


def test_a_profile_between_samples_has_none(plain):
    found = plain.json("/profile?line=10.2,20.2,10.4,20.3")
    assert (found["marks"], found["samples"]) == ([], [[]])
    points = np.linspace([10.2, 20.2], [10.4, 20.3], 400)
    close(found["values"][0], plain.field(points), 1e-6)


def test_a_profile_of_another_quantity_is_that_quantity(plain):
    found = plain.json("/profile?line=10,20,10,60&quantity=laplacian")
    points = np.stack([np.full(400, 10.0), np.linspace(20, 60, 400)], axis=-1)
    close(found["values"][0], plain.field.laplacian(points), 1e-6)


def test_a_profile_of_errors_is_zero_where_the_field_meets_its_samples(plain):
    found = plain.json("/profile?line=10,20,20,60&quantity=error")
    assert max(found["values"][0]) < 1e-9
    slope = plain.json("/profile?line=10,20,10,60&quantity=gradient")["values"][0]
    points = np.stack([np.full(400, 10.0), np.linspace(20, 60, 400)], axis=-1)
    close(slope, np.linalg.norm(plain.field.gradient(points), axis=-1), 1e-6)


def test_a_series_is_told_between_two_places(opened):
    values = np.sin(0.05 * np.arange(3000.0))
    client = opened(values)
    assert client.json("/facts.json")["plane"] is None
    near = client.json("/series?between=100,120&n=200")
    close(near["values"][0], client.field(np.asarray(near["at"])[:, None]), 1e-6)
    close(near["samples"]["values"][0], values[100:121], 1e-6)
    far = client.json("/series?between=-0.5,2999.5&n=100")
    close(far["values"][0], values.reshape(100, 30).mean(axis=1), 1e-6)
    close(far["high"][0], values.reshape(100, 30).max(axis=1), 1e-6)
    assert far["samples"] is None
    assert client.get("/tile/0/0/0").code == 404


def test_directions_are_those_of_oriented_regions(opened):
    y, x = np.mgrid[0:64, 0:64]
    client = opened(128.0 + 90 * np.sign(np.sin(0.3 * x + 0.2 * y)), ef.oriented())
    assert client.json("/facts.json")["directions"]
    lines = np.asarray(client.json("/directions?window=10,30,20,50"))
    middle = (lines[:, :2] + lines[:, 2:4]) / 2
    sure, length = lines[:, 4], np.linalg.norm(lines[:, 2:4] - lines[:, :2], axis=1)
    assert 0 <= sure.min() < sure.max() <= 1
    close(length / length.max(), sure / sure.max(), 1e-9)
    assert len(lines) > 4
    assert (middle >= [10, 20]).all()
    assert (middle <= [30, 50]).all()


@pytest.mark.slow
def test_a_hundred_at_once_are_all_answered(plain):
    codes = []

    def ask(k):
        codes.append(plain.get(f"/tile/-4/{k // 10}/{k % 10}").code)

    threads = [threading.Thread(target=ask, args=(k,)) for k in range(100)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert codes == [200] * 100


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".nc", ".tif", ".npy"])
def test_what_is_seen_can_be_taken_along(months, suffix, tmp_path):
    if suffix not in months.json("/facts.json")["formats"]:
        pytest.skip(f"nothing here writes {suffix}")
    answer = months.get(f"/download?format={suffix}&at=4&window=9.5,19.5,29.5,49.5&scale=2")
    assert answer.code == 200, answer.body
    assert "attachment" in answer.headers["content-disposition"]
    (tmp_path / f"a{suffix}").write_bytes(answer.body)
    back = ef.read(tmp_path / f"a{suffix}")
    assert back.shape == (20, 40)
    at = [9.75 + np.arange(20) / 2, 29.75 + np.arange(40) / 2]
    axes = months.field.domain.axes
    own = [axes[0].from_index(np.asarray([4.0]))]
    own += [a.from_index(x) for a, x in zip(axes[1:], at)]
    expected = months.field.grid(*own)[0]
    close(np.asarray(back), expected, 1e-3)
    if suffix == ".nc":
        close(back.coords["latitude"], own[1], 1e-9)


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("日本.png", "日本"), ("naïve.png", "naïve"), ("жук 𝔘.tif", "жук-𝔘"),
        ('a"; b="c', "a---b--c"), ("a\r\nX-B: c", "a--X-B--c"), ("\udcff.png", "-"),
        ("日" * 5000, "日" * 100), ("", "field"), ("../../b\0c", "b-c"),
    ],
    ids=lambda text: ascii(text)[:20],
)  # fmt: skip
def test_a_title_in_any_letters_names_the_download(opened, small, title, name):
    client = opened(small, title=title)
    assert client.json("/facts.json")["title"] == title
    for suffix in (".npy", ".png"):
        answer = client.get(f"/download?format={suffix}&window=0,9,0,9")
        assert answer.code == 200, answer.body
        assert "x-b" not in answer.headers
        plain, full = answer.headers["content-disposition"].split("; ")[1:]
        assert full == f"filename*=UTF-8''{quote(name + '-value' + suffix)}"
        assert re.fullmatch(rf'filename="[-\w]+-value\{suffix}"', plain, re.ASCII)


def test_a_picture_is_as_the_page_colours_it(months, tmp_path):
    words = "at=4&window=-0.5,29.5,-0.5,59.5&scale=1&colours=grey&limits=0,20"
    (tmp_path / "a.png").write_bytes(months.get(f"/download?format=.png&{words}").body)
    back = np.asarray(ef.read(tmp_path / "a.png"))[..., 0]
    values = months.tile(0, 0, 0, at="4")[..., 0]
    grey = np.clip(np.nan_to_num(values) / 20, 0, 1) * 255
    assert np.abs(np.where(np.isnan(values), 128, grey) - back).max() <= 0.51


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("format=.exe&window=0,1,0,1", "must be one of"),
        ("format=.npy&window=0,299,0,419&scale=64", "zoom in"),
        ("format=.npy&window=0,9,0,9&scale=1e9", "scale"),
        ("format=.npy&window=50,50,0,9", "holds nothing"),
        ("format=.npy&window=0,9", "4 numbers"),
        ("format=.npy&window=0,9,0,9&quantity=error", "downloaded"),
    ],
)
def test_downloads_have_limits(plain, words, says):
    assert says in plain.json(f"/download?{words}", 400)["error"]


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/../pyproject.toml", "/%2e%2e/%2e%2e/etc/passwd", "/..%2fserver.py", "/page/index.html",
        "/etc/passwd", "/app.py", "/__init__.py", "/index.html/", "/tile/0/0/0/0", "/tile/../0/0",
        "/tile/-7/0/0", "/tile/2/0/0", "/tile/0/-1/0", "/tile/0/2/0", "/tile/0/0/99999999999999",
        "/tile/0/0/1e3", "/tile/0/0/%D9%A3", "/tile/nan/0/0", "/.git/config",
    ],
)  # fmt: skip
def test_there_is_nothing_but_the_page_and_its_tiles(plain, path):
    answer = plain.get(path)
    assert answer.code == 404
    assert b"root:" not in answer.body


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/tile/0/0/0?quantity=__class__", 400),
        ("/tile/0/0/0?method=quintic", 400),
        ("/tile/0/0/0?channels=1", 400),
        ("/tile/0/0/0?channels=0,0,0,0,0", 400),
        ("/tile/0/0/0?channels=-1", 400),
        ("/tile/0/0/0?part=x", 400),
        ("/point?index=1", 400),
        ("/point?index=nan,inf", 400),
        ("/point?index=1e400,0", 400),
        ("/profile?line=1,2,3", 400),
        ("/profile?line=a,b,c,d", 400),
        ("/profile?line=1,2,3,4&quantity=regions", 400),
        ("/quantiles?quantity=regions", 400),
        ("/series?between=0,1", 400),
        ("/directions?window=0,1,0,1", 400),
        ("/tile/0/0/0?at=" + "1," * 3000, 414),
    ],
)
def test_wrong_words_are_refused_in_words(plain, path, code):
    answer = plain.get(path)
    assert answer.code == code
    assert json.loads(answer.body)["error"]


def test_places_outside_are_moved_inside(plain):
    far = plain.json("/point?index=-99999,1e6")
    assert far["index"] == [-0.5, 419.5]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_it_only_shows(plain, method):
    assert plain.get("/", method=method, body=b"x" * 100).code == 405
    assert plain.get("/", method="HEAD").code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost@evil", "[::2]",
        "192.168.7.9",
    ],
)  # fmt: skip
def test_other_hosts_are_refused(plain, host):
    # A page of somebody else may give its own name this machine's address.
    answer = plain.get("/tile/0/0/0", headers={"Host": host})
    assert answer.code in (400, 403)
    assert len(answer.body) < 500


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "LOCALHOST:99", "[::1]:8"])
def test_this_machine_s_own_names_are_let_in(plain, host):
    assert plain.get("/facts.json", headers={"Host": host}).code == 200


@pytest.fixture(scope="module", params=["0.0.0.0", "::"])
def everywhere(request, opened, small):
    """A page at all of the machine's addresses."""
    if request.param == "::" and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 on this machine")
    return opened(small, host=request.param)


NAME = socket.gethostname()


@pytest.mark.parametrize(
    "host",
    [
        "192.168.7.9", "10.0.0.1:8123", "[2001:db8::7]:8123", "[fe80::1]", "localhost", "[::1]:1",
        NAME, f"{NAME.upper()}:8123", f"{NAME.removesuffix('.local')}.local",
    ],
)  # fmt: skip
def test_at_every_address_the_page_has_every_address(everywhere, host):
    assert everywhere.get("/facts.json", headers={"Host": host}).code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:80", "192.168.7.9.evil.example", f"{NAME}.evil.example", "",
        ":80", "192.168.7.9@evil", "evil@192.168.7.9", "192.168.7", "3232237321", "0x7f.1",
        "[evil]", "[192.168.7.9]", "2001:db8::7", "[::1", "::1]", "192.168.7.9,evil",
        "192.168.7.9 evil", "[::1x:80", "[[::1]]",
    ],
)  # fmt: skip
def test_a_name_of_somebody_else_is_refused_at_every_address(everywhere, host):
    # Only a name can be pointed at this machine by a page of somebody else; an address is its own.
    assert everywhere.get("/facts.json", headers={"Host": host}).code in (400, 403)


def test_an_address_that_can_be_opened_is_told(everywhere):
    assert everywhere.place.hostname in ("127.0.0.1", "::1")
    assert everywhere.get("/").code == 200


def test_two_hosts_are_none(plain):
    with socket.create_connection((plain.place.hostname, plain.place.port), timeout=20) as to:
        to.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\nConnection: close\r\n\r\n")
        assert to.recv(64).split()[1] in (b"400", b"403")


BEGUN = [
    b"", b"GET", b"GET / HTTP/1.1\r\nHost: localhost\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\nx",
]  # fmt: skip
"""What clients send that then say nothing more."""


def test_requests_that_never_end_keep_nobody_out(opened, small, monkeypatch):
    monkeypatch.setattr("elmfield.show.pages.MAX_CONNECTIONS", 10)
    monkeypatch.setattr("elmfield.show.pages.STALLED_SECONDS", 0)
    client = opened(small)
    with contextlib.ExitStack() as stack:
        for begun in 3 * BEGUN:
            to = socket.create_connection((client.place.hostname, client.place.port), timeout=20)
            stack.enter_context(to).sendall(begun)
        for _ in range(60):
            if (code := client.get("/facts.json").code) == 200:
                break
            time.sleep(0.5)
        assert code == 200


@pytest.mark.parametrize(
    ("states", "dropped"),
    [
        ([(None, 0), (None, 0)], True),  # no request yet
        ([("asked", 0), ("asked", 0), ("asked", 0)], False),  # its answer is being computed
        ([("asked", 9), ("asked", 9)], True),  # nobody takes the answer
        ([("asked", 9), ("asked", 5), ("asked", 0)], False),  # somebody does, slowly
        ([("answered", 0), ("answered", 0)], True),  # the next request does not come
        ([(None, 0), ("answered", 0), ("answered again", 0)], False),
    ],
)
def test_connections_that_wait_for_the_client_are_dropped(states, dropped):
    cycles = {
        None: None,
        "asked": SimpleNamespace(response_complete=False),
        "answered": SimpleNamespace(response_complete=True),
        "answered again": SimpleNamespace(response_complete=True, again=True),
    }
    ended = []
    connection = Connection()
    look = drop_stalled({connection})
    for cycle, unsent in states:
        connection.cycle = cycles[cycle]
        connection.transport = SimpleNamespace(
            get_write_buffer_size=lambda unsent=unsent: unsent, abort=lambda: ended.append(1)
        )
        # Without an event loop: a browser test may have left one running.
        with contextlib.suppress(StopIteration):
            look().send(None)
    assert bool(ended) == dropped


class Connection:
    """Has what uvicorn's have: the request being answered, and the way out."""


def test_headers_keep_others_out(plain):
    headers = plain.get("/").headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers


def test_it_listens_on_this_machine_only(plain):
    assert plain.place.hostname == "127.0.0.1"
    listening = plain.served._server.servers[0].sockets[0].getsockname()
    assert listening[0] == "127.0.0.1"


# --- when things go away --------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ef.StoreError("no chunk 3"), FileNotFoundError("no file")])
def test_a_model_that_goes_away_is_told(opened, waves, tmp_path, monkeypatch, error):
    ef.save(ef.fit(waves[:60, :60], ef.smooth(order=2)), tmp_path / "waves.elm")
    client = opened(tmp_path / "waves.elm")
    assert client.json("/facts.json")["title"] == "waves.elm"
    assert client.get("/tile/0/0/0").code == 200

    def gone(*_):
        raise error

    monkeypatch.setattr("elmfield.show.layers.on_plane", gone)
    assert str(error) in client.json("/tile/-1/0/0", 503)["error"]
    assert client.get("/tile/0/0/0").code == 200  # kept


def test_a_port_that_is_taken_is_told(plain, waves):
    scene = scene_of(ef.fit(waves[:40, :40]))
    with pytest.raises(ValueError, match="Choose another port"):
        serve(scene, None, port=plain.place.port)


@pytest.mark.parametrize("method", [True, False])
def test_a_view_shows_itself_and_closes(waves, method):
    some = waves[:40, :40]
    with (
        ef.view(ef.fit(some), samples=some, title="waves", browser=False)
        if method
        else ef.view(some, browser=False)
    ) as served:
        with urlopen(served.url + "facts.json") as answer:
            facts = json.load(answer)
        assert "error" in facts["quantities"]
        assert facts["title"] == ("waves" if method else "field")
        assert served.url in repr(served)
        assert f'src="{served.url}"' in served._repr_html_()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(served.url.split(":")[2][:-1])), timeout=5)
    assert "no longer" in repr(served)


def test_samples_beside_a_field_must_be_its_own(waves):
    with pytest.raises(ValueError, match="what was fitted"):
        scene_of(ef.fit(waves[:40, :40]), samples=waves[:30, :30])
    with pytest.raises(TypeError, match="field already"):
        scene_of(ef.fit(waves[:40, :40]), ef.smooth())
