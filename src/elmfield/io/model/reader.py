"""One model file: its claims, checked against each other and its bytes, and the Field they make.

The layout is that of docs/format.md. Nothing a file says is believed before it agrees with the rest
and with its bytes.
"""

import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from elmfield._array.typing import Array, Floats, Integers
from elmfield.codec.lossy.tiles import SAMPLES_PER_BYTE
from elmfield.domain import Axis, Domain
from elmfield.errors import StoreError
from elmfield.field import Blended, Coefficients, Field, Group, Projected, Sampled
from elmfield.field.nodes import Nodes
from elmfield.field.sampled import rounding
from elmfield.field.tiles import Coded
from elmfield.io.model import recipes
from elmfield.io.model.agreed import file_order, frames_of
from elmfield.io.model.blocks import Blocks
from elmfield.io.model.entries import Entries, document
from elmfield.io.model.nodes import node_counts, nodes_of
from elmfield.io.model.plain import from_plain
from elmfield.io.model.stored import SCATTERED, Deferred, Kept, Shelf, Stored
from elmfield.io.model.tiles import coded_in
from elmfield.local.bases import WaveModel
from elmfield.partition import Partition

NARROW = ("float32", "float16", "bfloat16", "complex64")
"""Dtypes of samples that fits compute with in single precision."""

TOLD = ("axes", "channels", "attrs", "coords", "source", "variables", "global", "alpha")
"""Attributes that hold attributes."""


class Reader:
    """One model file, its claims checked against each other and against its bytes."""

    def __init__(self, entries: Entries, meta: Mapping[str, Any], lazy: bool) -> None:
        self.entries, self.meta, self.lazy = entries, meta, lazy
        self.sizes = entries.sizes()

    def _refuse(self, why: str) -> StoreError:
        return StoreError(f"{self.entries.name} is damaged: {why}.")

    def _blocks(self, name: str, size: int, *kinds: str) -> Blocks:
        checks, known = None, self.meta.get("checks")
        if known is not None:
            checks = known[name]
        return Blocks(self.entries, self.sizes, name, size, kinds, checks)

    def _whole(self, name: str, size: int, *kinds: str) -> Array:
        return self._blocks(name, size, *kinds).whole()

    def _integers(self, name: str, size: int) -> Integers:
        kinds = ("uint8", "uint16", "uint32", "int64")
        return np.asarray(self._whole(name, size, *kinds), np.int64)

    def field(self) -> Field:
        """The field."""
        meta = self.meta
        domain = self._domain()
        part = self._partition(domain)
        which = self._groups(part)
        C = len(meta["offset"])
        if C < 1 or len(meta["scale"]) != C:
            raise self._refuse("offset and scale differ in length")
        self._check_numbers()
        if meta["dtype"] not in ("float64", "float32", "float16"):
            raise self._refuse(f"numbers of type {meta['dtype']!r}")
        dtype = np.dtype("float64" if meta["dtype"] == "float64" else "float32")
        # A field's own dtype is that of its samples: what is taken off may need more digits than
        # what is left.
        given = dtype if meta["input_dtype"] in NARROW else np.dtype("float64")
        if meta["input_dtype"] in NARROW and meta["groups"][0]["modes"]["kind"] == "kernels":
            given = np.dtype("float32")  # only the weights of kernels need more
        centres, radii = self._frames(part, which)
        groups = self._made(part, which, C, dtype, centres)
        residual = None
        if meta["residual"] == "none":
            residual = np.zeros(part.n_regions)
        elif meta["residual"]:
            found = self._whole("residual", part.n_regions, "float32", "float64")
            residual = found.astype(np.float64)
        return Field(
            domain=domain,
            blended=Blended(
                partition=part,
                groups=groups,
                centres=centres,
                radii=radii,
                is_scattered=any(g["modes"]["kind"] in SCATTERED for g in meta["groups"]),
            ),
            offset=np.asarray(meta["offset"], given),
            scale=np.asarray(meta["scale"], given),
            channel_axis=self._channel_axis(len(part.shape), C),
            is_complex=bool(meta["complex"]),
            input_dtype=str(meta["input_dtype"]),
            data_range=float(meta["data_range"]),
            residual=residual,
            gaps=self._gaps(domain.shape, C),
            settings=recipes.settings_from_plain(meta["settings"]),
            attributes=self._attributes(),
        )

    def _check_numbers(self) -> None:
        """Raise where a number that all values depend on is none."""
        meta = self.meta
        for name in ("offset", "scale"):
            if not all(_is_number(v) for v in meta[name]):
                raise self._refuse(f"its {name} is no list of finite numbers")
        if not all(v > 0 for v in meta["scale"]) or not _is_number(meta["data_range"]):
            raise self._refuse("its scale or range is not positive and finite")

    def _attributes(self) -> dict[str, Any]:
        """What the input said about itself; others look into these without asking."""
        found = from_plain(self.meta["attributes"])
        inside = [found]
        if isinstance(found, dict):
            inside += [found[name] for name in TOLD if name in found]
            axes = found.get("axes")
            inside += axes.values() if isinstance(axes, dict) else ()
        if not all(isinstance(part, dict) for part in inside):
            raise self._refuse("its attributes are no JSON objects")
        return dict(found)

    def _gaps(self, shape: tuple[int, ...], C: int) -> Array | None:
        """Which samples were missing: for all channels, or each; None if none was."""
        per = self.meta.get("gaps")
        if per is None:
            return None
        if per not in ("sample", "channel"):
            raise self._refuse(f"samples missing per {per!r}")
        if per == "channel":
            shape = (*shape, C // 2 if self.meta["complex"] else C)
        size = math.prod(shape)
        packed = self._whole("gaps", -(-size // 8), "uint8")
        return np.unpackbits(packed, count=size).astype(bool).reshape(shape)

    def _made(
        self, part: Partition, which: Integers, C: int, dtype: Any, centres: Floats
    ) -> tuple[Group, ...]:
        """The groups: models that are made, and coefficients that are read, when first used."""
        if "samples" in self.meta:
            return self._sampled(part, which, dtype, centres)
        shelf, rankings = self._shelf(part, which, C, dtype)
        masks, made = self._masks(), []
        nodes = self._nodes(part, which, shelf)
        for g, kept in enumerate(self.meta["groups"]):
            regions = np.flatnonzero(which == g)
            shape = (len(regions), int(kept["n_modes"]), C)
            stored = Stored(shelf, regions, shape, rankings[g])
            made.append(
                Group(
                    model=Deferred(self._kept(kept, len(part.shape), masks[g])),
                    regions=regions,
                    coefficients=stored if self.lazy else stored.loaded(),
                    nodes=nodes[g],
                )
            )
        return tuple(made)

    def _nodes(self, part: Partition, which: Integers, shelf: Shelf) -> list[Nodes | None]:
        """The places of kernels of each group; None where it has none."""
        groups, d = self.meta["groups"], len(part.shape)
        kernels = [kept["modes"]["kind"] == "kernels" for kept in groups]
        if not any(kernels):
            return [None] * len(groups)
        positions = self._whole("positions", self._size_of("positions"), "float64").reshape(-1, d)
        order = file_order(part)
        order = order[np.asarray(kernels)[which[order]]]
        models = [self._kept(g, d, None).make() if k else None for g, k in zip(groups, kernels)]
        counts = node_counts(models, d, which, order, shelf.kept)
        members = self._integers("members", int(counts.sum()))
        return nodes_of(models, which, order, counts, positions, members)

    def _sampled(
        self, part: Partition, which: Integers, dtype: Any, centres: Floats
    ) -> tuple[Group, ...]:
        """The groups of a field that is its samples."""
        meta, d = self.meta, len(part.shape)
        kinds = {kept["modes"]["kind"] for kept in meta["groups"]}
        if kinds - {"product"} and (kinds != {"oriented"} or len(meta["groups"]) > 1):
            raise self._refuse("samples, but not of product modes or oriented regions")
        units = [np.asarray(meta[name], np.float64) for name in ("offset", "scale")]
        fits = np.can_cast(np.dtype(str(meta["samples"]["dtype"])), dtype)
        if fits and all(np.array_equal(u, u.astype(dtype)) for u in units):
            units = [u.astype(dtype) for u in units]  # as the fit did, bit for bit
        coded = coded_in(
            self.entries,
            self.sizes,
            meta["samples"],
            part.shape,
            units=(units[0], units[1]),
            dtype=dtype,
            has_channels=meta["channel_axis"] is not None or len(units[0]) > 1,
        )
        coded = coded if self.lazy else coded.in_memory()
        boxes = np.asarray([kept["modes"]["box"] for kept in meta["groups"]], np.int64)[which]
        starts = np.round(centres - (boxes - 1) / 2).astype(np.int64)
        part = part.changed(starts=starts, sizes=boxes)
        groups = []
        for g, kept in enumerate(meta["groups"]):
            model = Deferred(self._kept(kept, d, None))
            regions = np.flatnonzero(which == g)
            found = self._of_samples(model, part, regions, coded)
            oriented = kept["modes"]["kind"] == "oriented"
            groups.append(
                Group(model=model.model if oriented else model, regions=regions, coefficients=found)
            )
        return tuple(groups)

    def _of_samples(
        self, model: Deferred, part: Partition, regions: Integers, coded: Coded
    ) -> Coefficients:
        """Coefficients that are made from samples when asked for."""
        if model.kept.recipe["kind"] == "product":
            found = Projected(boxes=coded, partition=part, regions=regions, basis=model)
            return found if self.lazy else found.loaded()
        units = [np.asarray(self.meta[name], np.float64) for name in ("offset", "scale")]
        return Sampled(
            boxes=coded,
            partition=part,
            regions=regions,
            beliefs=cast(WaveModel, model.model).beliefs,
            rounding=rounding(units[0], units[1], coded.like),
        )

    def _frames(self, part: Partition, which: Integers) -> tuple[Floats, Floats]:
        """Centres and radii of the regions' local coordinates, (N, d) each."""
        N, d = part.n_regions, len(part.shape)
        if self.meta["frames"] == "boxes":
            self._check_boxes(part, which)
            return frames_of(part, self.meta["groups"], which)
        frames = self._whole("frames", 2 * d * N, "float64").reshape(N, 2 * d)
        centres, radii = frames[:, :d].copy(), frames[:, d:].copy()
        if not (np.isfinite(frames).all() and (radii > 0).all()):
            raise self._refuse("a region has no size")
        return centres, radii

    def _channel_axis(self, d: int, C: int) -> int | None:
        axis = self.meta["channel_axis"]
        if axis is None and (2 if self.meta["complex"] else 1) != C:
            raise self._refuse(f"{C} channels, but no place for them")
        if axis is not None and not (isinstance(axis, int) and 0 <= axis <= d):
            raise self._refuse(f"channels on axis {axis!r}")
        return axis

    def _domain(self) -> Domain:
        kept = self.meta["domain"]
        axes = []
        for k, entry in enumerate(kept["axes"]):
            name, size, period = str(entry["name"]), int(entry["size"]), entry["period"]
            if not 1 <= size < 1 << 62:
                raise self._refuse(f"an axis of {size} samples")
            if "origin" not in entry:
                axes.append(Axis.counted(name, size, period))
                continue
            origin, step = float(entry["origin"]), float(entry["step"])
            if entry.get("listed"):
                c = self._whole(f"coordinates_{k}", size, "float64")
            else:
                if size > 1 << 40 or size > sum(self.sizes.values()) * 4096:
                    raise self._refuse(f"an axis of {size} samples in so small a file")
                c = origin + step * np.arange(size)
            if entry["even"]:
                # As it was when fitted: single-precision coordinates are even to their rounding.
                if not (np.isfinite(c).all() and math.isfinite(step) and step != 0):
                    raise self._refuse(f"coordinates of axis {name!r}")
                axis = Axis.even(name, size, origin, step, period, coords=c)
            else:
                axis = Axis.through(name, c, period)
            axes.append(axis)
        low, high = (tuple(float(v) for v in kept[key]) for key in ("low", "high"))
        d = len(axes)
        sizes = [a.size for a in axes]
        if not (d and len(low) == len(high) == d) or not all(
            -0.5 <= a < b <= n - 0.5 for a, b, n in zip(low, high, sizes)
        ):
            raise self._refuse("the box of the domain")
        return Domain(axes=tuple(axes), low=low, high=high)

    def _partition(self, domain: Domain) -> Partition:
        kept = self.meta["partition"]
        shape = tuple(int(n) for n in kept["shape"])
        if shape != domain.shape or tuple(kept["periodic"]) != domain.periodic:
            raise self._refuse("domain and partition disagree")
        edges = []
        room = self._room
        for k, entry in enumerate(kept["edges"]):
            if entry == "listed":
                size = self._size_of(f"edges_{k}")
                e = self._whole(f"edges_{k}", size, "int64")
            else:
                if not 1 <= int(entry) <= min(shape[k], room):
                    raise self._refuse(f"{entry} cells on an axis")
                e = np.round(np.linspace(0, shape[k], int(entry) + 1)).astype(np.int64)
            low, high = domain.low[k], domain.high[k]
            if len(e) < 2 or not (np.diff(e) > 0).all() or e[0] > low + 0.5 or e[-1] < high + 0.5:
                raise self._refuse("cells do not cover the domain")
            edges.append(e)
        cells = tuple(len(e) - 1 for e in edges)
        n = math.prod(cells)
        N = int(kept["n_regions"])
        if not 1 <= N <= min(n, room) or (kept["regular"] and n != N):
            raise self._refuse(f"{N} regions in {n} cells and {sum(self.sizes.values())} bytes")
        labels = np.arange(n) if kept["regular"] else self._integers("labels", n)
        boxes = self._boxes(kept, cells)
        part = Partition(
            shape=shape,
            edges=tuple(edges),
            labels=labels.reshape(cells),
            overlap=tuple(map(float, kept["overlap"])),
            periodic=tuple(map(bool, kept["periodic"])),
            equal_boxes=bool(kept["equal_boxes"]),
            context=int(kept.get("context", 0)),
            mirrored=bool(kept.get("mirrored", False)),
            **boxes,
        )
        overlap = np.asarray(part.overlap)
        if (
            part.n_regions != N
            or len(overlap) != len(shape)
            or not (np.isfinite(overlap).all() and (overlap >= 0).all())
        ):
            raise self._refuse("labels or overlap of the regions")
        return part

    @property
    def _room(self) -> int:
        """Regions that a file of so many bytes may have.

        Every region has at least a bit in it, or two samples, of which a byte holds a limited
        number; every cell of an irregular one a label.
        """
        room = 8 * sum(self.sizes.values())
        if "samples" not in self.meta:
            return room
        coded = sum(n for key, n in self.sizes.items() if key.startswith("samples/c/"))
        return max(room, SAMPLES_PER_BYTE * coded // 2)

    def _boxes(self, kept: dict[str, Any], cells: tuple[int, ...]) -> dict[str, Integers]:
        """Starts and sizes of boxes that do not follow from the cells."""
        if kept.get("boxes") != "listed":
            return {}
        if not kept["regular"]:
            raise self._refuse("boxes listed for merged regions")
        box = [int(n) for n in self.meta["groups"][0]["modes"]["box"]]
        lines = [self._whole(f"starts_{k}", n, "int64") for k, n in enumerate(cells)]
        for k, (line, b, n) in enumerate(zip(lines, box, kept["shape"])):
            low, high = (1 - b, n - 1) if kept["periodic"][k] else (0, n - b)
            fits = len(box) == len(cells) and 1 <= b <= n
            if not fits or (line < low).any() or (line > high).any():
                raise self._refuse("where boxes of samples lie")
        starts = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, len(box))
        return {"starts": starts, "sizes": np.broadcast_to(np.asarray(box), starts.shape)}

    def _size_of(self, name: str) -> int:
        """Length of an array that says so itself; its blocks must then be there."""
        (size,) = document(self.entries, f"{name}/zarr.json")["shape"]
        return int(size)

    def _groups(self, part: Partition) -> Integers:
        """Group of each region, (N,)."""
        groups, N = self.meta["groups"], part.n_regions
        if not groups:
            raise self._refuse("it has no groups")
        which = np.zeros(N, np.int64) if len(groups) == 1 else self._integers("group", N)
        if int(which.max()) >= len(groups):
            raise self._refuse("a region belongs to no group")
        sizes = np.bincount(which, minlength=len(groups))
        for kept, size in zip(groups, sizes):
            if not size or recipes.n_modes_of(kept["modes"], kept["n_modes"]) != kept["n_modes"]:
                raise self._refuse("the groups of its regions")
        return which

    def _kept(self, kept: dict[str, Any], d: int, inside: Array | None) -> Kept:
        recipe = dict(kept["modes"])
        if "network" in recipe:
            recipe["network"] = self.meta["networks"][recipe["network"]]
        if not (isinstance(kept["probe"], list) and all(map(_is_number, kept["probe"]))):
            raise self._refuse("the probe of its modes is no list of numbers")
        return Kept(recipe, int(kept["n_modes"]), kept["probe"], d, inside)

    def _masks(self) -> list[Array | None]:
        """Which samples of its box count in each group; None where all do."""
        recipes_ = [kept["modes"] for kept in self.meta["groups"]]
        boxes = [tuple(map(int, r["box"])) if r.get("masked") else () for r in recipes_]
        sizes = [math.prod(box) if box else 0 for box in boxes]
        if not any(sizes):
            return [None] * len(boxes)
        packed = self._whole("inside", -(-sum(sizes) // 8), "uint8")
        bits = np.unpackbits(packed)[: sum(sizes)].astype(bool)
        ends = np.cumsum(sizes)
        return [
            bits[end - size : end].reshape(box) if box else None
            for box, size, end in zip(boxes, sizes, ends)
        ]

    def _check_boxes(self, part: Partition, which: Integers) -> None:
        """Regions' boxes must be those of their modes."""
        sizes = part.boxes[1]
        for g, kept in enumerate(self.meta["groups"]):
            box = kept["modes"].get("box")
            own = sizes if len(self.meta["groups"]) == 1 else sizes[which == g]
            if box is None or (own != np.asarray(box)).any():
                raise self._refuse("boxes of regions and modes disagree")

    def _shelf(
        self, part: Partition, which: Integers, C: int, dtype: Any
    ) -> tuple[Shelf, list[Integers | None]]:
        meta, N = self.meta, part.n_regions
        groups = meta["groups"]
        ragged = np.asarray([bool(kept.get("ragged")) for kept in groups])
        n_modes = np.asarray([int(kept["n_modes"]) for kept in groups])
        order = file_order(part)
        counts = n_modes[which] * C
        rankings: list[Integers | None] = [None] * len(groups)
        bitmap = bit_starts = lengths = kept_ = None
        if ragged.any():
            listed = order[ragged[which[order]]]
            kept_, lengths = (np.zeros((N, C), np.int64) for _ in range(2))
            kept_[listed] = self._integers("counts", len(listed) * C).reshape(-1, C)
            lengths[listed] = self._integers("lengths", len(listed) * C).reshape(-1, C)
            if (kept_ > lengths).any() or (lengths > n_modes[which][:, None]).any():
                raise self._refuse("counts of kept modes")
            counts = np.where(ragged[which], kept_.sum(axis=1), counts)
            bits = lengths.sum(axis=1)[order]
            bit_starts = np.empty(N, np.int64)
            bit_starts[order] = np.cumsum(bits) - bits
            bitmap = self._blocks("bitmap", -(-int(bits.sum()) // 8), "uint8")
            all_ranks = self._integers("ranking", int(n_modes[ragged].sum()))
            ends = np.cumsum(n_modes * ragged)
            for g in np.flatnonzero(ragged):
                rankings[g] = ranking = all_ranks[ends[g] - n_modes[g] : ends[g]]
                if not np.array_equal(np.sort(ranking), np.arange(n_modes[g])):
                    raise self._refuse("the ranking of the modes")
        if int(counts.sum()) != meta["n_coefficients"]:
            raise self._refuse(
                f"{meta['n_coefficients']} coefficients, but its regions need {counts.sum()}"
            )
        starts = np.empty(N, np.int64)
        starts[order] = np.cumsum(counts[order]) - counts[order]
        values = self._blocks("coefficients", int(counts.sum()), meta["dtype"])
        return Shelf(values, dtype, starts, counts, bitmap, bit_starts, lengths, kept_), rankings


def _is_number(value: object) -> bool:
    """Whether a value of a JSON document is a finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
