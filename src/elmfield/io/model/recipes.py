"""Recipes: modes and settings as plain values, and back.

A model file does not hold modes; it says how to make them, and holds a few of their values so that
a reader can tell whether it made the same ones.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any

import numpy as np

from elmfield._array.typing import Array, Floats
from elmfield.errors import RankWarning, StoreError
from elmfield.field import Target
from elmfield.io.model.plain import to_plain
from elmfield.local.bases import (
    DenseModes,
    Polyharmonic,
    ProductModes,
    ProductNeurons,
    ShapedModes,
    WaveModel,
    plain_modes,
    product_modes,
    shaped_modes,
    smooth_dense_modes,
    wave_model,
)
from elmfield.local.bases.polyharmonic import n_monomials
from elmfield.local.layers import Cosines, Dense
from elmfield.local.model import LocalModel
from elmfield.settings import Oriented, Paper, Smooth

BUDGET = 1 << 31
"""Bytes that making the modes of one group may take; 4096 neurons on 64 x 64 samples take half."""

TOLERANCE = 1e-4
"""How well regenerated modes must agree, relative to their size: LAPACK libraries differ in the
last digits, and a dense layer's condition number of 1e7 and more raises them."""


KINDS = {"per_region": "keep"}
"""Targets that files know by another word."""

MADE: dict[str, Any] = {c.__name__: c for c in (Smooth, Oriented, Paper, Dense, Target)}
"""What settings may consist of; no other name in a file is ever looked up."""


def recipe_of(modes: LocalModel) -> dict[str, Any]:
    """How to make `modes` again, in plain values."""
    say = RECIPES.get(type(modes))
    said = None if say is None else say(modes)
    if said is None:
        raise TypeError(
            f"a field of {type(modes).__name__} on a layer of one's own cannot be saved: a file "
            "would not say how to make it again. Save its samples() instead."
        )
    return said


def _product(modes: ProductModes) -> dict[str, Any] | None:
    """Products of cosines; other layers are not known to the format."""
    if not all(isinstance(a.layer, Cosines) for a in modes.axes):
        return None
    orders = [float(a.order) for a in modes.axes]
    said = {"kind": "product", "box": list(map(int, modes.box)), "orders": orders}
    return said | _free(all(a.n_free > 0 for a in modes.axes))


def _neurons(modes: ProductNeurons) -> dict[str, Any]:
    axes = [[int(a.count), float(a.fundamental)] for a in modes.layers]
    return {"kind": "neurons", "axes": axes} | _free(modes.planes)


def _kernels(modes: Polyharmonic) -> dict[str, Any]:
    own = {"power": float(modes.power), "degree": int(modes.degree), "axes": int(modes.n_axes)}
    return {"kind": "kernels", **own, "nodes": int(modes.n_nodes)}


def _dense(modes: DenseModes) -> dict[str, Any]:
    if modes.inside is not None:
        return _shaped(modes)
    said = {"kind": "plain", **_on_a_network(modes)}
    if modes.order is None:
        return said
    return said | {"kind": "smooth", "order": float(modes.order)} | _free(modes.planes)


def _shaped(modes: ShapedModes | DenseModes) -> dict[str, Any]:
    return {"kind": "shaped", **_on_a_network(modes), "masked": modes.inside is not None}


def _free(free: bool) -> dict[str, Any]:
    """Said only where lines are free: files before version 3 do not know the word."""
    return {"free": True} if free else {}


def is_free(recipe: dict[str, Any]) -> bool:
    """Whether straight lines and planes cost nothing."""
    return bool(recipe.get("free", False))


def _on_a_network(modes: ShapedModes | DenseModes) -> dict[str, Any]:
    return {"box": list(map(int, modes.box)), "network": network_to_plain(modes.network)}


def _oriented(modes: WaveModel) -> dict[str, Any]:
    return {"kind": "oriented", "box": list(map(int, modes.box)), "order": modes.beliefs.order}


RECIPES: dict[type, Callable[[Any], dict[str, Any] | None]] = {
    ProductModes: _product,
    ProductNeurons: _neurons,
    Polyharmonic: _kernels,
    DenseModes: _dense,
    ShapedModes: _shaped,
    WaveModel: _oriented,
}
"""How each kind of local model that the format knows is said; :func:`make` is the way back."""


def network_to_plain(network: Dense) -> dict[str, Any]:
    """A dense layer as files have it; there its frequencies are called n_frequencies."""
    said = asdict(network)
    return {"n_frequencies" if name == "frequencies" else name: v for name, v in said.items()}


def network_from_plain(*, n_frequencies: int, **others: Any) -> Dense:
    """A dense layer from what a file says."""
    return Dense(frequencies=n_frequencies, **others)


def make(recipe: dict[str, Any], inside: Array | None = None) -> LocalModel:
    """The modes that a recipe describes; `inside` marks the samples of a box that count.

    Raises
    ------
    StoreError
        If the recipe makes no sense, or asks for more memory than any sensible one.
    """
    try:
        if recipe["kind"] not in MAKERS:
            raise ValueError(f"modes of kind {recipe['kind']!r}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RankWarning)  # was said when the field was fitted
            return MAKERS[recipe["kind"]](recipe, inside)
    except Exception as error:  # whatever linear algebra says about numbers that are no recipe
        raise StoreError(
            f"the model file asks for modes that cannot be made ({error}); it is damaged."
        ) from error


def _box(recipe: dict[str, Any]) -> tuple[int, ...]:
    box = tuple(int(n) for n in recipe["box"])
    if min(box) < 1:
        raise ValueError("a box without samples")
    return box


def _make_neurons(recipe: dict[str, Any], inside: Array | None) -> LocalModel:
    lines = is_free(recipe)
    return ProductNeurons(tuple(Cosines(int(n), float(f), lines) for n, f in recipe["axes"]))


def _make_kernels(recipe: dict[str, Any], inside: Array | None) -> LocalModel:
    power, degree = float(recipe["power"]), int(recipe["degree"])
    d, n = int(recipe["axes"]), int(recipe["nodes"])
    if not (0 < power <= 31 and power / 2 - 1 < degree <= 16 and d > 0 and 0 < n <= 1 << 20):
        raise ValueError(f"{n} kernels of power {power} beside polynomials of degree {degree}")
    return Polyharmonic(power, degree, d, n)


def _paid_lattice(n: int) -> Cosines:
    """The layer of files before version 3."""
    return Cosines.lattice(n, lines=False)


def _make_product(recipe: dict[str, Any], inside: Array | None) -> LocalModel:
    box = _box(recipe)
    if sum(60 * n * n * 8 for n in box) > BUDGET:
        raise ValueError(f"a box of {box} samples")
    layer = Cosines.lattice if is_free(recipe) else _paid_lattice
    return product_modes(box, tuple(float(s) for s in recipe["orders"]), layer)


def _make_shaped(recipe: dict[str, Any], inside: Array | None) -> LocalModel:
    box, network = _box(recipe), network_from_plain(**recipe["network"])
    S, m = math.prod(box), network.width
    if m * m * 8 > BUDGET // 4 or S * len(box) * 8 > BUDGET:
        raise ValueError(f"{m} neurons on {S} samples")
    return shaped_modes(network, box, inside, np.empty(0))


def _make_plain(recipe: dict[str, Any], inside: Array | None) -> LocalModel:
    box, network = _box(recipe), network_from_plain(**recipe["network"])
    _check_dense(box, network)
    return plain_modes(network, box, np.empty(0))


def _make_smooth(recipe: dict[str, Any], inside: Array | None) -> LocalModel:
    box, network = _box(recipe), network_from_plain(**recipe["network"])
    _check_dense(box, network)
    planes = is_free(recipe)
    return smooth_dense_modes(network, box, float(recipe["order"]), np.empty(0), planes=planes)


def _make_oriented(recipe: dict[str, Any], inside: Array | None) -> LocalModel:
    box, order = _box(recipe), float(recipe["order"])
    if not 0 < order <= 16 or 320 * math.prod(box) * _n_waves(box) > BUDGET:
        raise ValueError(f"order {order} on a box of {box} samples")
    return wave_model(box, order)


def _n_waves(box: Sequence[int]) -> int:
    """Product neurons of kind "oriented" on a box."""
    return math.prod(2 * math.floor(1.5 * int(n) + 1e-9) + 2 if n > 1 else 2 for n in box)


def _check_dense(box: tuple[int, ...], network: Dense) -> None:
    S, m = math.prod(box), network.width
    if (4 * S * m + 2 * m * m) * 8 > 2 * BUDGET:
        raise ValueError(f"{m} neurons on {S} samples")


MAKERS: dict[str, Callable[[dict[str, Any], Array | None], LocalModel]] = {
    "neurons": _make_neurons,
    "kernels": _make_kernels,
    "product": _make_product,
    "plain": _make_plain,
    "smooth": _make_smooth,
    "shaped": _make_shaped,
    "oriented": _make_oriented,
}
"""Who makes which kind; no other name in a file is looked up."""


def n_modes_of(recipe: dict[str, Any], stated: int) -> int:
    """Modes r that a recipe can give at most, or `stated` if that is possible."""
    try:
        if recipe["kind"] == "neurons":
            most = math.prod(1 + 2 * int(n) for n, _ in recipe["axes"])
            most += len(recipe["axes"]) if is_free(recipe) else 0
            return stated if stated == most else -1
        if recipe["kind"] == "kernels":
            most = int(recipe["nodes"]) + n_monomials(int(recipe["axes"]), int(recipe["degree"]))
            return stated if stated == most else -1
        if recipe["kind"] == "oriented":
            return stated if stated == _n_waves(recipe["box"]) else -1
        most = math.prod(int(n) for n in recipe["box"])
        return stated if 0 < stated <= most else -1
    except (KeyError, TypeError, ValueError):
        return -1


def probe(modes: LocalModel, d: int) -> list[float]:
    """Values of Σ_j cos(j + 1) mode_j at three places of the box: a checksum to a tolerance."""
    if isinstance(modes, ShapedModes):
        # To ask its modes would factor the region once more; the layer settles them.
        w = np.cos(np.arange(1, modes.network.width + 1)) / math.sqrt(modes.network.width)
        return [float(v) for v in modes.network(_places(d)) @ w]
    if isinstance(modes, Polyharmonic) and modes.nodes is None:
        modes = modes.around(_places(d, modes.n_nodes))
    r = modes.n_modes
    c = np.cos(np.arange(1, r + 1))[None, :, None] / math.sqrt(r)
    t = _places(d) * reach(modes, d)
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


def reach(modes: LocalModel, d: int) -> Floats:
    """Half the box in the modes' local coordinates, (d,)."""
    if isinstance(modes, (ProductModes, WaveModel)):
        return np.asarray([max(n - 1, 1) / 2 for n in modes.box])
    return np.ones(d)


def check(modes: LocalModel, d: int, expected: list[float]) -> None:
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
    if wanted.shape != found.shape or not np.max(np.abs(found - wanted)) <= TOLERANCE * size:
        raise StoreError(
            "the modes made here are not those the file was written with: their probe is "
            f"{found.tolist()}, the file says {wanted.tolist()}. The file is damaged, or the "
            "linear algebra library on this machine orders them differently."
        )


def settings_to_plain(settings: object) -> Any:
    """Settings by name and values, or None for settings this module does not know."""
    if isinstance(settings, Dense):
        return {"made": "Dense", **network_to_plain(settings)}
    if isinstance(settings, Target):
        return {"made": "Target", "kind": KINDS.get(settings.kind, settings.kind),
                "value": to_plain(settings.value)}  # fmt: skip
    if is_dataclass(settings) and type(settings).__name__ in MADE:
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
    """The settings again; where this version does not know them, what the file says."""
    if isinstance(kept, list):
        return tuple(settings_from_plain(v) for v in kept)
    if not isinstance(kept, dict) or kept.get("made") not in MADE:
        return kept
    values = {k: settings_from_plain(v) for k, v in kept.items() if k != "made"}
    if kept["made"] == "Target":
        words = {v: k for k, v in KINDS.items()}
        values["kind"] = words.get(str(values.get("kind")), values.get("kind"))
    make = network_from_plain if kept["made"] == "Dense" else MADE[kept["made"]]
    try:
        return make(**values)
    except (TypeError, ValueError):
        return kept
