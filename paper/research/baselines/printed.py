"""ELM-INR as the paper writes it: every region its own hidden layer and its own least squares.

Slow on purpose: one solve after the other. ``elmfield.fit`` with ``paper(layers="own")`` does the
same, and with ``paper()`` one factorisation serves all regions.
"""

from typing import Any

import numpy as np

from elmfield._array.typing import Array, Floats
from elmfield.local.bases.dense_weights import box_positions, half_widths
from elmfield.partition import Partition, blend, sample_index
from elmfield.settings import Paper
from paper.research.baselines.arrays import places, samples, torch_itself
from paper.research.baselines.methods import integers


def region_by_region(
    values: Array,
    settings: Paper,
    *,
    channel_axis: int | None = None,
    solver: str = "lstsq",
    device: str | None = None,
    regions: int | None = None,
    partition: Partition | None = None,
) -> Floats:
    """Samples reconstructed by one solve per region with its own draw, float64; NumPy.

    Parameters
    ----------
    values : array
        The samples: real numbers without gaps, NumPy or torch.
    settings : Paper
        From ``paper(...)``. Every region draws its own layer, also where settings share one.
    channel_axis : int, optional
        Where `values` has channels.
    solver : {"lstsq", "gels", "normal"}
        ``torch.linalg.lstsq`` with its usual driver for the device or with plain QR, or the normal
        equations ``HᵀH α = Hᵀy`` the paper prints.
    device : str, optional
        Where to solve; by default where the array lives.
    regions : int, optional
        Only so many, the others staying NaN: all take the same time.
    partition : Partition, optional
        The regions, of `elmfield.beam` for instance; by default the mesh of the settings.
    """
    torch = torch_itself()
    if solver not in ("lstsq", "gels", "normal"):
        raise ValueError(f'`solver` must be "lstsq", "gels" or "normal"; got {solver!r}.')
    if not isinstance(settings, Paper):
        raise TypeError(f"`settings` must come from paper(...); got {settings!r}.")
    if regions is not None:
        integers(regions=regions)
    y, shape = samples(values, channel_axis, "values")  # (S, C), float64
    if partition is None:
        part = settings.partition(shape, (False,) * len(shape))
    else:
        part = settings.adopt(partition)
    flat = torch.as_tensor(y, device=places(values, device)[1])
    back, seen = torch.zeros_like(flat), torch.zeros_like(flat)
    left = part.n_regions if regions is None else regions
    for box, inside, numbers in part.shapes:
        t = box_positions(box, flat) / torch.as_tensor(half_widths(box), device=flat.device)
        t = t if inside is None else t[torch.as_tensor(inside.reshape(-1), device=flat.device)]
        for i in numbers[:left]:
            where = sample_index(part, np.asarray([i]), box, flat, inside)[0]
            H = settings.network.of_region(int(i))(t)
            phi = 1.0  # up to half a sample of overlap no window touches another's samples
            if max(part.overlap) > 0.5:
                phi = torch.as_tensor(_window(part, int(i)), device=flat.device)[where][:, None]
            back[where] += phi * (H @ _solved(torch, H, flat[where], solver))
            seen[where] += phi
        left -= min(left, len(numbers))
    back[seen < 1 - 1e-9] = float("nan")
    found: Floats = back.cpu().numpy().reshape(*shape, -1)
    return found[..., 0] if channel_axis is None else np.moveaxis(found, -1, channel_axis)


def _window(part: Partition, region: int) -> Floats:
    """φ of a region at all samples, flat: the sum over its cells of products over axes."""
    phi = (part.labels == region).astype(np.float64)
    for k, n in enumerate(part.shape):
        along = blend(part, k, np.arange(n, dtype=np.float64))
        weights, at = np.zeros((part.n_cells[k], n)), np.arange(n)
        np.add.at(weights, (along.upper, at), along.ramp[0])
        np.add.at(weights, (along.lower, at), 1 - along.ramp[0])
        phi = np.moveaxis(np.tensordot(weights, phi, (0, k)), 0, k)
    flat: Floats = phi.reshape(-1)
    return flat


def _solved(torch: Any, H: Array, b: Array, solver: str) -> Array:
    if solver == "normal":
        return torch.linalg.solve(H.T @ H, H.T @ b)
    driver = "gels" if solver == "gels" or H.is_cuda else None  # CUDA has no other
    return torch.linalg.lstsq(H, b, driver=driver).solution
