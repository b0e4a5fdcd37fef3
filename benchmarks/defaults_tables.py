"""Tables of ``results/defaults.json``."""

from functools import partial

from common import rows_of
from measurement.tables import best_of, bold_best, table


def chosen():
    """Cell and overlap by dimension; orders with the same ones share a column."""
    *rows, usual = rows_of("defaults", "chosen")
    orders = list(dict.fromkeys(r["order"] for r in rows))
    lines = []
    for d in dict.fromkeys(r["d"] for r in rows):
        own = {
            r["order"]: f"{r['cell']}, {r['overlap']:g} + {r['context']}"
            for r in rows
            if r["d"] == d
        }
        lines.append([f"{d}-D", *(own[s] for s in orders)])
    if all(len(set(line[1:])) == 1 for line in lines):
        return table(["", "cell, overlap + context, all orders"], [line[:2] for line in lines])
    heads = [f"s = {s:g}" + (" (default)" if s == usual["order"] else "") for s in orders]
    return table(["cell, overlap + context", *heads], lines)


def orders():
    rows = rows_of("defaults", "orders")
    names = list(rows[0]["orders"])
    lines = []
    for r in rows:
        rivals = [f"{r[k]:.2f}" for k in ("linear", "cubic", "quintic")]
        ours = bold_best(list(r["orders"].values()))
        lines.append([f"{r['d']}-D {r['data']}", *rivals, *ours])
    return table(["data", "linear", "cubic", "quintic", *(f"s = {s}" for s in names)], lines)


def orders_short():
    """The best order of every data set, beside splines."""
    lines = []
    for r in rows_of("defaults", "orders"):
        s, best = best_of(r["orders"])
        scores = bold_best([*(r[k] for k in ("linear", "cubic", "quintic")), best])
        lines.append([f"{r['d']}-D {r['data']}", *scores, s])
    return table(["data", "linear", "cubic", "quintic", "best order", "s ="], lines)


def cells(d):
    rows = [r for r in rows_of("defaults", "cells") if r["d"] == d]
    sizes = sorted({r["cell"] for r in rows})
    margins = list(dict.fromkeys((r["overlap"], r["context"]) for r in rows))
    names = list(dict.fromkeys(r["data"] for r in rows))
    lines = []
    for name in names:
        own = {(r["cell"], r["overlap"], r["context"]): r for r in rows if r["data"] == name}
        order = next(iter(own.values()))["order"]
        best = f"{max(r['heldout'] for r in own.values()):.2f}"
        for o, x in margins:
            texts = []
            for c in sizes:
                text = f"{own[c, o, x]['heldout']:.2f}" if (c, o, x) in own else "–"
                texts.append(f"**{text}**" if text == best else text)
            lines.append([f"{name} (s = {order:g})", f"{o:g} + {x}", *texts])
    for o, x in margins:
        own = {
            r["cell"]: r["per_sample"]
            for r in rows
            if (r["data"], r["overlap"], r["context"]) == (names[0], o, x)
        }
        texts = [f"{own[c]:.2f}" if c in own else "–" for c in sizes]
        lines.append(["*coefficients per sample*", f"{o:g} + {x}", *texts])
    return table(["data", "overlap + context", *(f"cell {c}" for c in sizes)], lines)


def lattice():
    rows = rows_of("defaults", "lattice")
    heads, lines = None, []
    for d, name in dict.fromkeys((r["d"], r["data"]) for r in rows):
        own = [r for r in rows if (r["d"], r["data"]) == (d, name)]
        heads = [f"period {r['period']:g}" for r in own if "period" in r]
        heads += [f"band {r['band']:g}" for r in own if "band" in r]
        values = [r["heldout"] for r in own]
        lines.append([f"{d}-D {name} (s = {own[0]['order']:g})", *(f"{v:.2f}" for v in values)])
    return table(["data", *heads], lines)


def borders():
    rows, kinds = rows_of("defaults", "borders"), ("paid", "mirrored", "free")
    others = ("cubic spline", "nearest sample")
    lines = []
    for name in dict.fromkeys(r["data"] for r in rows):
        own = [r for r in rows if r["data"] == name]
        each = [" / ".join(f"{r[k]:.1f}" for k in kinds) for r in own]
        lines.append([name, *each, *(f"{own[0][k]:.1f}" for k in others)])
    heads = [
        f"s = {r['order']:g}, {' / '.join(kinds)}" for r in rows if r["data"] == rows[0]["data"]
    ]
    return table(["data", *heads, *others], lines)


def together():
    rows = rows_of("defaults", "together")
    keys = ("cell", "overlap", "context", "period")
    kinds = list(dict.fromkeys(tuple(r[k] for k in keys) for r in rows))
    lines = []
    for name, order in dict.fromkeys((r["data"], r["order"]) for r in rows):
        own = {
            tuple(r[k] for k in keys): r["heldout"]
            for r in rows
            if (r["data"], r["order"]) == (name, order)
        }
        lines.append([f"{name} (s = {order:g})", *bold_best([own[k] for k in kinds])])
    heads = (f"{c}, {o:g} + {x}, {p:g}" for c, o, x, p in kinds)
    return table(["cell, overlap + context, period", *heads], lines)


def epsilon():
    rows = rows_of("defaults", "epsilon")
    values = list(dict.fromkeys(r["epsilon"] for r in rows))
    lines = []
    for d, name in dict.fromkeys((r["d"], r["data"]) for r in rows):
        own = {r["epsilon"]: r for r in rows if (r["d"], r["data"]) == (d, name)}
        texts = [f"{own[e]['heldout']:.2f} / {own[e]['at_samples']:.0f}" for e in values]
        lines.append([f"{d}-D {name} (s = {own[values[0]]['order']:g})", *texts])
    heads = ["the rule" if e is None else f"ε = {e:g}" for e in values]
    return table(["held out / at the samples", *heads], lines)


def price():
    lines = []
    for r in rows_of("defaults", "price"):
        radial, product = best_of(r["radial"]), best_of(r["product"])
        scores = bold_best([radial[1], product[1]])
        where = f"{r['cell']}, {r['overlap']:g}"
        lines.append(
            [f"{r['d']}-D {r['data']}", where, scores[0], radial[0], scores[1], product[0]]
        )
    heads = ["data", "cell, overlap", "radial price", "its order", "product price", "its order"]
    return table(heads, lines)


def dense():
    rows = rows_of("defaults", "dense")
    lines = []
    for r in rows:
        own = f"{r['at_samples']:.0f}" if "at_samples" in r else "–"
        lines.append([r["layer"], *(f"{v:.2f}" for v in r["heldout"].values()), own])
    return table(["hidden layer", *rows[0]["heldout"], "at the samples"], lines)


def precision():
    lines = []
    for r in rows_of("defaults", "precision"):
        if r["what"] == "product":
            lines.append(
                [
                    f"{r['order']:g}",
                    f"{r['epsilon']:.2g}",
                    f"{r['spread']:.1e}",
                    f"{r['kept']} of {r['of']}",
                ]
                + [
                    f"{r[t]['heldout']:.2f} / {r[t]['at_samples']:.0f}"
                    for t in ("float64", "float32")
                ]
            )
    heads = ["order", "ε", "largest γ / smallest", "modes kept"]
    return table([*heads, "float64: held out / at samples", "float32"], lines)


def storage():
    rows = [r for r in rows_of("defaults", "precision") if r["what"] == "dense"]
    lines = [[name, *(f"{r['psnr'][name]:.1f}" for r in rows)] for name in rows[0]["psnr"]]
    lines.append(["*cond(H)*", *(f"{r['condition']:.1e}" for r in rows)])
    return table(["true PSNR, dB", *(f"seed {r['seed']}" for r in rows)], lines)


TABLES = {
    "chosen": chosen,
    "orders": orders,
    **{f"cells_{d}": partial(cells, d) for d in (1, 2, 3)},
    "lattice": lattice,
    "together": together,
    "borders": borders,
    "epsilon": epsilon,
    "price": price,
    "dense": dense,
    "precision": precision,
    "storage": storage,
}
EXCERPTS = {"orders_short": orders_short}
"""Parts of the others, which only documents show."""
