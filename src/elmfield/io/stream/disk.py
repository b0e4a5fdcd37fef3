"""Models that grow on a disk: samples coded as asked, described, measured against the source."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.typing import Array
from elmfield.field import Field
from elmfield.field.coding import LOOKED_AT, off, tried
from elmfield.field.meeting import Scope, check_whole, met
from elmfield.field.tiling import Tiling
from elmfield.fit.filling import Filled
from elmfield.io.model.describe import described
from elmfield.io.model.overview import Means, Totals, level_of
from elmfield.io.model.store import put_arrays, put_root
from elmfield.io.model.tiles import SamplePlan, put_about, put_overview, tile_key
from elmfield.io.stream.coding import Coding, Measuring, Score, Seeing
from elmfield.io.stream.places import Files, files_at
from elmfield.io.stream.work import Work
from elmfield.samples import WHOLE, Slab, warn_of_rounding

if TYPE_CHECKING:
    from elmfield.io.stream.fitting import Stream


@dataclass(frozen=True, eq=False, kw_only=True)
class OnDisk:
    """A model in the work folder.

    Parameters
    ----------
    coder : DiskCoder
        What made it.
    name : str
        Of its folder.
    keys : list of str
        Its entries, as they follow each other in a file.
    version : str
        Digest of its metadata.
    """

    coder: "DiskCoder"
    name: str
    keys: list[str]
    version: str

    @cached_property
    def n_bytes(self) -> int:
        """Bytes of its samples."""
        files = files_at(self.coder.work.model(self.name))
        return sum(files.size(k) - 4 for k in self.keys if k.startswith("samples/c/"))

    @cached_property
    def errors(self) -> tuple[float, float]:
        """Mean squared and largest error at the samples."""
        return self.coder.measured(self)


@dataclass(frozen=True, eq=False, kw_only=True)
class DiskCoder:
    """Codes the samples of a stream into models in a work folder.

    Parameters
    ----------
    field : Field
        The field of the source.
    stream : Stream
        The source, and who works on it.
    work : Work
        Where models grow.
    top : float
        The largest magnitude of a sample.
    filled : Filled or None
        Where gaps are filled; None where nothing is missing.
    tile : tuple of int or None
        Samples of a tile, as a file has them already.
    """

    field: Field
    stream: "Stream"
    work: Work
    top: float
    filled: Filled | None = None
    tile: tuple[int, ...] | None = None

    @cached_property
    def _dtype(self) -> str:
        return str(self.field.coefficient_dtype)

    @cached_property
    def sample_plan(self) -> SamplePlan:
        """Which samples go into which tiles."""
        found = described(self.field, self._dtype).plan
        assert isinstance(found, SamplePlan)
        return replace(found, tile=self.tile)

    @property
    def tiling(self) -> Tiling:
        """Tiles of the file."""
        return self.sample_plan.tiling

    @cached_property
    def blocks(self) -> list[Slab]:
        """What is coded at a time."""
        return self.stream.blocks(self.tiling)

    @property
    def plan(self) -> dict[str, Any]:
        """What tells this work from another: all but the samples, which blocks tell themselves."""
        told = described(self.field, self._dtype)
        return {
            "meta": told.meta,
            "tile": list(self.tiling.tile),
            "sources": [self.stream.slabs.dtype, list(self.stream.slabs.source.shape)],
        }

    @property
    def scope(self) -> Scope:
        """What is coded."""
        return Scope(
            size=self.tiling.n_values,
            kind=self.sample_plan.kind,
            data_range=self.field.data_range,
            is_complex=self.field.is_complex,
            dtype=self._dtype,
            top=self.top,
        )

    def made(self) -> OnDisk:
        """The model that was asked for."""
        target = self.field.settings.target  # type: ignore[attr-defined]
        if target is None:
            if self.field.input_dtype in WHOLE:
                warn_of_rounding(self.top)
            return self.code()
        if self.field.input_dtype in WHOLE:
            check_whole(self.top, target)
        return met(self, target)

    @cached_property
    def _some(self) -> list[Array]:
        """Tiles from all over the array, for a first guess."""
        n = self.tiling.n_tiles
        count = min(n, max(1, LOOKED_AT * n // self.tiling.n_values))
        found = []
        for i in np.linspace(0, n - 1, count).round():
            *slab, channels = self.tiling.slab(int(i))
            source = self.stream.slabs if self.filled is None else self.filled
            y = source.part(tuple(slab))[0]
            found.append(y[..., channels].astype(self.sample_plan.kind))
        return found

    def trial(self, step: float) -> tuple[float, float]:
        """Mean squared error, and bits per sample, at a step, about."""
        return tried(self._some, step)

    def off(self, step: float) -> tuple[float, float]:
        """How many times that they truly are, about."""
        return off(self._some, step)

    def code(self, **asked: float) -> OnDisk:
        """A model of all samples, coded as asked; without loss if nothing is."""
        name = "-".join(["as", *(f"{k}-{float(v).hex()}" for k, v in asked.items())])
        coding = Coding(
            slabs=self.stream.sent,
            tiling=self.tiling,
            kind=self.sample_plan.kind,
            has_channels=self.sample_plan.has_channels,
            asked=tuple(asked.items()),
            model=self.work.model(name),
            done=self.work.done(name),
            filled=self.filled,
            missing=self._missing,
            level=None if asked else level_of(self.tiling),
        )
        checks: tuple[dict[int, str], dict[int, str]] = {}, {}
        totals = None if coding.level is None else Totals(self.tiling, coding.level)
        all_coarse = True
        for block, (*found, sums, coarse) in zip(
            self.blocks, self.stream.engine.each(coding, self.blocks)
        ):
            for every, own in zip(checks, found):
                every.update(own)
            if totals is not None and sums is not None:
                totals.add(block, sums)
            all_coarse &= coarse
            self.stream.progress("fit", len(checks[0]), self.tiling.n_tiles)
        texts = ["".join(every[i] for i in range(len(every))) for every in checks]
        means = None if totals is None else totals.means(self.sample_plan.kind)
        made = self.described(name, texts, bool(asked), means)
        if asked and not all_coarse and (level := level_of(self.tiling)) is not None:
            made = self.described(name, texts, True, self._overview(made, level))
        return made

    def _overview(self, made: OnDisk, level: int) -> Means:
        """Means of what a coded model gives back."""
        model, totals = self.work.model(made.name), Totals(self.tiling, level)
        seeing = Seeing(model=model, version=made.version, tiling=self.tiling, level=level)
        every = self.stream.engine.reading().each(seeing, self.blocks)
        for block, sums in zip(self.blocks, every):
            totals.add(block, sums)
        return totals.means(self.sample_plan.kind)

    @property
    def _missing(self) -> Tiling | None:
        """Tiles of what was missing: of one channel where all miss the same."""
        if self.filled is None:
            return None
        return self.tiling.with_channels(1 if self.filled.is_alike else self.tiling.sizes[-1])

    def described(
        self, name: str, checks: Sequence[str], is_lossy: bool, means: Means | None
    ) -> OnDisk:
        """Write all but the samples; `means` are the overview, if there is one."""
        field = replace(self.field, residual=None) if is_lossy else self.field
        told = described(field, self._dtype)
        sink = Listing(files_at(self.work.model(name)))
        sums = put_arrays(sink, told.arrays, True)
        meta = {**told.meta, "checks": sums} if sums else told.meta
        tiling, plan = self.tiling, self.sample_plan
        put_about(sink, "samples", tiling, plan.kind, plan.has_channels)
        sink.keys += [
            tile_key("samples", tiling, i, plan.has_channels) for i in range(tiling.n_tiles)
        ]
        C, missing = None, self._missing
        if missing is not None:
            C = missing.sizes[-1]
            put_about(sink, "missing", missing, "uint8", C > 1)
            sink.keys += [tile_key("missing", missing, i, C > 1) for i in range(missing.n_tiles)]
        said = {**plan.said(checks[0], C, checks[1]), "lossy": is_lossy}
        if means is not None:
            said |= put_overview(sink, means, plan.has_channels)
        version = put_root(sink, {**meta, "samples": said})
        return OnDisk(coder=self, name=name, keys=sink.keys, version=version)

    def measured(self, made: OnDisk) -> tuple[float, float]:
        """Mean squared and largest error of a model at the samples; noted, once it is known."""
        notes, note = files_at(self.work.done(made.name)), "errors.json"
        with suppress(FileNotFoundError):
            known = json.loads(notes.read(note))
            if known["version"] == made.version:
                return float(known["mean"]), float(known["largest"])
        task = Measuring(
            slabs=self.stream.sent, model=self.work.model(made.name), version=made.version
        )
        known = {i: self._noted(notes, i, made.version) for i in range(len(self.blocks))}
        left = [i for i, score in known.items() if score is None]
        found = self.stream.engine.each(task, [self.blocks[i] for i in left])
        for done, (i, score) in enumerate(zip(left, found), len(self.blocks) - len(left)):
            known[i] = score
            about = {"squares": score.squares, "largest": score.largest, "count": score.count}
            notes.put(f"errors-{i}.json", json.dumps({"of": made.version, **about}).encode())
            self.stream.progress("check", done + 1, len(self.blocks))
        total = reduce(or_, (score for score in known.values() if score is not None), Score())
        text = {"version": made.version, "mean": total.mean_square, "largest": total.largest}
        notes.put(note, json.dumps(text).encode())
        return total.mean_square, total.largest

    @staticmethod
    def _noted(notes: Files, number: int, version: str) -> Score | None:
        """The errors of a block, as they were noted of this model; else None."""
        try:
            known = json.loads(notes.read(f"errors-{number}.json"))
        except (OSError, ValueError):
            return None
        if known.pop("of") != version:
            return None
        return Score(**known)


class Listing:
    """A sink that remembers what went through it."""

    def __init__(self, sink: Files) -> None:
        self._sink = sink
        self.keys: list[str] = []

    def put(self, key: str, data: bytes) -> None:
        """Write one entry."""
        self.keys.append(key)
        self._sink.put(key, data)
