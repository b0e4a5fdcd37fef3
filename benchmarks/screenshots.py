"""Pictures for README.md and docs/view.md: of the page, made by a browser, and of a gallery script.

    python benchmarks/screenshots.py     writes docs/pictures/*.jpg

Needs playwright, a Chromium of the system's, scikit-image (which ships the photographs) and xarray.
"""

import io
import runpy
import shutil
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright
from skimage.data import astronaut, camera

import elmfield as ef

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
MAX_BYTES = 150_000
READY = "elmfield.picture?.isLoaded || elmfield.series?.data"


def ocean():
    """Two years of a sea that warms and cools, with two islands; a map that knows its degrees."""
    import xarray as xr

    lat, lon = -88 + 2.0 * np.arange(89), 2.0 * np.arange(180)
    phi, lam = np.deg2rad(lat)[:, None], np.deg2rad(lon)
    month = np.arange(24)[:, None, None] * np.pi / 6
    warm = 28 * np.cos(phi) ** 2 - 2 + 4 * np.sin(phi) * np.cos(month)
    warm = warm + 3 * np.cos(phi) * np.cos(3 * lam + month) + np.sin(5 * lam - 6 * phi)
    for y, x, r in ((22, 40, 24), (-8, 250, 18)):
        warm[:, np.hypot((lat[:, None] - y) * 1.2, lon - x + 6 * np.sin(lat[:, None] / 6)) < r] = (
            np.nan
        )
    return xr.DataArray(
        warm.astype(np.float32),
        coords={
            "time": np.datetime64("2023-01-15", "ns") + 30 * np.arange(24) * np.timedelta64(1, "D"),
            "latitude": ("latitude", lat, {"units": "degrees_north"}),
            "longitude": ("longitude", lon, {"units": "degrees_east"}),
        },
        dims=("time", "latitude", "longitude"),
        name="sea temperature",
        attrs={"units": "°C"},
    )


def zoomed(page):
    """Past the pixels, nearest beside it, and a profile."""
    page.evaluate("elmfield.picture.go({x: 232, y: 138, zoom: 18})")
    page.click("#beside [data-key=nearest]")
    page.wait_for_timeout(1500)
    page.click("#profile")
    page.mouse.move(480, 190)
    page.mouse.down()
    page.mouse.move(740, 420, steps=6)
    page.mouse.up()


def mapped(page):
    """A map, a mark on it, a month later."""
    page.locator("#slider-0").fill("6")
    page.wait_for_timeout(1500)
    page.mouse.click(560, 330)


def sloped(page):
    """The gradient of a photograph."""
    page.click("#quantities [data-key=gradient]")
    page.evaluate("elmfield.picture.go({x: 230, y: 120, zoom: 5})")


def believed(page):
    """Regions and the directions they believe in."""
    page.evaluate("elmfield.picture.go({x: 230, y: 130, zoom: 13})")
    page.check("#directions")
    page.wait_for_timeout(2500)


PICTURES = {
    "view": (lambda: (camera(), None, {"title": "camera"}), zoomed, "dark"),
    "view-map": (lambda: (ocean(), None, {}), mapped, "dark"),
    "view-gradient": (
        lambda: (astronaut(), None, {"channel_axis": -1, "title": "astronaut"}),
        sloped,
        "light",
    ),
    "view-directions": (
        lambda: (camera(), ef.oriented(), {"title": "camera, oriented()"}),
        believed,
        "light",
    ),
}


def drawn(script, name):
    """The last figure of a script of the gallery, as a picture."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    runpy.run_path(str(FOLDER.parent / "gallery" / f"{script}.py"))
    plt.savefig(FOLDER / f"{name}.jpg", dpi=100, pil_kwargs={"quality": 92})
    plt.close("all")


def save_small(picture, path):
    """Save at the highest quality that keeps the file below `MAX_BYTES`."""
    for quality in range(90, 50, -5):
        picture.save(path, quality=quality, optimize=True)
        if path.stat().st_size < MAX_BYTES:
            break


def main():
    """Open each page, act, keep what is seen."""
    FOLDER.mkdir(exist_ok=True)
    drawn("between_the_pixels", "between")
    found = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for name, (given, act, scheme) in PICTURES.items():
            values, settings, options = given()
            with ef.view(values, settings, browser=False, **options) as served:
                context = browser.new_context(
                    viewport={"width": 1120, "height": 720}, color_scheme=scheme, bypass_csp=True
                )
                page = context.new_page()
                page.goto(served.url)
                page.wait_for_function(READY, timeout=120000)
                act(page)
                page.wait_for_timeout(1000)
                page.wait_for_function(READY, timeout=120000)
                page.wait_for_timeout(1000)
                seen = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
                save_small(seen, FOLDER / f"{name}.jpg")
                context.close()
            print(f"{name}.jpg", flush=True)
        browser.close()


if __name__ == "__main__":
    main()
