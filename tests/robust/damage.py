"""Model files with something wrong in them: bytes, entries, metadata, and what a folder may hold.

Each case says what may come out of it. "damage" happens by itself: a file that is damaged must be
refused, or answer as it did before. A "lie" is told by somebody who can count check sums: whatever
is answered, nothing else may go wrong.
"""

import json
import os
import shutil
import signal
import warnings
import zipfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import elmfield as ef
from elmfield._array import running
from robust.processes import cut_short
from support import on_samples

GOLDEN = Path(__file__).parents[1] / "io" / "model" / "golden"

ODD = [
    None, float("nan"), float("inf"), -1, 0, 1, 0.5, 1e308, 1 << 63, 1 << 200, "", "x", "NaN",
    "listed", [], {}, [[]], [None], True, False, [0] * 3, [1e400], {"$float": "nan"}, {"$date": 1},
    "product", "neurons", "oriented", "float16", -(1 << 62), [[[[]]]],
]  # fmt: skip
"""What a value of the metadata may be turned into."""

SECONDS = 30
"""After which an attempt counts as hung."""


class Hung(BaseException):
    """An attempt that did not come to an end."""


@contextmanager
def limited(seconds=SECONDS):
    """Raise Hung if the body takes longer."""

    def ring(*_):
        raise Hung

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@dataclass(frozen=True)
class Base:
    """A model that is whole: its entries, and what it answers."""

    name: str
    entries: dict
    answers: tuple
    is_new: bool

    @property
    def arrays(self):
        """Names of its blocks."""
        return [k for k in self.entries if not k.endswith("zarr.json")]


def answers(path):
    """What a model says: at some points, its samples, and the function at all of them."""
    field = ef.load(path)
    low, high = np.asarray(field.domain.low), np.asarray(field.domain.high)
    at = low + (high - low) * np.random.default_rng(0).random((7, len(low)))
    at = np.stack([a.from_index(x) for a, x in zip(field.domain.axes, at.T)], axis=-1)
    found = [field(at, missing="fill")]
    if not field.model.blended.is_scattered:
        found += [field.samples(missing="fill"), on_samples(field, "fill")]
    return tuple(np.asarray(f) for f in found)


def again(path):
    """Save what a model says as another one; or raise an error that blames the model."""
    try:
        ef.save(ef.load(path), path.with_name("again.elm"))
    except ValueError as error:
        raise ef.StoreError(str(error)) from error


def bases(folder):
    """Models of every kind: the golden ones, and some made now."""
    running.pays(running.MIN_SAMPLES)  # all answers from the same loops: others differ in rounding
    y, x = np.mgrid[0:24, 0:30]
    values = 280 + 20 * np.sin(0.3 * y) * np.cos(0.17 * x)
    rgb = np.stack([values, values[::-1], 600 - values], -1).astype("f4")
    gaps = np.where(values > 295, np.nan, values).astype("f4")
    made = {
        "exact": ef.fit(values),
        "coded": ef.fit(rgb, ef.smooth(psnr=40), channel_axis=-1),
        "kept": ef.fit(rgb, ef.smooth(coefficients=900), channel_axis=-1),
        "paper": ef.fit(values, ef.paper(cell=12, width=40)),
        "own layers": ef.fit(values, ef.paper(cell=12, width=40, layers="own")),
        "beam": ef.fit(values, ef.paper(width=30), partition=ef.beam(values, cell=6, regions=7)),
        "gaps": ef.fit(gaps, missing="nan", coords=[np.linspace(9, 3, 24), np.arange(30.0) ** 1.1]),
        "oriented": ef.fit(values.astype("f4"), ef.oriented(order=1.5)),
        "scattered": ef.fit_points(
            np.stack([y.ravel(), x.ravel()], 1)[::7].astype(float), values.ravel()[::7]
        ),
    }
    places = {name: folder / f"{name}.elm" for name in made}
    for name, field in made.items():
        ef.save(field, places[name])
    places |= {f"golden {p.stem}": p for p in sorted(GOLDEN.glob("*.elm"))}
    found = []
    for name, path in places.items():
        with zipfile.ZipFile(path) as archive:
            entries = {n: archive.read(n) for n in archive.namelist()}
        found.append(Base(name, entries, answers(path), name in made))
    return found


# --- ways to go wrong -----------------------------------------------------------------------------


def flipped(rng, data):
    """Some bits the other way round."""
    bad = bytearray(data or b"\0")
    for _ in range(int(rng.integers(1, 4))):
        bad[int(rng.integers(len(bad)))] ^= 1 << int(rng.integers(8))
    return bytes(bad)


def cut(rng, data):
    """Only the beginning."""
    return data[: int(rng.integers(len(data) + 1))]


def zeroed(rng, data):
    """A run of zeros, as a disk leaves it."""
    a = int(rng.integers(len(data) + 1))
    n = int(rng.integers(1, 600))
    return data[:a] + bytes(len(data[a : a + n])) + data[a + n :]


def longer(rng, data):
    """Something in between."""
    a = int(rng.integers(len(data) + 1))
    return data[:a] + rng.bytes(int(rng.integers(1, 40))) + data[a:]


def moved(rng, data):
    """Two pieces exchanged."""
    a, b, c = sorted(int(v) for v in rng.integers(len(data) + 1, size=3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


BYTES = (flipped, cut, zeroed, longer, moved)


def changed_value(rng, found):
    """A JSON document with one value changed, or one key gone."""
    places = []

    def walk(inner):
        for key in inner if isinstance(inner, dict) else range(len(inner)):
            places.append((inner, key))
            if isinstance(inner[key], (dict, list)):
                walk(inner[key])

    walk(found)
    inner, key = places[int(rng.integers(len(places)))]
    kind = int(rng.integers(10))
    if kind == 0:
        del inner[key]
    elif kind == 1:
        deep = []
        for _ in range(500):
            deep = [deep]
        inner[key] = deep
    elif kind < 4 and isinstance(inner[key], (int, float)):
        inner[key] = inner[key] * float(rng.choice([-1, 2, 0.5, 1e6, 1e-6]))
    else:
        inner[key] = ODD[int(rng.integers(len(ODD)))]
    return found


def bomb(rng):
    """A JSON document of up to 64 MiB that a few thousand bytes unpack to."""
    size = int(rng.choice([1 << 12, 1 << 20, 1 << 23, (1 << 26) - 100]))
    kind = str(rng.choice(["[]", "{}", "0", '"ab"', "1e9", '{"a":[]}', "[[0]]", "string", "deep"]))
    if kind == "string":
        inner = f'"{"a" * (size - 30)}"'
    elif kind == "deep":
        inner = "[" * min(size // 2, 1 << 20) + "]" * min(size // 2, 1 << 20)
    else:
        inner = f"[{','.join([kind] * (size // (len(kind) + 1) - 10))}]"
    return f'{{"attributes":{{"elmfield":{inner}}}}}'.encode()


def with_digest(root):
    """Metadata whose digest is right, as far as that can be said."""
    meta = _meta(root)
    if meta is not None:
        meta.pop("digest", None)
    return root


def _meta(root):
    """The metadata in a document, if they are there."""
    about = root.get("attributes")
    meta = about.get("elmfield") if isinstance(about, dict) else None
    return meta if isinstance(meta, dict) else None


def one_case(rng, every, folder):
    """A damaged model in `folder`; its base, its path, what was done, and whether it is a lie."""
    base = every[int(rng.integers(len(every)))]
    entries = dict(base.entries)
    whole = bool(rng.integers(2))  # a folder
    path = folder / ("model.elm.zarr" if whole else "model.elm")
    names = list(entries)
    ways = ["bytes", "entry", "swap", "other", "value", "lie", "settings", "array", "thing", "bomb"]
    what = str(rng.choice(ways, p=[0.12] * 7 + [0.06, 0.09, 0.01]))
    lie = False
    if what == "swap" and not (base.is_new and len(base.arrays) > 1):
        what = "entry"
    if what == "thing" and not whole:
        what = "bytes"
    if what == "entry":
        key = names[int(rng.integers(len(names)))]
        if rng.integers(4) == 0:
            del entries[key]
        else:
            entries[key] = BYTES[int(rng.integers(len(BYTES)))](rng, entries[key])
    elif what == "swap":
        a, b = rng.choice(base.arrays, 2, replace=False)
        entries[a], entries[b] = entries[b], entries[a]
    elif what == "other":
        donor = every[int(rng.integers(len(every)))]
        shared = [k for k in base.arrays if k in donor.entries]
        if base.is_new and shared:
            key = shared[int(rng.integers(len(shared)))]
            entries[key] = donor.entries[key]
    elif what == "bomb":
        keys = [k for k in names if k.endswith("zarr.json")]
        entries[keys[int(rng.integers(len(keys)))]] = bomb(rng)
        lie = True
    elif what in ("value", "lie", "settings", "array"):
        keys = [k for k in names if k.endswith("zarr.json")]
        key = keys[int(rng.integers(len(keys)))] if what == "array" else "zarr.json"
        found = json.loads(entries[key])
        if what == "settings":
            changed_value(rng, _meta(found)["settings"])
        else:
            changed_value(rng, found)
        lie = what != "value" or key != "zarr.json"
        entries[key] = json.dumps(with_digest(found) if lie else found).encode()
        if not lie and not _is_meta(found, base):
            lie = True  # what is outside the digest is Zarr's own
    if whole:
        write_folder(path, entries)
        if what == "thing":
            what = put_thing(rng, path, names)
        elif what == "bytes":
            key = names[int(rng.integers(len(names)))]
            (path / key).write_bytes(BYTES[int(rng.integers(len(BYTES)))](rng, entries[key]))
    else:
        write_archive(path, entries)
        if what == "bytes":
            path.write_bytes(BYTES[int(rng.integers(len(BYTES)))](rng, path.read_bytes()))
    return base, path, what, lie


def _is_meta(found, base):
    """Whether a change lies in what the digest covers."""
    was = json.loads(base.entries["zarr.json"])
    return {k: v for k, v in found.items() if k != "attributes"} == {
        k: v for k, v in was.items() if k != "attributes"
    } and _meta(found) is not None


def write_archive(path, entries):
    """The entries as one file, large documents compressed."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in entries.items():
            large = name.endswith("zarr.json") and len(data) > 1 << 16
            archive.writestr(name, data, zipfile.ZIP_DEFLATED if large else zipfile.ZIP_STORED)


def write_folder(path, entries):
    """The entries as a folder."""
    for name, data in entries.items():
        place = path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def put_thing(rng, path, names):
    """Something that is no file where one was."""
    place = path / names[int(rng.integers(len(names)))]
    place.unlink()
    kind = str(rng.choice(["folder", "loop", "nowhere", "endless", "pipe", "up"]))
    if kind == "folder":
        place.mkdir()
    elif kind == "loop":
        place.symlink_to(place.name)
    elif kind == "nowhere":
        place.symlink_to("not/there")
    elif kind == "endless":
        place.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to("..")
    return kind


# --- what comes out -------------------------------------------------------------------------------


def outcome(base, path, lie):
    """ "refused", "the same", "another" (of a lie), or what is wrong."""
    try:
        with limited(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = answers(path)
            if lie:
                again(path)
    except ef.StoreError:
        return "refused"
    except Hung:
        return "hung"
    except Exception as error:
        return f"foreign: {type(error).__name__}: {error}"
    if all(map(np.array_equal, found, base.answers)) and len(found) == len(base.answers):
        return "the same"
    return "another" if lie else "wrong"


def attempt(seed, every, folder):
    """What comes of the case with this seed: how it was damaged, and the outcome."""
    place = Path(folder) / f"case-{zlib.crc32(str(seed).encode())}"
    place.mkdir()
    try:
        base, path, what, lie = one_case(np.random.default_rng(seed), every, place)
        return f"{base.name}, {path.suffix}, {what}", outcome(base, path, lie)
    finally:
        shutil.rmtree(place)


# --- folders in which work lies -------------------------------------------------------------------


def spoil(rng, folder, outside):
    """Damage some files below a folder, and put things there that nobody expects."""
    places = sorted(p for p in folder.rglob("*") if not p.is_symlink())
    for place in places:
        if rng.random() < 0.7 or not place.exists():
            continue
        kind = str(rng.choice(["bytes", "gone", "link", "link up", "pipe", "folder", "json"]))
        if place.is_file() and kind == "bytes":
            place.write_bytes(BYTES[int(rng.integers(len(BYTES)))](rng, place.read_bytes()))
            continue
        shutil.rmtree(place) if place.is_dir() else place.unlink()
        if kind == "link":
            place.symlink_to(outside)
        elif kind == "link up":
            place.symlink_to("..")
        elif kind == "pipe":
            os.mkfifo(place)
        elif kind == "folder":
            place.mkdir()
        elif kind == "json":
            place.write_text(json.dumps(ODD[int(rng.integers(len(ODD)))]))
    for name in ("moves.json", "plan.json", "lock", "levels", "zarr.json", "packed"):
        place = folder / name
        if folder.is_dir() and not folder.is_symlink() and rng.random() < 0.2:
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            place.unlink(missing_ok=True)
            if rng.integers(2):
                place.symlink_to(outside / "precious")
            else:
                place.write_text(json.dumps(["../outside/precious", "../../precious"]))


def spoiled(seed, folder):
    """What comes of work that goes on in a folder which somebody has changed.

    "done" if the model is right or was "refused", else what is wrong.
    """
    rng = np.random.default_rng([7, *seed])
    place = Path(folder) / f"case-{zlib.crc32(str(seed).encode())}"
    outside = place / "outside"
    outside.mkdir(parents=True)
    (outside / "precious").write_text("precious")
    path = place / "model.elm.zarr"
    values = np.cumsum(rng.integers(0, 9, (40, 30)), 0).astype("f4")
    grows = bool(rng.integers(2))
    if grows:
        ef.fit(values[:25], ef.smooth(order=2), out=path)

    def work():
        if grows:
            return ef.append(path, values[25:])
        return ef.fit(values, ef.smooth(order=2, max_error=0.4), out=path, memory_limit=1 << 16)

    try:
        cut_short(work, int(rng.integers(5, 60)))
        hidden = place / ".model.elm.zarr.partial"
        if grows and rng.integers(2):
            for new in path.glob("next-*"):
                spoil(rng, new, outside)
        else:
            hidden.mkdir(exist_ok=True)
            spoil(rng, hidden, outside)
        if grows and rng.integers(2):
            (path / ".zarr.json.new").unlink(missing_ok=True)
            (path / ".zarr.json.new").symlink_to(outside / "precious")
        if rng.random() < 0.1:
            shutil.rmtree(hidden, ignore_errors=True)
            hidden.symlink_to(outside)
        try:
            with limited(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                field = work()
                found = field.samples()
        except ef.StoreError:
            found = None
        except Hung:
            return "hung"
        except Exception as error:
            return f"foreign: {type(error).__name__}: {error}"
        if [p.name for p in outside.iterdir()] != ["precious"]:
            return "wrong: something was written outside"
        if (outside / "precious").read_text() != "precious":
            return "wrong: something outside was changed"
        if found is None:
            return "refused"
        far = found.shape != values.shape or np.abs(found - values).max() > 0.4
        return "wrong: other samples" if far else "done"
    finally:
        shutil.rmtree(place)
