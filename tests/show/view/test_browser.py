"""The page in a real browser: seen, moved, zoomed, shared; colours against the field's values."""

import io
import math

import numpy as np
import pytest
from PIL import Image

import elmfield as ef
from elmfield.io.view_source import export_view, scene_of
from elmfield.show.pictures import colourise
from scans import scan, turned
from support import close

pytestmark = [pytest.mark.browser, pytest.mark.slow]

READY = """window.elmfield?.picture?.isLoaded && elmfield.picture.viewer.world.getItemCount() > 0
  && elmfield.picture.slots.field?.look.quantity === elmfield.state.quantity"""


@pytest.fixture
def page(chromium):
    """Open an address; nothing may be complained of in the console."""
    context = chromium.new_context(viewport={"width": 1100, "height": 760}, bypass_csp=True)
    complaints = []

    def go(url, ready=READY):
        """A tab at an address; `allowed` complaints are those with one of these words."""
        tab = context.new_page()
        tab.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        tab.on("pageerror", lambda e: complaints.append(str(e)))
        tab.goto(url)
        tab.wait_for_function(ready, timeout=60000)
        return tab

    go.allowed = []
    yield go
    context.close()
    assert [c for c in complaints if not any(a in c for a in go.allowed)] == []


REST = """() => {
  const v = elmfield.picture.viewer.viewport, a = v.getCenter(true), b = v.getCenter(false);
  return v.getZoom(true) === v.getZoom(false) && a.x === b.x && a.y === b.y; }"""
FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def settled(tab):
    """Springs at rest, and all tiles there that are then asked for."""
    for state in (REST, READY, READY):
        tab.evaluate(FRAMES)
        tab.wait_for_function(state, timeout=60000)
    tab.wait_for_timeout(180)  # what is done once nothing moves any more: the address, directions


def go(tab, x, y, zoom):
    tab.evaluate(f"elmfield.picture.go({{x: {x}, y: {y}, zoom: {zoom}}})")
    settled(tab)


def stage(tab):
    """What the browser has drawn of the picture alone, (H, W, 3)."""
    tab.evaluate("document.getElementById('overlay').style.visibility = 'hidden'")
    seen = np.asarray(Image.open(io.BytesIO(tab.locator("#stage").screenshot())).convert("RGB"))
    tab.evaluate("document.getElementById('overlay').style.visibility = ''")
    return seen.astype(int)


def place(tab, row, column):
    p = tab.evaluate(f"elmfield.picture.pixel({row}, {column})")
    return p["x"], p["y"]


def agree(tab, values, colours, low, high, points, off=6):
    """Colours on the screen are those of the field's values, at places of the picture."""
    seen = stage(tab)
    for row, column in points:
        x, y = (math.floor(v) for v in place(tab, row, column))
        expected = colourise(np.asarray([[values(row, column)]]), colours, low, high)[0, 0]
        assert np.abs(seen[y, x] - expected.astype(int)).max() <= off, (row, column)


def typed(tab, low, high):
    for name, value in (("low", low), ("high", high)):
        tab.fill(f"#{name}", str(value))
        tab.press(f"#{name}", "Enter")


def test_colours_are_the_field_s_at_any_zoom(plain, page):
    tab = page(plain.url)
    typed(tab, -1, 2)
    points = [(150.3 + 3 * k, 200.7 - 4 * k) for k in range(-3, 4)]
    # A pixel of the screen may be off by one of a tile's; colours change slowly here.
    go(tab, 200.7, 150.3, 2)
    agree(tab, lambda r, c: float(plain.field([r, c])), "viridis", -1, 2, points)
    go(tab, 200.7, 150.3, 32)
    near = [(150.3 + k, 200.7 - k) for k in range(-3, 4)]
    agree(tab, lambda r, c: float(plain.field([r, c])), "viridis", -1, 2, near, 3)
    assert "32 pixels to a sample" in tab.inner_text("#zoom")


def test_far_out_colours_are_those_of_means(opened, page):
    rough = np.random.default_rng(0).standard_normal((1500, 1500))
    client = opened(rough.astype(np.float32))
    tab = page(client.url)
    typed(tab, -4, 4)
    tab.select_option("#map", "grey")
    go(tab, 750, 750, 0.125)
    seen = stage(tab)
    x, y = map(int, place(tab, 750, 750))
    part = seen[y - 50 : y + 50, x - 50 : x + 50, 0] / 255 * 8 - 4
    # The mean of n by n samples deviates by 1 / n; one of them would by 1.
    zoom = tab.evaluate("elmfield.picture.zoom")
    assert zoom < 0.4
    assert 0.1 * zoom < part.std() < 1.3 * zoom


def test_a_quantity_is_chosen_and_coloured(plain, page):
    tab = page(plain.url)
    tab.click("#quantities [data-key=gradient]")
    settled(tab)
    typed(tab, 0, 0.06)
    tab.select_option("#map", "viridis")
    go(tab, 200, 150, 16)
    slope = lambda r, c: float(np.linalg.norm(plain.field.gradient([r, c])))  # noqa: E731
    agree(tab, slope, "viridis", 0, 0.06, [(150 + k, 200 + 2 * k) for k in range(-5, 6)])
    tab.evaluate("document.activeElement.blur()")
    tab.keyboard.press("3")
    settled(tab)
    assert tab.locator("[aria-checked=true]").first.inner_text() == "Laplacian"


def test_red_green_and_blue_are(colours, page):
    tab = page(colours.url)
    go(tab, 60, 45, 16)
    seen = stage(tab)
    for row, column in ((45.0, 60.0), (40.5, 50.25), (50.0, 70.0)):
        x, y = (math.floor(v) for v in place(tab, row, column))
        expected = np.clip(colours.field([row, column]), 0, 255)
        assert np.abs(seen[y, x] - expected).max() <= 9


def test_a_spline_is_beside_the_field_under_one_slider(plain, page):
    tab = page(plain.url)
    typed(tab, -1, 2)
    go(tab, 100, 100, 32)
    tab.click("#beside [data-key=nearest]")
    settled(tab)
    width = tab.locator("#stage").bounding_box()["width"]
    nearest = lambda r, c: float(plain.field([round(r), round(c)]))  # noqa: E731
    left = [(98.3, 100 - k - 0.2) for k in (4, 7, 9)]
    right = [(98.3, 100 + k - 0.2) for k in (4, 7, 9)]
    agree(tab, nearest, "viridis", -1, 2, left, 3)
    agree(tab, lambda r, c: float(plain.field([r, c])), "viridis", -1, 2, right, 3)
    box = tab.locator("#divider").bounding_box()
    tab.mouse.move(box["x"] + 12, 300)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 12 + 0.4 * width, 300, steps=5)
    tab.mouse.up()
    settled(tab)
    assert tab.evaluate("elmfield.state.split") == pytest.approx(0.9, abs=0.02)
    agree(tab, nearest, "viridis", -1, 2, right[:2], 3)
    tab.focus("#divider")
    tab.keyboard.press("ArrowLeft")
    assert tab.evaluate("elmfield.state.split") == pytest.approx(0.88, abs=0.02)


def test_it_is_moved_by_mouse_and_keys(plain, page):
    tab = page(plain.url)
    go(tab, 200, 150, 8)
    tab.mouse.move(400, 400)
    tab.mouse.down()
    tab.mouse.move(300, 360, steps=8)
    tab.wait_for_timeout(200)
    tab.mouse.up()
    settled(tab)
    view = tab.evaluate("elmfield.picture.view")
    assert view["x"] == pytest.approx(212.5, abs=3)
    assert view["y"] == pytest.approx(155, abs=3)
    tab.keyboard.press("+")
    settled(tab)
    assert tab.evaluate("elmfield.picture.view.zoom") == pytest.approx(16)
    tab.keyboard.press("ArrowRight")
    settled(tab)
    assert tab.evaluate("elmfield.picture.view.x") > view["x"] + 3
    tab.mouse.move(400, 400)
    tab.mouse.wheel(0, -240)
    settled(tab)
    assert tab.evaluate("elmfield.picture.view.zoom") > 16
    tab.keyboard.press("0")
    settled(tab)
    assert tab.evaluate("elmfield.picture.view.x") == pytest.approx(209.5)


def test_the_pointer_reads_place_and_value(months, page):
    tab = page(months.url)
    settled(tab)
    row, column = 10.4, 40.3
    x, y = place(tab, row, column)
    box = tab.locator("#stage").bounding_box()
    tab.mouse.move(box["x"] + x, box["y"] + y)
    tab.wait_for_timeout(100)
    axes = months.field.domain.axes
    latitude = float(axes[1].from_index(np.asarray([row]))[0])
    assert f"{abs(latitude):.1f}°S" in tab.inner_text("#where")
    own = [axes[0].origin, latitude, float(axes[2].from_index(np.asarray([column]))[0])]
    assert float(tab.inner_text("#value").split()[0]) == pytest.approx(
        float(months.field(own)), abs=0.4
    )
    tab.mouse.click(box["x"] + x, box["y"] + y)
    tab.wait_for_selector("#point dd")
    told = dict(
        zip(tab.locator("#point dt").all_inner_texts(), tab.locator("#point dd").all_inner_texts())
    )
    assert float(told["value"].split()[0]) == pytest.approx(float(months.field(own)), abs=0.05)
    assert told["time"].startswith("2023-01-15")
    north, south = place(tab, 25, 30)[1], place(tab, 5, 30)[1]
    assert north < south  # the array runs north; north is up


def test_missing_has_a_colour_of_its_own(months, page):
    tab = page(months.url)
    settled(tab)
    x, y = map(int, place(tab, 22, 17))
    red, green, blue = stage(tab)[y, x]
    assert red == green == blue
    assert 110 <= red <= 130


def test_a_profile_follows_a_line(plain, page):
    tab = page(plain.url)
    go(tab, 200, 150, 16)
    box = tab.locator("#stage").bounding_box()
    tab.keyboard.press("p")
    (x0, y0), (x1, y1) = place(tab, 140, 190), place(tab, 155, 212)
    tab.mouse.move(box["x"] + x0, box["y"] + y0)
    tab.mouse.down()
    tab.mouse.move(box["x"] + x1, box["y"] + y1, steps=4)
    tab.mouse.up()
    tab.wait_for_selector("#profile-panel:not([hidden])")
    tab.wait_for_timeout(500)
    line = tab.evaluate("elmfield.state.line")
    close(line, [140, 190, 155, 212], 0.2)
    assert "23 samples" in tab.get_attribute("#profile-plot", "aria-label") or "22 samples" in (
        tab.get_attribute("#profile-plot", "aria-label")
    )
    tab.click("#profile-close")
    assert tab.evaluate("elmfield.state.line") is None


def test_sliders_and_play(months, page):
    tab = page(months.url)
    typed(tab, 0, 24)
    tab.locator("#slider-0").fill("6")
    settled(tab)
    assert "2023-07-14" in tab.inner_text("#sliders output")

    def warm(row, column):
        axes = months.field.domain.axes
        at = [a.from_index(np.asarray([i]))[0] for a, i in zip(axes, (6.0, row, column))]
        return float(months.field(np.asarray(at)))

    agree(tab, warm, "viridis", 0, 24, [(10.0, 40.0), (5.0, 20.0), (15.0, 50.0)], 14)
    tab.click("#play-0")
    tab.wait_for_function("elmfield.state.at[0] > 7", timeout=60000)
    tab.click("#play-0")
    settled(tab)


def test_an_address_brings_a_view_back(months, page):
    tab = page(months.url)
    tab.click("#quantities [data-key=laplacian]")
    settled(tab)
    go(tab, 33, 12, 25)
    tab.check("#regions")
    tab.select_option("#map", "magma")
    tab.keyboard.press("]")
    settled(tab)
    address = tab.evaluate("location.href")
    before = stage(tab)
    other = page(address)
    settled(other)
    assert other.evaluate("elmfield.state") == tab.evaluate("elmfield.state")
    assert other.evaluate("elmfield.picture.view.zoom") == pytest.approx(25)
    assert np.abs(stage(other) - before).mean() < 0.5


def test_what_is_seen_is_taken_along(opened, waves, page):
    tab = page(opened(waves, title="日本.png").url)
    go(tab, 200, 150, 16)
    with tab.expect_download() as info:
        tab.click("#formats [data-format='.npy']")
    assert info.value.suggested_filename == "日本-value.npy"
    values = np.load(info.value.path())
    window = tab.evaluate("elmfield.picture.window")
    assert values.shape == tuple(round((b - a) * 4) for a, b in (window["rows"], window["columns"]))


def test_directions_are_brighter_the_surer_they_are(opened, page):
    y, x = np.mgrid[0:64, 0:64]
    client = opened(128.0 + 90 * np.sign(np.sin(0.3 * x + 0.2 * y)), ef.oriented())
    tab = page(client.url)
    assert tab.locator("#sure").is_hidden()
    tab.keyboard.press("d")
    tab.wait_for_selector("#sure")
    settled(tab)
    ink = """[...document.getElementById("overlay").getContext("2d")
      .getImageData(0, 0, 4000, 4000).data.reduce((s, v, i, a) => i % 4 === 3 && v > 200
      ? s.add((a[i - 3] << 16) + (a[i - 2] << 8) + a[i - 1]) : s, new Set())]"""
    shown = set(tab.evaluate(ink))
    assert len({0x8C7BFF, 0xD765C4, 0xFF7C6B, 0xFFAE42, 0xFFF07A} & shown) >= 3


def test_why_there_is_no_error_is_told(opened, page, waves):
    client = opened(ef.fit(waves[:60, :60]))
    tab = page(client.url)
    tab.keyboard.press("5")  # after value, gradient, Laplacian and standard deviation
    assert "the error is 0" in tab.inner_text("#toast")
    assert tab.evaluate("elmfield.state.quantity") == "value"


def test_regions_are_drawn_over_it(plain, page):
    tab = page(plain.url)
    go(tab, 200, 150, 8)
    before = stage(tab)
    tab.keyboard.press("r")
    settled(tab)
    changed = np.abs(stage(tab) - before).max(axis=-1) > 20
    assert 0.005 < changed.mean() < 0.3


def test_a_series_is_a_curve_one_can_enter(opened, page):
    values = np.sin(0.05 * np.arange(3000.0))
    client = opened(values)
    tab = page(client.url, "window.elmfield?.series?.data")
    tab.mouse.move(400, 300)
    for _ in range(18):
        tab.mouse.wheel(0, -200)
        tab.wait_for_timeout(60)
    tab.wait_for_timeout(600)
    tab.wait_for_function("elmfield.series.data.samples", timeout=20000)
    low, high = tab.evaluate("[elmfield.series.low, elmfield.series.high]")
    assert high - low < 300
    data = tab.evaluate("elmfield.series.data")
    close(data["values"][0], client.field(np.asarray(data["at"])[:, None]), 1e-5)
    tab.mouse.click(400, 300)
    tab.wait_for_selector("#point dd")


def test_what_goes_wrong_is_told_in_the_page(opened, page, waves, monkeypatch):
    client = opened(waves[:200, :200])
    tab = page(client.url)

    def gone(*_):
        raise OSError("the disk is gone")

    monkeypatch.setattr("elmfield.show.layers.on_plane", gone)
    tab.evaluate("elmfield.picture.go({x: 100, y: 100, zoom: 60})")
    tab.wait_for_selector("#error:not([hidden])")
    assert "the disk is gone" in tab.inner_text("#error-text")
    page.allowed += ["503", "the disk is gone"]


def test_narrow_screens_and_names_for_everything(plain, page):
    tab = page(plain.url)
    tab.set_viewport_size({"width": 380, "height": 720})
    tab.wait_for_timeout(300)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 380
    nameless = tab.evaluate(
        """[...document.querySelectorAll("button, input, select, [role=slider]")].filter((e) =>
          !(e.ariaLabel || e.innerText.trim() || e.labels?.length)).map((e) => e.id)"""
    )
    assert nameless == []


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_words_can_be_read_on_either_ground(plain, page, theme):
    tab = page(plain.url)
    tab.evaluate(f"document.documentElement.dataset.theme = '{theme}'")

    def light(name):
        colour = tab.evaluate(
            f"getComputedStyle(document.documentElement).getPropertyValue('{name}').trim()"
        )
        rgb = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        rgb = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
        return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]

    for ink, ground in (
        ("--ink", "--panel"), ("--quiet", "--panel"), ("--quiet", "--raised"),
        ("--on-accent", "--accent"), ("--bad", "--panel"),
    ):  # fmt: skip
        a, b = sorted((light(ink), light(ground)))
        assert (b + 0.05) / (a + 0.05) >= 4.5, (ink, ground)


def in_front(tab):
    """The picture of a page that is seen: others are drawn late, or not at all."""
    tab.bring_to_front()
    return stage(tab)


def test_the_exported_page_of_the_demo_shows_the_same(opened, page, tmp_path):
    # As `make demo` writes it beside its report, with fewer tiles.
    picture = pytest.importorskip("skimage.data").camera().astype(float)
    field = ef.fit(picture, ef.smooth())
    export_view(scene_of(field, samples=picture), tmp_path, size=6 << 20)
    still = page((tmp_path / "index.html").as_uri())  # as by a double click
    live = page(opened(field, samples=picture).url)
    for quantity in ("value", "gradient"):
        for tab in (still, live):
            tab.bring_to_front()
            tab.click(f"#quantities [data-key={quantity}]")
            settled(tab)  # its own range has come, and will not replace what is typed
            typed(tab, 0, 255)
            go(tab, 256, 256, 1)
        for _ in range(80):  # tiles fade in; the first ones may be first looks
            pictures = [in_front(tab) for tab in (still, live)]
            gap = np.abs(pictures[0] - pictures[1]).max()
            if gap <= 2:
                break
            live.wait_for_timeout(250)
        # 16 bits instead of 24: a colour may fall to its neighbour.
        assert gap <= 2, quantity
        assert pictures[0].std() > 10


def test_an_exported_page_is_walked_into_without_a_server(page, picture, tmp_path):
    export_view(scene_of(picture, channel_axis=-1), tmp_path, size=2 << 20)
    tab = page((tmp_path / "index.html").as_uri())
    field = ef.fit(picture, channel_axis=-1)
    go(tab, 60, 45, 8)
    seen = stage(tab)
    for row, column in ((45.0, 60.0), (40.5, 50.25)):
        x, y = (math.floor(v) for v in place(tab, row, column))
        assert np.abs(seen[y, x] - np.clip(field([row, column]), 0, 255)).max() <= 9
    tab.click("#beside [data-key=cubic]")
    tab.keyboard.press("r")
    settled(tab)
    box = tab.locator("#stage").bounding_box()
    tab.keyboard.press("p")
    tab.mouse.move(box["x"] + 300, box["y"] + 200)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 500, box["y"] + 300, steps=4)
    tab.mouse.up()
    tab.wait_for_selector("#profile-panel:not([hidden])")
    tab.wait_for_function("location.hash.includes('line=')", timeout=60000)
    other = page(tab.evaluate("location.href"))
    close(other.evaluate("elmfield.state.line"), tab.evaluate("elmfield.state.line"), 1e-6)
    assert other.evaluate("elmfield.state.beside") == "cubic"


def test_an_exported_series_is_drawn_without_a_server(page, tmp_path):
    values = np.sin(0.05 * np.arange(600.0))
    export_view(scene_of(values), tmp_path)
    tab = page((tmp_path / "index.html").as_uri(), "window.elmfield?.series?.data")
    assert tab.evaluate("elmfield.series.value(300)[0]") == pytest.approx(math.sin(15), abs=1e-2)


def test_a_tile_that_is_gone_is_told(page, waves, tmp_path):
    export_view(scene_of(waves[:60, :60]), tmp_path, size=1 << 20)
    for path in (tmp_path / "tiles" / "gradient-field").rglob("*.js"):
        path.unlink()
    tab = page((tmp_path / "index.html").as_uri())
    tab.click("#quantities [data-key=gradient]")
    tab.wait_for_selector("#error:not([hidden])")
    assert "tiles/gradient-field/" in tab.inner_text("#error-text")
    page.allowed += ["ERR_FILE_NOT_FOUND", "cannot be read"]


THREE = "elmfield.panes.panes.length === 2 && elmfield.panes.panes.every((p) => p.picture.isLoaded)"


def test_three_planes_of_a_scan_go_through_one_place(opened, page):
    head = scan(turned((0, 0, 0), (2, 2, 3), (5, 9, -7), (-1, -1, 1)), (40, 44, 30))
    client = opened(head)
    tab = page(client.url)
    tab.wait_for_function(THREE, timeout=60000)
    assert tab.locator(".pane").all_inner_texts() == ["coronal ⤢", "sagittal ⤢"]
    assert tab.evaluate("elmfield.facts.plane.letters") == "APRL"
    assert tab.input_value("#map") == "grey"
    assert tab.input_value("#percent") == "1"
    x, y = (
        tab.evaluate(f"elmfield.panes.panes[0].picture.pixel(21.5, 12.25).{side}") for side in "xy"
    )
    tab.locator(".pane").nth(0).click(position={"x": x, "y": y})
    settled(tab)
    close(tab.evaluate("elmfield.state.cross"), [12.25, 21, 21.5], 0.3)
    close(tab.evaluate("elmfield.state.at"), [21.5], 0.3)
    cross = tab.evaluate("elmfield.state.cross")
    typed(tab, -2, 2)

    def value(*index):
        axes = client.field.domain.axes
        return float(client.field(np.asarray([a.from_index(v) for a, v in zip(axes, index)])))

    def axial(row, column):
        return value(column, row, cross[2])

    agree(tab, axial, "grey", -2, 2, [(10.0, 12.0), (30.0, 25.0)], 8)
    before = stage(tab)
    tab.locator(".pane button").nth(1).click()
    settled(tab)
    tab.wait_for_function(THREE, timeout=60000)
    assert tab.input_value("#plane") == "2"
    agree(tab, lambda r, c: value(cross[0], c, r), "grey", -2, 2, [(10.0, 12.0), (20.0, 30.0)], 8)
    address = tab.evaluate("location.href")
    other = page(address)
    settled(other)
    assert other.evaluate("elmfield.facts.plane.name") == "sagittal"
    close(other.evaluate("elmfield.state.cross"), cross, 1e-6)
    other.select_option("#plane", "0")
    other.uncheck("#three")
    settled(other)
    assert other.locator(".pane").count() == 0
    assert stage(other).shape[1] > before.shape[1]


def test_windows_of_a_ct_are_offered(opened, page):
    values = np.linspace(-1000, 1500, 12 * 12 * 8).reshape(12, 12, 8)
    tab = page(opened(scan(np.diag([2.0, 2, 2, 1]), (12, 12, 8), values)).url)
    tab.select_option("#percent", "lung")
    assert [float(tab.input_value(f"#{end}")) for end in ("low", "high")] == [-1350, 150]
    assert "window 1500, level −600" in tab.inner_text("#window-width")
    tab.keyboard.press("v")
    settled(tab)
    assert tab.evaluate("elmfield.facts.plane.name") == "coronal"
    assert tab.input_value("#percent") == "lung"


def test_any_two_axes_of_other_arrays_are_shown(months, page):
    tab = page(months.url)
    assert tab.locator(".pane").count() == 0
    assert tab.locator("#percent [data-window]").count() == 0
    tab.select_option("#plane", label="time × longitude")
    settled(tab)
    assert "latitude" in tab.inner_text("#sliders")
    typed(tab, 0, 24)
    axes = months.field.domain.axes

    def warm(row, column):
        index = (row, tab.evaluate("elmfield.state.at[0]"), column)
        return float(months.field(np.asarray([a.from_index(v) for a, v in zip(axes, index)])))

    agree(tab, warm, "viridis", 0, 24, [(3.0, 40.0), (6.0, 25.0)], 14)
