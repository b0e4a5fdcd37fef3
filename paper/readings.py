"""What the text leaves open: each reading measured, and which comes nearest to the printed numbers.

    python paper/readings.py

- `layers`: one draw of the hidden layer for all regions (ours), or one per region (equation 1), over
  seeds;
- `overlap`: the half-width of the windows against the width m, and how far the function jumps;
- `solver`: QR, singular values or the normal equations, in double or single precision, two draws,
  a ridge: what lies behind 77 to 79.8 dB where the ceiling is 80;
- `exact`: own draws with as many neurons as samples, over seeds: how many regions have a neuron that
  is 0 at all its samples, and what that leaves;
- `picture`: which file cameraman is, how 768 x 512 became a square; on the mesh and with BEAM;
- `flow`: BEAM in three dimensions, and cells of 20 x 20 x 10.
"""

import warnings
from functools import partial

import numpy as np
from scipy.ndimage import map_coordinates

import elmfield as ef
from common import at_hand, errors, load, main
from elmfield._array.backend import to_numpy
from paper.research import datasets
from paper.research.datasets.prepare import grey, halved

WIDTHS = (256, 512)
EXACT = {"kodim05": 78.4, "kodim08": 77.1, "kodim20": 78.4, "kodim24": 79.0}
"""The printed column of ELM-INR."""

OVERLAPS = (0, 0.5, 1, 2, 4)
SOLVED = {
    (layers, solver, dtype, draw): {
        "layers": layers,
        "solver": solver,
        "dtype": dtype,
        "draw": draw,
    }
    for layers, draw in (("shared", "normal"), ("shared", "uniform"), ("own", "normal"))
    for solver in ("qr", "lstsq", "normal")
    for dtype in ("float64", "float32")
}
RIDGES = (1e-10, 1e-8, 1e-6, 1e-4)
NORMALISATIONS = {"plain DFT": "backward", "ortho": "ortho", "forward": "forward"}
"""Of the energy β; the paper's formula is the plain transform's."""

PICTURES = {
    "cameraman, MATLAB's 256": ("cameraman", "cameraman"),
    "cameraman, classic 512 halved": ("cameraman", "cameraman-512"),
    "cameraman, CC0 512 halved": ("cameraman", "camera"),
    "kodim20, cropped": ("kodim20", "kodim20"),
    "kodim20, averaged": ("kodim20", "kodim20"),
    "kodim20, bilinear": ("kodim20", "kodim20"),
}
"""Reading: the name it has in the paper, the data set it is made of."""


def picture(run, reading):
    """The 256 x 256 samples of a reading."""
    name = PICTURES[reading][1]
    if reading.endswith("halved"):
        values = np.asarray(halved(np.asarray(datasets.load(name), np.float64)))
    elif reading.endswith("averaged"):
        values = datasets.load(name, prepare="resize")
    elif reading.endswith("bilinear"):
        whole = grey(datasets.load(name, prepare="whole"))
        at = [(np.arange(256) + 0.5) * n / 256 - 0.5 for n in whole.shape]
        values = map_coordinates(whole, np.meshgrid(*at, indexing="ij"), order=1, mode="nearest")
    else:
        values = datasets.load(name)
    return values[:32, :32] if run.toy else values


def seeds(run, values, settings, count, partition=None):
    """Mean and spread over seeds."""
    found = ef.over_seeds(values, settings, 2 if run.toy else count, partition=partition)
    return {"mean": found.mean, "spread": found.spread, "seeds": found.scores}


def cell_of(run):
    return 16 if run.toy else 32


def jump(field):
    """The largest step of the function across a border between cells, in parts of the range."""
    part, shape = field.partition, field.shape
    along, worst = np.linspace(0, shape[1] - 1, 997), 0.0
    for border in part.borders(0)[1:-1]:
        near = [np.stack([np.full_like(along, border + s), along], -1) for s in (-1e-12, 1e-12)]
        worst = max(worst, float(np.abs(field(near[0]) - field(near[1])).max()))
    return worst / field.model.data_range


def overlapping(run, values, overlap):
    """PSNR by width with windows of this overlap, and the jump at the printed width."""
    cell = cell_of(run)
    top = (cell + 2 * int(np.ceil(overlap - 0.5)) if overlap > 0.5 else cell) ** 2
    widths = sorted({cell**2 // 4, cell**2 // 2, cell**2, top})
    rows = {}
    for width in widths:
        field = ef.fit(values, ef.paper(cell=cell, width=width, overlap=overlap))
        rows[width] = ef.paper_psnr(values, field.samples())
        if width == cell**2:
            step = jump(field)
    return {"widths": list(rows), "paper_psnr": list(rows.values()), "jump": step}


def solved(run, values, options):
    """Errors of one way to solve, m = S."""
    cell = cell_of(run)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ef.RankWarning)
        field = ef.fit(values, ef.paper(cell=cell, width=cell**2, **options))
        return errors(values, to_numpy(field.samples()))


def exact(run, values, count):
    """PSNR of own draws with m = S by seed, and the regions of each that have a dead neuron."""
    cell = cell_of(run)
    t = np.stack(np.meshgrid(*[np.linspace(-1, 1, cell)] * 2, indexing="ij"), -1).reshape(-1, 2)
    N = int(np.prod([n // cell for n in values.shape]))
    psnr, dead = [], []
    for seed in range(count):
        settings = ef.paper(cell=cell, width=cell**2, layers="own", seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ef.RankWarning)
            psnr.append(ef.paper_psnr(values, to_numpy(ef.fit(values, settings).samples())))
        layers = (settings.network.of_region(i) for i in range(N))
        dead.append(sum(bool((layer(t) <= 0).all(axis=0).any()) for layer in layers))
    return {"paper_psnr": psnr, "dead": dead, "N": N}


def mesh_and_beam(run, values, width):
    """The mesh, and BEAM by every normalisation, three seeds each."""
    cell = cell_of(run)
    settings, result = ef.paper(width=width), {}
    mesh = ef.Partition.regular(values.shape, cell)
    parts = {"regular": mesh}
    for word, normalisation in NORMALISATIONS.items():
        parts[word] = ef.beam(
            values, cell=cell // 2, regions=mesh.n_regions, normalisation=normalisation
        )
    parts["outside mean"] = ef.beam(values, cell=cell // 2, regions=mesh.n_regions, outside="mean")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ef.RankWarning)  # constant sky in a region of its own
        for word, partition in parts.items():
            result[word] = seeds(run, values, settings, 3, partition)
    return result


def beam_in_space(run, values, width):
    """BEAM on the flow: MAE of the mesh and of both energies, and the largest local error."""
    cell, atom = ((8, 8, 6), (4, 4, 3)) if run.toy else ((32, 32, 25), (16, 16, 13))
    mesh = ef.Partition.regular(values.shape, cell)
    parts = {"regular": mesh}
    for word, normalisation in list(NORMALISATIONS.items())[::2]:
        parts[word] = ef.beam(
            values, cell=atom, regions=mesh.n_regions, normalisation=normalisation
        )
    result = {"N": mesh.n_regions}
    for word, partition in parts.items():
        field = ef.fit(values, ef.paper(width=width), partition=partition)
        result[word] = ef.mae(values, field.samples())
    return result


def compute(run):
    """Every reading, those that need no data of their own first."""
    cell = cell_of(run)
    for reading in PICTURES:
        if at_hand(run, [PICTURES[reading][1]]):
            values = picture(run, reading)
            for width in (16, 32) if run.toy else WIDTHS:
                work = partial(mesh_and_beam, run, values, width)
                run.unit(f"picture: {reading}, m = {width}", work, cells=[cell, cell // 2])
    for name in at_hand(run, ["kodim20", "camera"]):
        reading = "kodim20, cropped" if name == "kodim20" else "cameraman, CC0 512 halved"
        values = picture(run, reading)
        for width in (16, 32) if run.toy else WIDTHS:
            for layers, count in (("shared", 8), ("own", 4)):
                settings = ef.paper(cell=cell, width=width, layers=layers)
                work = partial(seeds, run, values, settings, count)
                run.unit(f"layers: {reading}, {layers}, m = {width}", work, seeds=count)
        for overlap in OVERLAPS:
            work = partial(overlapping, run, values, overlap)
            run.unit(f"overlap: {reading}, {overlap}", work)
        for key, options in SOLVED.items():
            work = partial(solved, run, values, options)
            run.unit(f"solver: {reading}, {', '.join(key)}", work)
        for ridge in RIDGES:
            work = partial(solved, run, values, {"ridge": ridge})
            run.unit(f"solver: {reading}, ridge {ridge:g}", work)
    for name in at_hand(run, ["kodim20"] if run.toy else list(EXACT)):
        work = partial(exact, run, load(run, name), 2 if run.toy else 3)
        run.unit(f"exact: {name}", work)
    if at_hand(run, ["navier-stokes"]):
        w = np.asarray(load(run, "navier-stokes"), np.float64)
        for width in (16,) if run.toy else (128, 256):
            run.unit(f"flow: BEAM, m = {width}", partial(beam_in_space, run, w, width))


def draw(run):
    """Tables only."""


# --- its part of the report -----------------------------------------------------------------------


def mean(x):
    """Mean and spread as text."""
    return "–" if x is None else f"{x['mean']:.2f} ± {x['spread']:.2f}"


def report(doc, records, printed):
    """The tables, each with the inference that it supports."""
    doc.heading("What the text leaves open")
    layers_table(doc, records)
    overlap_table(doc, records)
    solver_table(doc, records)
    exact_table(doc, records)
    picture_table(doc, records, printed)


def units(records, kind):
    """(words, result, unit) of all units of a kind."""
    for name in records.names("readings"):
        if name.startswith(f"{kind}: "):
            yield name.removeprefix(f"{kind}: "), *records.get("readings", name)


def layers_table(doc, records):
    rows, found = [], {}
    for words, r, unit in units(records, "layers"):
        data, layers, width = words.rsplit(", ", 2)
        found.setdefault((data, width), {})[layers] = r, records.mark(unit)
    for (data, width), both in found.items():
        if len(both) == 2:
            (a, mark), (b, _) = both["shared"], both["own"]
            rows.append([f"{data}{mark}", width, mean(a), str(len(a["seeds"])), mean(b),
                         str(len(b["seeds"])), f"{b['mean'] - a['mean']:+.2f}",
                         f"{b['spread'] / a['spread']:.2f}"])  # fmt: skip
    if rows:
        doc.heading("Hidden layers: one draw for all regions, or one per region", 3)
        doc.table(["", "", "shared, dB", "seeds", "own, dB", "seeds", "difference", "spread: ratio"],
                  rows)  # fmt: skip
        doc.text("""Equation 1 has w and b of every region its own (`paper(layers="own")`). All other
            rows of this report share one draw among regions, so that one factorisation serves all: our
            step. Means agree; the spread over seeds of a shared draw is that of one layer, that of own
            draws of an average over 64. The spreads in the BEAM tables are therefore those of the
            sharing.""")


def overlap_table(doc, records):
    found = {}
    for words, r, unit in units(records, "overlap"):
        data, overlap = words.rsplit(", ", 1)
        found.setdefault(data, []).append((overlap, r, records.mark(unit)))
    if found:
        doc.heading("The partition of unity", 3)
    for data, every in found.items():
        rows = []
        for overlap, r, mark in every:
            scores = dict(zip(r["widths"], r["paper_psnr"]))
            usual = sorted(scores)[:3]
            wide = f"{scores[max(scores)]:.1f} ({max(scores)})" if max(scores) > usual[-1] else "–"
            rows.append([f"{overlap}{mark}", *(f"{scores[m]:.1f}" for m in usual), wide,
                         f"{r['jump']:.0e}"])  # fmt: skip
        doc.table([f"{data}: overlap", *(f"m = {m}" for m in usual), "as many neurons as samples",
                   "jump at borders, of the range"], rows)  # fmt: skip
    if found:
        doc.text("""The paper defines overlapping regions and smooth windows, and does not say how far
            they overlap. With m = 1024 and 32 × 32 samples a region 80 dB are only possible where no
            window touches a neighbour's sample; see the row of an overlap of 1. The printed 77 to
            79.8 dB at S = 32², m = 1024 are therefore those of windows that blend at most between
            samples. `paper()` has an overlap of 0.5: smooth windows as defined, all samples as without;
            `overlap=0` jumps. (The infinitely steep field of m = S still changes much within 2e-12 of a
            sample; that is the number shown where it does not jump.)""")


def solver_table(doc, records):
    found = {}
    for words, r, unit in units(records, "solver"):
        data, what = words.split(", ", 2)[:2], words.split(", ", 2)[2]
        found.setdefault(", ".join(data), {})[what] = r, records.mark(unit)
    if found:
        doc.heading("Solver, precision and draw", 3)
    for data, every in found.items():
        rows = []
        for what, (r, mark) in every.items():
            true = "–" if r["psnr"] is None else f"{r['psnr']:.1f}"
            rows.append([f"{what}{mark}", f"{r['paper_psnr']:.2f}", true, f"{r['max_error']:.1e}"])
        doc.table([data, "paper's PSNR", "true PSNR", "max error"], rows)
    if found:
        inside = sorted(
            {what for every in found.values() for what, (r, _) in every.items()
             if 77 <= r["paper_psnr"] <= 79.85}
        )  # fmt: skip
        doc.text(f"""The printed ELM-INR column (77.1 to 79.8 dB) lies between what double precision gives
            (80.00) and what single-precision normal equations give. Ways within its range here:
            {"; ".join(inside) or "none"}. Double precision by any solver gives 80.00 on these 64 regions;
            single precision by QR (what `torch.linalg.lstsq` does on a GPU) is the only way of these that can
            end there, and the next table has the other reason.""")


def exact_table(doc, records):
    rows = []
    for name, r, unit in units(records, "exact"):
        rows.append([f"{name}{records.mark(unit, name)}", str(r["N"]), str(EXACT.get(name, "–")),
                     ", ".join(f"{p:.2f}" for p in r["paper_psnr"]), ", ".join(map(str, r["dead"]))])  # fmt: skip
    if rows:
        doc.heading("Own draws with as many neurons as samples", 3)
        doc.table(["m = S = 1024, QR in float64", "N", "printed", "ours by seed, dB", "regions with a dead neuron"],
                  rows)  # fmt: skip
        every = [p for _, r, _ in units(records, "exact") for p in r["paper_psnr"]]
        loops = [
            records.get("curves", n)[0]["paper_psnr"]
            for n in records.names("curves")
            if ": region" in n
        ]
        doc.text(f"""Equation 1 at the printed setting. Among 1024 random ReLU neurons of a region one may be 0 at
            all its samples; the matrix is then singular, and the region is met up to one direction. Where no
            region has such a neuron the fit is exact (80.00 dB); where one has, the picture is at
            {span([p for p in every if p < 79.995])} dB. This bounds the printed column: 77.1 to 79.8 dB lie
            between no dead neuron and few, whatever the solver. One shared draw has none with seed 0, for all
            regions at once. (The region-by-region rows solve the same systems by torch's `lstsq`, which gives up
            more directions: {span(loops)} dB.)""")


def span(values):
    return f"{min(values):.1f} to {max(values):.1f}" if values else "–"


def picture_table(doc, records, printed):
    rows, nearest = [], {}
    for words, r, unit in units(records, "picture"):
        reading, width = words.rsplit(", m = ", 1)
        name = PICTURES[reading][0]
        if int(width) not in printed[name]:
            continue
        a, b = printed[name][int(width)]
        off = abs(r["regular"]["mean"] - a)
        nearest.setdefault(name, {}).setdefault(reading, []).append(off)
        rows.append([
            f"{reading}{records.mark(unit)}", width, f"{a} / {b}", mean(r["regular"]),
            *(mean(r[w]) for w in (*NORMALISATIONS, "outside mean")),
        ])  # fmt: skip
    if not rows:
        return
    doc.heading("Which picture", 3)
    doc.table(["reading", "m", "paper: regular / BEAM", "ours: regular",
               *(f"BEAM, {w}" for w in NORMALISATIONS), "BEAM, outside mean"], rows)  # fmt: skip
    words = []
    for name, readings in nearest.items():
        best = min(readings, key=lambda k: sum(readings[k]))
        off = max(readings[best])
        words.append(f"{name} is nearest read as *{best.split(', ')[1]}* (within {off:.1f} dB)")
    doc.text(f"""On the regular mesh, where no energy is involved, {"; ".join(words)}. Three pictures go by
        the name cameraman, and 768 × 512 samples can become 256 × 256 in several ways; the text names
        none. No row of ours is said to be on the paper's own array where this is open.""")


if __name__ == "__main__":
    main(compute, draw, "readings")
