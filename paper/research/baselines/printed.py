"""ELM-INR as the paper writes it: every region its own hidden layer and its own least squares.

Slow on purpose; what `elmfield.fit` with ``paper(...)`` does at once, and is measured against.
"""

from typing import Any

import numpy as np

from elmfield._array.typing import Array, Floats
from elmfield.local.bases import box_positions, half_widths
from elmfield.partition import sample_index
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
) -> Floats:
    """Samples reconstructed by one solve per region, float64; NumPy.

    Parameters
    ----------
    values : array
        The samples: real numbers without gaps, NumPy or torch.
    settings : Paper
        From ``paper(...)``, without overlap.
    channel_axis : int, optional
        Where `values` has channels.
    solver : {"lstsq", "gels", "normal"}
        ``torch.linalg.lstsq`` with its usual driver for the device or with plain QR, or the normal
        equations ``HᵀH α = Hᵀy`` the paper prints.
    device : str, optional
        Where to solve; by default where the array lives.
    regions : int, optional
        Only so many, the others staying NaN: all take the same time.
    """
    torch = torch_itself()
    if solver not in ("lstsq", "gels", "normal"):
        raise ValueError(f'`solver` must be "lstsq", "gels" or "normal"; got {solver!r}.')
    if not isinstance(settings, Paper):
        raise TypeError(f"`settings` must come from paper(...); got {settings!r}.")
    if settings.overlap is not None and np.any(np.asarray(settings.overlap) > 0):
        raise ValueError(
            f"`settings` must have no overlap, as the paper's experiments; got {settings.overlap}."
        )
    if regions is not None:
        integers(regions=regions)
    y, shape = samples(values, channel_axis, "values")  # (S, C), float64
    partition = settings.partition(shape, (False,) * len(shape))
    flat = torch.as_tensor(y, device=places(values, device)[1])
    back = torch.full_like(flat, float("nan"))
    left = partition.n_regions if regions is None else regions
    for box, numbers in partition:
        for i in numbers[:left]:
            where = sample_index(partition, np.asarray([i]), box, flat)[0]
            radius = torch.as_tensor(half_widths(box), device=flat.device)
            H = settings.network(box_positions(box, flat) / radius)
            back[where] = H @ _solved(torch, H, flat[where], solver)
        left -= min(left, len(numbers))
    found: Floats = back.cpu().numpy().reshape(*shape, -1)
    return found[..., 0] if channel_axis is None else np.moveaxis(found, -1, channel_axis)


def _solved(torch: Any, H: Array, b: Array, solver: str) -> Array:
    if solver == "normal":
        return torch.linalg.solve(H.T @ H, H.T @ b)
    driver = "gels" if solver == "gels" or H.is_cuda else None  # CUDA has no other
    return torch.linalg.lstsq(H, b, driver=driver).solution
