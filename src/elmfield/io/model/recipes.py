"""Local models and settings as plain values, and back.

A model file does not hold the modes of a local model; it says how to make them, and holds a few of
their values so that a reader can tell whether it made the same ones.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, fields, is_dataclass
from types import NoneType
from typing import Any

import numpy as np

from elmfield._array.typing import Array, Floats
from elmfield.errors import RankWarning, StoreError
from elmfield.io.model.metadata import Recipe, to_plain
from elmfield.local.bases import (
    DenseModes,
    DenseWeights,
    Polyharmonic,
    PolynomialModel,
    ProductModes,
    ShapedModes,
    WaveModel,
    plain_modes,
    polynomial_model,
    product_modes,
    shaped_modes,
    smooth_dense_modes,
    wave_model,
)
from elmfield.local.bases.polyharmonic import n_monomials
from elmfield.local.bases.product_modes import AxisWaves
from elmfield.local.bases.spline_modes import even_modes
from elmfield.local.layers import Cosines, Dense
from elmfield.local.model import LocalModel
from elmfield.settings import Oriented, Paper, Smooth, Target

MAX_MODEL_BYTES = 1 << 31
"""That making the modes of one group may take; 4096 neurons on 64 x 64 samples take half."""

PROBE_TOLERANCE = 1e-4
"""How well regenerated modes must agree, relative to their size: LAPACK libraries differ in the
last digits, and a dense layer's condition number of 1e7 and more raises them."""

SETTINGS: dict[str, Any] = {c.__name__: c for c in (Smooth, Oriented, Paper, Dense, Target)}
"""What settings may consist of; no other name in a file is ever looked up."""


def recipe_of(model: LocalModel) -> Recipe:
    """Return how to make a local model again, in plain values; TypeError if no file can say it."""
    recipe: Recipe | None = None
    if isinstance(model, ProductModes):
        if all(isinstance(a.layer, Cosines) for a in model.axes):
            recipe = {
                "kind": "product",
                "orders": [float(a.order) for a in model.axes],
                "free": [a.n_free for a in model.axes],
            }
            recipe |= {"means": True} if model.means else {}
    elif isinstance(model, Polyharmonic):
        recipe = {
            "kind": "kernels", "power": float(model.power), "degree": int(model.degree),
            "axes": int(model.n_axes), "nodes": int(model.n_nodes),
        }  # fmt: skip
    elif isinstance(model, ShapedModes) or (
        isinstance(model, DenseModes) and model.inside is not None
    ):
        recipe = {"kind": "shaped", "masked": model.inside is not None}
    elif isinstance(model, DenseModes):
        recipe = {"kind": "plain"}
        if model.order is not None:
            recipe = {"kind": "smooth", "order": float(model.order)}
    elif isinstance(model, DenseWeights):
        recipe = {"kind": "weights", "masked": model.inside is not None, "own": model.is_own}
    elif isinstance(model, WaveModel):
        recipe = {"kind": "oriented", "order": model.beliefs.order}
        recipe |= {"means": True} if model.means else {}
    elif isinstance(model, PolynomialModel):
        periodic = [isinstance(a, AxisWaves) for a in model.axes]
        recipe = {"kind": "polynomials", "widths": list(model.shape), "periodic": periodic}
    if recipe is None:
        raise TypeError(
            f"a field of {type(model).__name__} on a layer of one's own cannot be saved: a file "
            "would not say how to make it again. Save its samples() instead."
        )
    if isinstance(model, (DenseModes, DenseWeights, ShapedModes)):
        recipe["network"] = asdict(model.network)
    boxed = (ProductModes, DenseModes, DenseWeights, ShapedModes, WaveModel, PolynomialModel)
    if isinstance(model, boxed):
        recipe["box"] = [int(n) for n in model.box]
    return recipe


def make_model(recipe: Recipe, inside: Array | None = None) -> LocalModel:
    """Make the model that a recipe describes; `inside` marks the samples of a box that count.

    Raises
    ------
    StoreError
        If the recipe makes no sense, or asks for more memory than any sensible one.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RankWarning)  # was said when the field was fitted
            return _make(recipe, inside)
    except Exception as error:  # whatever linear algebra says about numbers that are no recipe
        raise StoreError(
            f"the model file asks for modes that cannot be made ({error}); it is damaged."
        ) from error


def _make(recipe: Recipe, inside: Array | None) -> LocalModel:
    kind = recipe["kind"]
    if kind == "kernels":
        power, degree = float(recipe["power"]), int(recipe["degree"])
        d, n = int(recipe["axes"]), int(recipe["nodes"])
        if not (0 < power <= 31 and power / 2 - 1 < degree <= 16 and d > 0 and 0 < n <= 1 << 20):
            raise ValueError(f"{n} kernels of power {power} beside polynomials of degree {degree}")
        return Polyharmonic(power, degree, d, n)
    box = tuple(int(n) for n in recipe["box"])
    S = math.prod(box)
    if min(box, default=1) < 1:
        raise ValueError("a box without samples")
    if kind == "product":
        _check_bytes(sum(60 * n * n * 8 for n in box), f"a box of {box} samples")
        free = recipe.get("free")  # without it, as many polynomials as the orders allow
        counts = None if free is None else tuple(map(int, free))
        orders = tuple(map(float, recipe["orders"]))
        return product_modes(box, orders, free=counts, means=recipe.get("means") is True)
    if kind == "oriented":
        order = float(recipe["order"])
        if not 0 < order <= 16:
            raise ValueError(f"order {order}")
        _check_bytes(320 * S * _n_waves(box), f"a box of {box} samples")
        return wave_model(box, order, recipe.get("means") is True)
    if kind == "polynomials":
        widths, periodic = tuple(map(int, recipe["widths"])), tuple(map(bool, recipe["periodic"]))
        if not (len(widths) == len(periodic) == len(box) and min(widths) > 0):
            raise ValueError(f"polynomials {widths} on axes of {box} samples")
        _check_bytes(sum(160 * n * w for n, w in zip(box, widths)), f"{widths} polynomials")
        return polynomial_model(box, widths, periodic)
    if kind not in ("shaped", "plain", "smooth", "weights"):
        raise ValueError(f"modes of kind {kind!r}")
    network, like = Dense(**recipe["network"]), np.empty(0)
    m, what = network.width, f"{network.width} neurons on {S} samples"
    if kind == "weights":
        return DenseWeights(network=network, box=box, inside=inside, is_own=bool(recipe["own"]))
    if kind == "shaped":
        _check_bytes(max(4 * m * m * 8, S * len(box) * 8), what)
        return shaped_modes(network, box, inside, like)
    _check_bytes((4 * S * m + 2 * m * m) * 4, what)
    if kind == "plain":
        return plain_modes(network, box, like)
    return smooth_dense_modes(network, box, float(recipe["order"]), like)


def _check_bytes(n_bytes: int, what: str) -> None:
    if n_bytes > MAX_MODEL_BYTES:
        raise ValueError(what)


def _n_waves(box: Sequence[int]) -> int:
    """Product neurons of kind "oriented" on a box."""
    return math.prod(2 * math.floor(1.5 * int(n) + 1e-9) + 2 if n > 1 else 2 for n in box)


def can_have(recipe: Recipe, n_modes: int) -> bool:
    """Whether a recipe can give so many modes."""
    try:
        if recipe["kind"] == "kernels":
            free = n_monomials(int(recipe["axes"]), int(recipe["degree"]))
            return n_modes == int(recipe["nodes"]) + free
        if recipe["kind"] == "oriented":
            return n_modes == _n_waves(recipe["box"])
        if recipe["kind"] == "polynomials":
            return n_modes == math.prod(map(int, recipe["widths"]))
        if recipe["kind"] == "weights":
            return n_modes > 0
        return 0 < n_modes <= math.prod(int(n) for n in recipe["box"])
    except (KeyError, TypeError, ValueError):
        return False


def probe(modes: LocalModel, d: int) -> list[float]:
    """Return Σ_j cos(j + 1) mode_j at three places of the box: a checksum to a tolerance."""
    if isinstance(modes, ShapedModes):
        # To ask its modes would factor the region once more; the layer settles them.
        w = np.cos(np.arange(1, modes.network.width + 1)) / math.sqrt(modes.network.width)
        return [float(v) for v in modes.network(_places(d)) @ w]
    if isinstance(modes, ProductModes):  # whose functions between samples the axes settle
        modes = even_modes(modes)
    if isinstance(modes, Polyharmonic) and modes.nodes is None:
        modes = modes.around(_places(d, modes.n_nodes))
    r = modes.n_modes
    c = np.cos(np.arange(1, r + 1))[None, :, None] / math.sqrt(r)
    t = _places(d) * _half_box(modes, d)
    F = np.asarray(modes.expand(c))[0, ..., 0]
    rows = [np.asarray(a) for a in modes.rows(t, (0,) * d)]
    values = []
    for p in range(3):
        X = F
        for row in rows:
            X = np.tensordot(row[p], X, axes=(0, 0))
        values.append(float(X))
    return values


def _places(d: int, n: int = 3) -> Floats:
    """Three places, or n, in the box from -1 to 1, (n, d)."""
    return np.asarray(0.9 * np.cos(1.7 * np.arange(1, d + 1) * np.arange(1, n + 1)[:, None]))


def _half_box(modes: LocalModel, d: int) -> Floats:
    """Return half the box in the modes' local coordinates, (d,)."""
    if isinstance(modes, (ProductModes, WaveModel, PolynomialModel)):
        return np.asarray([max(n - 1, 1) / 2 for n in modes.box])
    return np.ones(d)


def check_probe(modes: LocalModel, d: int, expected: list[float]) -> None:
    """Raise StoreError unless `modes` has the probed values."""
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(probe(modes, d))
    except Exception as error:
        raise StoreError(
            f"the model file asks for modes that have no values ({error}); it is damaged."
        ) from error
    wanted = np.asarray(expected, dtype=np.float64)
    size = max(float(np.max(np.abs(wanted), initial=0.0)), 1e-300)
    if wanted.shape != found.shape or not np.max(np.abs(found - wanted)) <= PROBE_TOLERANCE * size:
        raise StoreError(
            "the modes made here are not those the file was written with: their probe is "
            f"{found.tolist()}, the file says {wanted.tolist()}. The file is damaged, or the "
            "linear algebra library on this machine orders them differently."
        )


def settings_to_plain(settings: object) -> Any:
    """Return settings by name and values, or None for settings this module does not know."""
    if is_dataclass(settings) and type(settings).__name__ in SETTINGS:
        values = {
            f.name: settings_to_plain(getattr(settings, f.name))
            for f in fields(settings)
            if getattr(settings, f.name) is not f.default  # which a reader puts there again
        }
        return {"made": type(settings).__name__, **values}
    if isinstance(settings, (tuple, list)):
        return [settings_to_plain(v) for v in settings]
    if settings is None or isinstance(settings, (bool, int, float, str, np.generic)):
        return to_plain(settings)
    return None


def settings_from_plain(kept: Any) -> Any:
    """Return the settings again; what the file says of those that only another version knows.

    Raises
    ------
    ValueError, TypeError
        If this version knows their words, but not such values.
    """
    if isinstance(kept, list):
        return tuple(settings_from_plain(v) for v in kept)
    made = kept.get("made") if isinstance(kept, dict) else None
    if not isinstance(made, str) or made not in SETTINGS:
        return kept
    words = {f.name for f in fields(SETTINGS[made])}
    values = {k: settings_from_plain(v) for k, v in kept.items() if k != "made"}
    if not words.issuperset(values):
        return kept
    for name, kind in (("target", Target), ("network", Dense), ("kind", str)):
        if not isinstance(values.get(name), (kind, NoneType)):
            raise ValueError(f"settings whose {name} is {values[name]!r:.100}")
    return SETTINGS[made](**values)
