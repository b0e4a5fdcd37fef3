"""What this version changes in the paper's arrays: the report's first table.

    python paper/changed.py COMMIT         keeps the default's rows of an earlier commit's records

The rows of the first version come from its own records, in this repository's history.
"""

import argparse
import json
import subprocess

from common import HERE

FILE = HERE / "results" / "first.json"
SCRIPTS = ("images", "satellite", "navier_stokes")
KEPT = ("heldout", "seconds", "psnr")
NETWORKS = ("SIREN", "FFN", "GaussNet", "WIRE", "hash grid")


def kept(commit):
    """The default's rows of a commit's GPU records, by script and array."""
    rows = {}
    for script in SCRIPTS:
        at = f"{commit}:./results/cuda/{script}.json"
        shown = subprocess.run(["git", "show", at], cwd=HERE, check=True, capture_output=True)
        for unit, found in json.loads(shown.stdout)["units"].items():
            name, method = unit.split(": ", 1)
            if method == "default":
                rows[name] = {key: found["result"][key] for key in KEPT}
    return rows


def best_trained(records, script, name):
    """The best of all networks between the samples, in dB; None if none is recorded."""
    found = [
        records.get(script, f"{name}: {method}{how}, held out")[0]
        for method in NETWORKS
        for how in ("", ", tuned")
    ]
    return max((r["heldout"] for r in found if r), default=None)


def report(doc, records):
    """The table, where there are records of both versions."""
    if not (records.folder / "results" / FILE.name).exists():
        return
    first = json.loads(FILE.read_text())["rows"]
    rows, times = [], []
    for script in SCRIPTS:
        for name in [
            u.split(": ")[0] for u in records.on("cuda", script) if u.endswith(": default")
        ]:
            now, spline, oriented = (
                records.get(script, f"{name}: {m}")[0]
                for m in ("default", "cubic spline", "oriented")
            )
            before, trained = first.get(name), best_trained(records, script, name)
            if not (before and now and spline and oriented):
                continue
            values = [
                before["heldout"],
                now["heldout"],
                oriented["heldout"],
                spline["heldout"],
                trained,
            ]
            rows.append([name, *("–" if v is None else f"{v:.2f}" for v in values)])
            times.append((before["seconds"], now["seconds"], oriented["seconds"]))
    if not rows:
        return
    gains = [float(r[3]) - float(r[1]) for r in rows]
    doc.heading("What changed since the first version")
    doc.text(f"""Between the samples (fitted to every second one per axis, scored at the others, in dB)
        the closed form gains {min(gains):+.2f} to {max(gains):+.2f} dB over the first version, by
        regions that choose what they believe (`oriented()`), and by a default that goes on with the
        slope of its last samples at a border.""")
    heads = ["dB between the samples", "default, first version", "default", "oriented",
             "cubic spline", "best trained network"]  # fmt: skip
    doc.table(heads, rows)
    low, high = ([f"{1e3 * f(t[k] for t in times):.0f}" for k in range(3)] for f in (min, max))
    doc.text(f"""A fit on the GPU took {low[0]} to {high[0]} ms in the first version; the default takes
        {low[1]} to {high[1]} ms now and `oriented()` {low[2]} to {high[2]} ms. Small pictures wait for
        the processor, so their times differ by a factor of two between hosts of the same GPU. Trained
        networks have the settings of the first version.""")
    doc.text("""Files, points, streams and noise are not in the paper: `docs/results.md`,
        `docs/codec.md`, `docs/speed.md` and `docs/scale.md` have those numbers.""")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="whose records stand for the first version")
    commit = parser.parse_args().commit
    FILE.write_text(json.dumps({"commit": commit, "rows": kept(commit)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
