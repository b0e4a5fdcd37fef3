"""What a model file of version 3 need not say: values that are as usual.

Both ways are here: what is left out of metadata, and how a reader completes them.
"""

import math
from collections.abc import Mapping
from typing import Any

USUAL: dict[str, Any] = {
    "networks": [],
    "frames": "boxes",
    "channel_axis": None,
    "complex": False,
    "residual": False,
    "attributes": {},
}
"""Of the whole."""


def shortened(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata without what is as usual; those of older versions as they are."""
    if meta["version"] < 3:
        return dict(meta)
    short = _without(meta, USUAL)
    axes = [_without(a, _axis(k)) for k, a in enumerate(meta["domain"]["axes"])]
    short["domain"] = _without(meta["domain"] | {"axes": axes}, _domain(axes))
    short["partition"] = _without(meta["partition"], _partition(meta["domain"], meta["partition"]))
    short["groups"] = [_without(g, _group(g)) for g in meta["groups"]]
    if "samples" in meta:
        short["samples"] = _without(meta["samples"], _samples(axes))
    return short


def completed(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata with all that may have been left out."""
    if meta["version"] < 3:
        return dict(meta)
    axes = [_axis(k) | a for k, a in enumerate(meta["domain"]["axes"])]
    domain = _domain(axes) | meta["domain"] | {"axes": axes}
    partition = _partition(domain, meta["partition"]) | meta["partition"]
    groups = [_group(g) | g for g in meta["groups"]]
    samples = {"samples": _samples(axes) | meta["samples"]} if "samples" in meta else {}
    whole = {"domain": domain, "partition": partition, "groups": groups, **samples}
    return USUAL | dict(meta) | whole


def _without(values: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are not as usual; 1 and True differ."""
    return {k: v for k, v in values.items() if k not in usual or repr(usual[k]) != repr(v)}


def _axis(k: int) -> dict[str, Any]:
    return {"name": f"axis{k}", "period": None}


def _domain(axes: list[dict[str, Any]]) -> dict[str, Any]:
    return {"low": [-0.5] * len(axes), "high": [int(a["size"]) - 0.5 for a in axes]}


def _partition(domain: Mapping[str, Any], partition: Mapping[str, Any]) -> dict[str, Any]:
    axes, edges = domain["axes"], partition["edges"]
    counted = {"n_regions": math.prod(edges)} if all(isinstance(c, int) for c in edges) else {}
    return counted | {
        "shape": [a["size"] for a in axes],
        "periodic": [a.get("period") is not None for a in axes],
        "equal_boxes": True,
        "context": 0,
        "mirrored": False,
        "regular": True,
    }


def _samples(axes: list[dict[str, Any]]) -> dict[str, Any]:
    whole = {"low": [0] * len(axes), "high": [a["size"] for a in axes]}
    return whole | {"raw": True, "lossy": False}


def _group(group: Mapping[str, Any]) -> dict[str, Any]:
    box = group["modes"].get("box")
    return {} if box is None else {"n_modes": math.prod(int(n) for n in box)}
