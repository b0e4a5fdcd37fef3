"""Local models and settings as plain values, and back.

A model file does not hold the modes of a local model; it says how to make them, and holds a few of
their values so that a reader can tell whether it made the same ones.
"""

import math
import warnings
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cached_property, reduce
from types import NoneType
from typing import Any

import numpy as np

from elmfield._array.typing import Array, Floats
from elmfield.domain import Spacing
from elmfield.errors import RankWarning, StoreError
from elmfield.io.model.metadata import Metadata, Recipe, to_plain
from elmfield.io.store.blocks import ArrayReader
from elmfield.local import bases
from elmfield.local.bases import DenseModes, DenseWeights, Polyharmonic, ProductModes, ShapedModes
from elmfield.local.bases.axis_modes import AxisModes
from elmfield.local.bases.product_modes import AxisWaves
from elmfield.local.bases.spline_modes import even_modes, uneven_modes
from elmfield.local.layers import Cosines, Dense
from elmfield.local.model import LocalModel
from elmfield.partition import Partition
from elmfield.settings import Oriented, Paper, Smooth, Target

MAX_MODEL_BYTES = 1 << 31
"""That making the modes of one group may take; 4096 neurons on 64 x 64 samples take half."""

PROBE_TOLERANCE = 1e-4
"""How well regenerated modes must agree, relative to their size: LAPACK libraries differ in the
last digits, and a dense layer's condition number of 1e7 and more raises them."""

SETTINGS: dict[str, Any] = {c.__name__: c for c in (Smooth, Oriented, Paper, Dense, Target)}
"""What settings may consist of; no other name in a file is ever looked up."""


def recipe_of(model: Any) -> Recipe:
    """Return how to make a local model again, in plain values; TypeError if no file can say it."""
    means = {"means": True} if getattr(model, "means", False) else {}
    masked = getattr(model, "inside", None) is not None
    recipe: Recipe
    match model:
        case Polyharmonic():
            return {
                "kind": "kernels", "power": float(model.power), "degree": int(model.degree),
                "axes": int(model.n_axes), "nodes": int(model.n_nodes),
            }  # fmt: skip
        case ProductModes() if all(isinstance(a.layer, Cosines) for a in model.axes):
            orders, free = [float(a.order) for a in model.axes], [a.n_free for a in model.axes]
            recipe = {"kind": "product", "orders": orders, "free": free, **means}
        case DenseWeights():
            recipe = {"kind": "weights", "masked": masked, "own": model.is_own}
        case ShapedModes() | DenseModes() if masked or isinstance(model, ShapedModes):
            recipe = {"kind": "shaped", "masked": masked}
        case DenseModes(order=None):
            recipe = {"kind": "plain"}
        case DenseModes(order=int() | float() as order):
            recipe = {"kind": "smooth", "order": float(order)}
        case bases.WaveModel():
            recipe = {"kind": "oriented", "order": model.beliefs.order, **means}
        case bases.PolynomialModel():
            periodic = [isinstance(a, AxisWaves) for a in model.axes]
            recipe = {"kind": "polynomials", "widths": list(model.shape), "periodic": periodic}
        case _:
            raise TypeError(
                f"a field of {type(model).__name__} on a layer of one's own cannot be saved: a "
                "file would not say how to make it again. Save its samples() instead."
            )
    if (network := getattr(model, "network", None)) is not None:
        if not isinstance(own := network.activation, str):
            raise TypeError(
                f"a file would not say what the activation {own!r} does. Give it a name first, in "
                "every process: elmfield.local.layers.ACTIVATIONS['name'] = it; activation='name'."
            )
        recipe["network"] = asdict(network)
    return {**recipe, "box": [int(n) for n in model.box]}


def make_model(recipe: Recipe, inside: Array | None) -> LocalModel:
    """Make the model that a recipe describes; `inside` marks the samples of a box that count.

    Any error says that the recipe makes no sense, or asks for more memory than a sensible one.
    """
    kind, means = recipe["kind"], recipe.get("means") is True
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
        return bases.product_modes(
            box, tuple(map(float, recipe["orders"])), free=counts, means=means
        )
    if kind == "oriented":
        order = float(recipe["order"])
        if not 0 < order <= 16:
            raise ValueError(f"order {order}")
        n_waves = math.prod(2 * math.floor(1.5 * n + 1e-9) + 2 if n > 1 else 2 for n in box)
        _check_bytes(320 * S * n_waves, f"a box of {box} samples")
        return bases.wave_model(box, order, means)
    if kind == "polynomials":
        widths, periodic = tuple(map(int, recipe["widths"])), tuple(map(bool, recipe["periodic"]))
        if not (len(widths) == len(periodic) == len(box) and min(widths) > 0):
            raise ValueError(f"polynomials {widths} on axes of {box} samples")
        _check_bytes(sum(160 * n * w for n, w in zip(box, widths)), f"{widths} polynomials")
        return bases.polynomial_model(box, widths, periodic)
    if kind not in ("shaped", "plain", "smooth", "weights"):
        raise ValueError(f"modes of kind {kind!r}")
    network, like = Dense(**recipe["network"]), np.empty(0)
    m, what = network.width, f"{network.width} neurons on {S} samples"
    if kind == "weights":
        return DenseWeights(network=network, box=box, inside=inside, is_own=bool(recipe["own"]))
    if kind == "shaped":
        _check_bytes(max(4 * m * m * 8, S * len(box) * 8), what)
        return bases.shaped_modes(network, box, inside, like)
    _check_bytes((4 * S * m + 2 * m * m) * 4, what)
    if kind == "plain":
        return bases.plain_modes(network, box, like)
    return bases.smooth_dense_modes(network, box, float(recipe["order"]), like)


def _check_bytes(n_bytes: int, what: str) -> None:
    if n_bytes > MAX_MODEL_BYTES:
        raise ValueError(what)


def probe(modes: LocalModel, d: int) -> list[float]:
    """Return Σ_j cos(j + 1) mode_j at three places of the box: a checksum to a tolerance."""
    t = _places(d)
    if isinstance(modes, ShapedModes):
        # To ask its modes would factor the region once more; the layer settles them.
        w = np.cos(np.arange(1, modes.network.width + 1)) / math.sqrt(modes.network.width)
        return [float(v) for v in modes.network(t) @ w]
    if isinstance(modes, ProductModes) and not all(type(a) is AxisModes for a in modes.axes):
        modes = even_modes(modes)  # whose functions between samples the axes settle
    if isinstance(modes, Polyharmonic) and modes.nodes is None:
        modes = modes.around(_places(d, modes.n_nodes))
    if isinstance(modes, (ProductModes, bases.WaveModel, bases.PolynomialModel)):
        t = t * [max(n - 1, 1) / 2 for n in modes.box]
    r = modes.n_modes
    c = np.cos(np.arange(1, r + 1))[None, :, None] / math.sqrt(r)
    F = np.asarray(modes.expand(c))[0, ..., 0]
    rows = [np.asarray(a) for a in modes.rows(t, (0,) * d)]

    def at(p: int) -> float:
        return float(reduce(lambda X, row: np.tensordot(row[p], X, axes=(0, 0)), rows, F))

    return [at(p) for p in range(3)]


def _places(d: int, n: int = 3) -> Floats:
    """Three places, or n, in the box from -1 to 1, (n, d)."""
    return np.asarray(0.9 * np.cos(1.7 * np.arange(1, d + 1) * np.arange(1, n + 1)[:, None]))


@dataclass(eq=False)
class DescribedModel:
    """A local model as a file describes it: made, and checked, when something first needs it.

    Sizes are known before; all else is asked of the model itself.

    Parameters
    ----------
    recipe : mapping
        How to make it.
    n_modes : int
        How many modes there are.
    probe : list of float
        Values they must have.
    n_axes : int
        d.
    inside : array of bool, of the box's shape, or None
        Which samples of the box count.
    spacings : tuple
        Where the samples of uneven axes lie.
    """

    recipe: dict[str, Any]
    n_modes: int
    probe: list[float]
    n_axes: int
    inside: Array | None = None
    spacings: tuple[Spacing | None, ...] = ()

    @cached_property
    def model(self) -> LocalModel:
        """The model; StoreError if it is not the one the file was written with."""
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore", RankWarning)  # was said when the field was fitted
                model = make_model(self.recipe, self.inside)
                found = np.asarray(probe(model, self.n_axes))
            if model.n_modes != self.n_modes:
                raise ValueError(f"there are {model.n_modes}, not {self.n_modes}")
        except Exception as error:  # whatever linear algebra says about numbers that are no recipe
            why = f"modes that cannot be made ({error})"
            raise StoreError(f"the model file asks for {why}; it is damaged.") from error
        wanted = np.asarray(self.probe, np.float64)
        most = PROBE_TOLERANCE * max(float(np.max(np.abs(wanted), initial=0.0)), 1e-300)
        if wanted.shape != found.shape or not np.max(np.abs(found - wanted)) <= most:
            raise StoreError(
                "the modes made here are not those the file was written with: their probe is "
                f"{found.tolist()}, the file says {wanted.tolist()}. The file is damaged, or the "
                "linear algebra library on this machine orders them differently."
            )
        return uneven_modes(model, self.spacings)

    @property
    def basis(self) -> "DescribedModel | None":
        """Itself, unless its coefficients are weights."""
        return None if self.recipe["kind"] in ("kernels", "weights") else self

    @property
    def box(self) -> tuple[int, ...]:
        """Samples of the box on each axis."""
        return tuple(int(n) for n in self.recipe["box"])

    @property
    def n_samples(self) -> int:
        """Samples S that count."""
        return math.prod(self.box) if self.inside is None else int(np.count_nonzero(self.inside))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # what `copy` and `pickle` ask for
            raise AttributeError(name)
        return getattr(self.model, name)


def describe_model(model: LocalModel, d: int) -> DescribedModel:
    """Say how to make a local model again; one that a file describes is not made for that."""
    if isinstance(model, DescribedModel):
        return model
    inside: Array | None = getattr(model, "inside", None)
    return DescribedModel(recipe_of(model), int(model.n_modes), probe(model, d), d, inside)


def read_models(arrays: ArrayReader, meta: Metadata, part: Partition) -> list[DescribedModel]:
    """Return the local models of all groups, which are made when first used."""
    models, end = [], 0
    boxes = [tuple(map(int, g.modes["box"])) if g.modes.get("masked") else () for g in meta.groups]
    n = sum(math.prod(box) for box in boxes if box)
    bits = arrays.bits("inside", n) if n else np.empty(0, bool)
    for group, box in zip(meta.groups, boxes):
        recipe, inside = dict(group.modes), None
        if "network" in recipe:
            recipe["network"] = meta.networks[recipe["network"]]
        if box:
            inside, end = bits[end : end + math.prod(box)].reshape(box), end + math.prod(box)
        about = recipe, group.n_modes, group.probe, len(part.shape), inside
        models.append(DescribedModel(*about, part.spacings))
    return models


# --- settings -------------------------------------------------------------------------------------


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
