"""Tiles with loss beside other codecs: rate against distortion, hard bounds, speed.

    python benchmarks/codec.py                        everything that is not recorded yet
    python benchmarks/codec.py bounds speed           some sections
    python benchmarks/codec.py --anew elmfield        ours measured again, the others as recorded
    python benchmarks/codec.py pictures --minutes 4   as far as that goes; call it again to go on

Sections: pictures, colour, fields, volumes, bounds, printed, speed, curves. Each rewrites its part
of ``results/codec.json`` array by array and codec by codec, so a run that is broken off can be gone
on with; ``benchmarks/tables.py`` turns that into the tables of the documents, and the last section
draws ``docs/pictures/codec.png``. ``benchmarks/lossless.py`` has what is packed without loss.

Rates are bits per sample at equal PSNR, all headers counted; between two settings of a codec around
a target, less than 1 dB apart, the logarithm of the rate is interpolated. Every array is coded with
tables that were not trained on it.
"""

import math
import sys
import time
from functools import partial
from unittest import mock

import numpy as np

from codec_rivals import ARRAYS, BESIDE, PICTURES, at_targets, psnr
from codec_tables import CURVES, OURS, PLAIN, TARGETS, finished, means
from codec_training.tables import unseen
from common import RESULTS, ROOT, asked, record, rows_of
from elmfield import codec
from elmfield._array import running
from measurement import records
from measurement.samples import KODAK, WEATHER, colour, sample

BOUNDS = (1e-2, 1e-3, 1e-4)
SETTINGS = (30, 35, 40)
"""Steps for `printed`: those that give about this PSNR."""


def ours(channel_axis=None):
    """Our codec behind the same door as the others; the knob is the step."""

    def code(values, step):
        data = codec.pack(values, step=step, channel_axis=channel_axis)
        return data, codec.unpack(data)

    return code, "error"


class Sheet:
    """Rows of a section that are filled codec by codec, and kept whenever one is done.

    Parameters
    ----------
    section : str
        Its name.
    deadline : float
        When to stop, in seconds of the clock.
    keys : tuple of str
        What tells rows apart.
    about : dict
        Recorded beside them.
    """

    def __init__(self, section, deadline, keys=("data",), **about):
        self.section, self.deadline, self.keys, self.about = section, deadline, keys, about
        try:
            found = rows_of("codec", section)
        except records.NotRecorded:
            found = []
        self.rows = {tuple(row[k] for k in keys): row for row in found}

    def fill(self, key, name, make):
        """What `make` gives as column `name` of a row, unless it is there."""
        row = self.rows.setdefault(key, dict(zip(self.keys, key)))
        if name in row:
            return
        if time.monotonic() > self.deadline:
            sys.exit("Time is up; call it again to go on.")
        row[name] = make()
        print(*key, name, row[name], flush=True)
        record("codec", self.section, list(self.rows.values()), **self.about)


def curves_of(section, deadline, names, load, codecs, channel_axis=None):
    """A row for each array: bits per sample by codec and target."""
    sheet = Sheet(section, deadline, targets=TARGETS)
    for name in names:
        values, peak = load(name)
        for label in (OURS, *codecs):
            code, kind = ours(channel_axis) if label == OURS else (PICTURES | ARRAYS)[label]
            with unseen(name):
                sheet.fill((name,), label, partial(at_targets, code, kind, values, peak, TARGETS))


def pictures(deadline):
    names = ("JPEG", "JPEG 2000", "JPEG XL", "ZFP", "SZ3", "SPERR")
    curves_of("pictures", deadline, KODAK, sample, names)


def in_colour(deadline):
    names = ("JPEG", "JPEG 2000", "JPEG XL", "WebP")
    curves_of("colour", deadline, KODAK, colour, names, channel_axis=2)


def fields(deadline):
    curves_of("fields", deadline, WEATHER, sample, ("JPEG 2000", "ZFP", "SZ3", "SPERR"))


def volumes(deadline):
    curves_of("volumes", deadline, ("ns", "brain"), sample, ("ZFP", "SZ3", "SPERR"))


def bounds(deadline):
    sheet = Sheet("bounds", deadline, keys=("data", "bound"))
    for name in (*WEATHER, "ns", *KODAK):
        values, peak = sample(name)
        for part in BOUNDS if name not in KODAK else BOUNDS[:1]:
            with unseen(name):
                sheet.fill((name, part), OURS, partial(_bounded, values, part * peak))
            for label in ("SZ3", "SPERR bound", "ZFP"):
                sheet.fill((name, part), label, partial(_bits, label, values, part * peak))


def _bounded(values, bound):
    """Our bits per sample within a bound, and the largest error in parts of it."""
    data = codec.pack(values, max_error=bound)
    worst = np.abs(codec.unpack(data).astype(float) - values).max() / bound
    return {"bits": 8 * len(data) / values.size, "worst": float(worst)}


def _bits(label, values, bound):
    """Bits per sample of another codec within a bound."""
    return 8 * len(ARRAYS[label][0](values, bound)[0]) / values.size


def printed(deadline):
    """Means over the pictures in colour at equal steps, as others print them."""
    sheet = Sheet("printed", deadline, keys=("setting",), pictures=len(KODAK))
    for setting in SETTINGS:
        sheet.fill((setting,), OURS, partial(_mean, setting))


def _mean(setting):
    """Bits per pixel and PSNR at one step, means over the pictures."""
    found = []
    for name in KODAK:
        values, peak = colour(name)
        data, back = ours(2)[0](values, 3.5 * peak * 10 ** (-setting / 20))
        found.append((8 * len(data) / (values.size / 3), psnr(values, back, peak)))
    bits, quality = np.mean(found, axis=0).tolist()
    return {"bits per pixel": bits, "psnr": quality}


# --- time -----------------------------------------------------------------------------------------

CASES = (
    ("kodim05", 40, None),
    ("kodim05", 50, None),
    ("kodim23", 40, None),
    (WEATHER[0], 50, None),
    (WEATHER[0], None, 1e-2),
    (WEATHER[0], None, 1e-3),
)
"""Data, and a PSNR or a bound as a part of the range."""


def _seconds(work, times=5):
    """Least seconds of processor time of a few runs, and what the last gave."""
    best = math.inf
    for _ in range(times):
        start = time.process_time()
        made = work()
        best = min(best, time.process_time() - start)
    return best, made


def speed(deadline):
    sheet = Sheet("speed", deadline, keys=("data", "psnr", "bound", "codec"))
    for name, target, bound in CASES:
        values, peak = sample(name)
        how = {"max_error": bound * peak} if bound else {"step": 3.5 * peak * 10 ** (-target / 20)}
        doors = partial(codec.pack, **how), codec.unpack
        for label in (OURS, PLAIN):
            pays = partial(_is, label == OURS)
            with mock.patch.object(running, "pays", pays):
                key = (name, target, bound, label)
                sheet.fill(key, "found", partial(_rates, *doors, np.float32(values)))
    name, target, _ = CASES[0]
    for label, doors in BESIDE.items():
        key = (name, target, None, label)
        sheet.fill(key, "found", partial(_rates, *doors, sample(name)[0]))


def _is(answer, work):
    """Whether loops are compiled, however much there is to do."""
    return answer and running.installed()


def _rates(write, read, values):
    """Megabytes of float32 in a second, whatever a codec takes samples as."""
    encode, data = _seconds(lambda: write(values))
    decode, _ = _seconds(lambda: read(data))
    megabytes = 4 * values.size / 1e6
    return {"bits": 8 * len(data) / values.size} | {
        "encode": megabytes / encode,
        "decode": megabytes / decode,
    }


# --- drawn ----------------------------------------------------------------------------------------


def curves(deadline):
    """Rate against distortion, means over the arrays of a section."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator

    figure, panels = plt.subplots(2, 2, figsize=(9, 7), layout="constrained")
    colours = dict(zip((OURS, *PICTURES, *ARRAYS), plt.get_cmap("tab10").colors))
    for axes, (title, section, keep) in zip(panels.flat, CURVES):
        try:
            rows = [row for row in finished(section) if keep(row)]
        except records.NotRecorded:
            axes.set_axis_off()
            continue
        for label in [k for k in rows[0] if k != "data"]:
            bits = means(rows, label)
            at = [(b, t) for b, t in zip(bits, TARGETS) if b is not None]
            style = {"lw": 2.5, "zorder": 3} if label == OURS else {"lw": 1.2}
            axes.plot(*zip(*at), "o-", ms=3, label=label, color=colours[label], **style)
        axes.set(title=f"{title}, {len(rows)}", xlabel="bits per sample", ylabel="PSNR, dB")
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
        axes.grid(alpha=0.3, which="both")
        axes.legend(fontsize=8)
    place = ROOT / "docs" / "pictures" / "codec.png"
    figure.savefig(place, dpi=90)
    print("drawn:", place.relative_to(ROOT))


SECTIONS = {
    "pictures": pictures,
    "colour": in_colour,
    "fields": fields,
    "volumes": volumes,
    "bounds": bounds,
    "printed": printed,
    "speed": speed,
    "curves": curves,
}


def forget(sections, names):
    """Take what some codecs had out of the record."""
    kept = records.read(RESULTS / "codec.json")
    for section in sections:
        rows = kept.get(section, {}).get("rows", [])
        for row in rows:
            if row.get("codec") in names:
                row.pop("found", None)
            for name in names:
                row.pop(name, None)
    records.write(RESULTS / "codec.json", kept)


if __name__ == "__main__":
    said = asked(
        __doc__,
        SECTIONS,
        ("--anew", {"action": "append", "default": [], "help": "measure this codec again"}),
        ("--minutes", {"type": float, "default": math.inf, "help": "stop after so long"}),
    )
    if said.anew:
        forget(said.sections, said.anew)
    deadline = time.monotonic() + 60 * said.minutes
    for section in said.sections.values():
        section(deadline)
