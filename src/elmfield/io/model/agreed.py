"""What both sides of the format must agree on: check sums, the order of regions, their frames."""

import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from elmfield._array.typing import Floats, Integers
from elmfield.local.bases import half_widths
from elmfield.partition import Partition


def digest(meta: Mapping[str, Any]) -> str:
    """A check sum of the metadata: CRC-32 of its JSON with sorted keys and no spaces."""
    content = {k: v for k, v in meta.items() if k != "digest"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x}"


def file_order(partition: Partition) -> Integers:
    """Regions in the order of the file: along a Z-order curve through their first cells.

    Regions that are close in space are then close in the file, and a window reads few blocks.
    """
    labels = partition.labels.reshape(-1)
    if partition.is_regular:
        first = labels
    else:
        _, first = np.unique(labels, return_index=True)
    cells = np.unravel_index(first, partition.n_cells)
    d = len(cells)
    key = np.zeros(len(first), np.uint64)
    bits = min(63 // d, max(int(c.max()).bit_length() for c in cells))
    wide = [c.astype(np.uint64) for c in cells]
    for bit in range(bits):
        for k, c in enumerate(wide):
            one = (c >> np.uint64(bit)) & np.uint64(1)
            key |= one << np.uint64(bit * d + d - 1 - k)
    return np.argsort(key, kind="stable")


def frames_of(
    part: Partition, groups: list[dict[str, Any]], which: Integers
) -> tuple[Floats, Floats]:
    """Centres and radii, (N, d) each, of regions whose boxes are the partition's."""
    starts, sizes = part.boxes
    d = len(part.shape)
    radius = np.ones((len(groups), d))
    for g, kept in enumerate(groups):
        if kept["modes"]["kind"] in ("plain", "smooth", "shaped"):
            radius[g] = half_widths(tuple(kept["modes"]["box"]))
    return starts + (sizes - 1) / 2, radius[which]
