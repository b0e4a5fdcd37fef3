"""The metadata of a model file: one JSON object as typed records, described in docs/format.md.

Fields that have their default value are left out of the file: a reader puts them there again. In
small files that saves 150 of 900 bytes.
"""

import json
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np

from elmfield._array.checks import is_number
from elmfield.errors import StoreError, StoreVersionError
from elmfield.io.store.blocks import read_document, write_document
from elmfield.io.store.stores import ROOT, Store

VERSION = 1
"""Of the format. A reader refuses a higher one."""

FORMAT = "elmfield model"

Record = TypeVar("Record")

Recipe = dict[str, Any]
"""How the modes of a group are made: `kind`, and what that kind needs; see `recipes`."""


@dataclass(frozen=True, kw_only=True)
class AxisRecord:
    """An axis: its coordinates are ``origin + step k``, or in an array if `listed`.

    Borders of cells that are not midway, `bounded`, are in another array.
    """

    size: int
    name: str | None = None
    period: float | None = None
    origin: float | None = None
    step: float = 1.0
    even: bool = True
    listed: bool = False
    bounded: bool = False


@dataclass(frozen=True, kw_only=True)
class DomainRecord:
    """Axes, and the field's box in index coordinates where that is not the whole array."""

    axes: list[AxisRecord]
    low: list[float] | None = None
    high: list[float] | None = None


@dataclass(frozen=True, kw_only=True)
class PartitionRecord:
    """Cells and regions; `edges` has a number of even cells, or "listed", for each axis."""

    edges: list[int | str]
    overlap: list[float]
    equal_boxes: bool = True
    context: int = 0
    mirrored: bool = False
    regular: bool = True
    boxes: str | None = None


@dataclass(frozen=True, kw_only=True)
class GroupRecord:
    """Regions that share their modes."""

    modes: Recipe
    n_modes: int
    probe: list[float]
    ragged: bool = False


@dataclass(frozen=True, kw_only=True)
class SamplesRecord:
    """The arrays of coded tiles; `low` and `high` where they are a part of all samples."""

    dtype: str
    checks: str
    low: list[int] | None = None
    high: list[int] | None = None
    raw: bool = True
    lossy: bool = False
    missing: int | None = None
    missing_checks: str = ""
    overview: int | None = None
    overview_checks: str = ""


@dataclass(frozen=True, kw_only=True)
class EvidenceRecord:
    """Noise that was taken out, and what else standard deviations need; see `Evidence`."""

    noise: tuple[float, ...] | None = None
    amplitude: tuple[float, ...] | None = None
    left: bool = False
    coding: float = 0.0
    observed: bool = False


@dataclass(frozen=True, kw_only=True)
class MeshRecord:
    """Where samples of a curvilinear grid are, beside arrays: see `Curvilinear`."""

    names: tuple[str, str]
    radius: float | None = None
    corners: int = 0
    first: int | None = None


@dataclass(frozen=True, kw_only=True)
class AppendingRecord:
    """Samples are being added to an axis, which had `start` before."""

    axis: int
    start: int


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """All that a model file says about itself."""

    written_by: str
    domain: DomainRecord
    partition: PartitionRecord
    groups: list[GroupRecord]
    dtype: str
    offset: list[float]
    scale: list[float]
    input_dtype: str
    data_range: float
    networks: list[dict[str, Any]] = field(default_factory=list)
    frames: str = "boxes"
    n_coefficients: int | None = None
    samples: SamplesRecord | None = None
    channel_axis: int | None = None
    complex: bool = False
    residual: bool | str = False
    gaps: str | None = None
    checks: dict[str, str] = field(default_factory=dict)
    settings: Any = None
    attributes: dict[str, Any] = field(default_factory=dict)
    evidence: EvidenceRecord | None = None
    appending: AppendingRecord | None = None
    mesh: MeshRecord | None = None


_types_of: Callable[[Any], dict[str, Any]] = cache(get_type_hints)


def parse(kind: type[Record], found: Any, *, strict: bool = True) -> Record:
    """Make a record of a JSON object; TypeError if a value is not of the type that it must have.

    Not `strict`, only what holds others is looked at: labels are the caller's own.
    """
    if type(found) is not dict:
        raise TypeError(f"{found!r:.40} is no object")
    types = _types_of(kind)
    own = {k: _typed(k, types[k], found[k], strict) for k in types if k in found}
    return kind(**own)


def _typed(name: str, kind: Any, value: Any, strict: bool) -> Any:
    """A value as a field of a record has it: with its records made, and its numbers finite."""
    if kind is Any or (type(value) is kind and (kind is not float or math.isfinite(value))):
        return value
    parts = get_args(kind)
    if isinstance(kind, UnionType):
        own = next((k for k in parts if type(value) is k), parts[0])
        return _typed(name, own, value, strict)
    plain = get_origin(kind) or kind
    if plain in (list, tuple) and type(value) is list and strict:
        return plain(_typed(name, parts[0], v, strict) for v in value)
    if is_dataclass(kind):
        return parse(cast(type[Any], kind), value, strict=strict)
    if plain in (dict, Mapping):
        if type(value) is not dict:
            raise TypeError(f"{name} is {value!r:.40}, no object")
        return {k: _typed(k, parts[1], v, strict) for k, v in value.items()}
    if not strict or (plain is float and is_number(value)):
        return value
    if type(value) is not plain:
        raise TypeError(f"{name} is {value!r:.40}, no {plain.__name__}")
    return value


def digest(meta: Mapping[str, Any]) -> str:
    """Return the CRC-32 of a JSON object without `digest`, with sorted keys and no spaces."""
    content = {k: v for k, v in meta.items() if k != "digest"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x}"


def write_metadata(store: Store, meta: Metadata) -> str:
    """Write the root document, without which nothing is a model; return its digest."""
    content = {"format": FORMAT, "version": VERSION, **to_plain(meta)}
    content["digest"] = digest(content)
    attributes = {"elmfield": content}
    write_document(store, ROOT, {"zarr_format": 3, "node_type": "group", "attributes": attributes})
    return str(content["digest"])


def is_model(store: Store) -> bool:
    """Whether a Zarr group says that it is a model, of whatever version."""
    return _content(store) is not None


def _content(store: Store) -> dict[str, Any] | None:
    attributes = read_document(store, ROOT).get("attributes")
    content = attributes.get("elmfield") if isinstance(attributes, dict) else None
    return content if isinstance(content, dict) and content.get("format") == FORMAT else None


def read_metadata(store: Store) -> Metadata:
    """Read the root document, its version and check sum verified."""
    content = _content(store)
    if content is None:
        raise StoreError(f"{store.name} is a Zarr group, but not a model file of elmfield.")
    version = content.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise StoreError(f"{store.name} is damaged: it states the format version {version!r}.")
    if version > VERSION:
        raise StoreVersionError(
            f"{store.name} has format version {version}; this elmfield reads up to {VERSION}. It "
            f"was written by {content.get('written_by')!r}: install that version or a newer one."
        )
    if "digest" in content and content["digest"] != digest(content):
        raise StoreError(f"{store.name} is damaged: the check sum of its metadata is wrong.")
    try:
        return parse(Metadata, content)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise damaged_metadata(store, error) from error


def damaged_metadata(store: Store, error: Exception) -> StoreError:
    """Return the error for metadata whose values do not go together."""
    kind = type(error).__name__
    return StoreError(f"{store.name} is damaged: its metadata makes no sense ({kind}: {error}).")


def staging_folder(axis: int, size: int) -> str:
    """Return the folder of a model for store that make an axis `size` samples long."""
    return f"next-{axis}-{size}"


# --- plain values ---------------------------------------------------------------------------------


def to_plain(value: Any) -> Any:
    """`value` in JSON's own terms; of records only what is not empty, nor a default value.

    Raises
    ------
    TypeError
        If it is none of numbers, texts, dates, lists, mappings and arrays of them.
    """
    if value is None or isinstance(value, (int, str)):
        return value
    if isinstance(value, (np.datetime64, np.timedelta64)):
        kind = "$date" if isinstance(value, np.datetime64) else "$duration"
        told = str(value) if kind == "$date" or np.isnat(value) else int(value.astype(np.int64))
        return {kind: [told, np.datetime_data(value.dtype)[0]]}
    if isinstance(value, np.generic):
        return to_plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, complex):
        return {"$complex": [to_plain(value.real), to_plain(value.imag)]}
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return to_plain(value[()])
    if isinstance(value, (list, tuple, np.ndarray)):
        return [to_plain(v) for v in value]
    if is_dataclass(value):
        return _record_to_plain(value)
    kinds = "numbers, texts, dates, and lists and mappings of them"
    raise TypeError(f"only {kinds} can be kept with a field; got a {type(value).__name__}.")


def _record_to_plain(record: Any) -> dict[str, Any]:
    found = {}
    for f in fields(record):
        own = to_plain(getattr(record, f.name))
        is_needed = f.default is MISSING and f.default_factory is MISSING
        is_usual = isinstance(own, (bool, int, float, str)) and own == f.default
        if is_needed or not (own is None or own in ([], {}) or is_usual):
            found[f.name] = own
    return found


def from_plain(value: Any) -> Any:
    """What :func:`to_plain` was given, arrays and tuples as lists."""
    if isinstance(value, list):
        return [from_plain(v) for v in value]
    if not isinstance(value, dict):
        return value
    content: Any
    key, content = next(iter(value.items())) if len(value) == 1 else ("", None)
    if key == "$float":
        return float(content)
    if key == "$complex":
        return complex(*(from_plain(v) for v in content))
    if key == "$date":
        return np.asarray(str(content[0]), f"datetime64[{content[1]}]")[()]
    if key == "$duration":
        return np.asarray(content[0], f"timedelta64[{content[1]}]")[()]
    return {k: from_plain(v) for k, v in value.items()}


def keepable(mapping: Mapping[Any, Any]) -> dict[str, Any]:
    """The entries of `mapping` that a model file can keep; others are left out."""
    kept = {}
    for key, value in mapping.items():
        try:
            to_plain(value)
        except TypeError:
            continue
        kept[str(key)] = value
    return kept
