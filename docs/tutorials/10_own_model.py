"""
A local model of your own
=========================

A field blends local models. What a fit needs of one is a protocol, so another kind takes one class
and no change to the library.
"""

# %%
# A layer of your own
# -------------------
#
# The default's model is made of products of functions along the axes. The functions of one axis are a
# layer: five members, for a box of ``n`` samples, where ``u`` counts samples from its centre. Here
# are Legendre polynomials instead of cosines, with prices that grow with their degree.

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from numpy.polynomial import legendre
from skimage.data import camera

import elmfield as ef
from elmfield._array.backend import move, to_numpy
from elmfield.local.layers import Pieces


@dataclass(frozen=True)
class Legendre:
    """``a(u) = [P_0(t), P_1(t), ...]`` with ``t = u / (n/2 + 1)``."""

    n: int

    @property
    def width(self):
        """Twice as many as samples: all can be met, with some choice left."""
        return 2 * self.n

    def prices(self, order):
        """What each degree costs in an energy of this order; straight lines are free."""
        E = (1.0 + np.arange(self.width) ** 2) ** order
        E[:2] = 0
        return E

    def __call__(self, u, order=0):
        """Features, (..., width), or their derivative."""
        return self.mixed(u, np.eye(self.width), order)

    def mixed(self, u, mixing, order=0):
        """``a(u) mixing``, differentiated `order` times."""
        radius = self.n / 2 + 1
        c = legendre.legder(mixing, order) / radius**order if order else mixing
        rows = np.moveaxis(legendre.legval(to_numpy(u) / radius, c), 0, -1)
        return move(rows, u, u.dtype)

    def pieces(self, mixing, n):
        """The same by 20 terms on every interval, for many points at once."""
        return Pieces.through(lambda u: self.mixed(u, mixing), n, 20)


picture = camera()[60:188, 190:318].astype(float)
field = ef.fit(picture, ef.smooth(layer=Legendre, order=1.5))
print("at the samples:", ef.max_error(picture, field.samples()))

# %%
# The rest of the library works with it: gradients, grids, crops, held-out scores. The scores say
# whether the layer is good.

for name, settings in {
    "cosines": ef.smooth(order=1.5),
    "Legendre": ef.smooth(order=1.5, layer=Legendre),
}.items():
    print(f"{name:9} {ef.heldout_score(picture, settings, border=8):.2f} dB")

# %%
# A model of another kind
# -----------------------
#
# A model that is no product of axis functions has the members of ``elmfield.local.model.Basis``. The
# smallest is a region's mean: one function, the constant, of norm one on the samples of its box. It
# is written in what NumPy and torch have in common, so it fits tensors too.


@dataclass(frozen=True)
class Constant:
    """A region's mean."""

    box: tuple

    n_modes = rank = 1
    inside = axes = None  # the box has no holes; rows are no products

    @property
    def basis(self):
        return self

    @property
    def n_samples(self):
        return int(np.prod(self.box))

    @property
    def radius(self):
        return np.ones(len(self.box))

    @property
    def ranking(self):
        return np.arange(1)

    def project(self, Y):
        """Coefficients (G, 1, C) of samples (G, S, C)."""
        return Y.sum(axis=1, keepdims=True) / np.sqrt(self.n_samples)

    def values(self, c):
        """And back: (G, S, C)."""
        return c[:, [0] * self.n_samples, :] / np.sqrt(self.n_samples)

    def complete(self, Y, present):
        return Y

    def rows(self, t, order):
        """The functions at local coordinates: 1, or 0 for a derivative."""
        return [0 * t[..., :1] + float(not any(order))]

    def expand(self, c):
        return c / np.sqrt(self.n_samples)

    weights = expand

    def moved(self, like):
        """The same in another library or on another device: there is nothing to move."""
        return self


# %%
# Settings say how the domain is cut and which model a region gets.


@dataclass(frozen=True)
class Means:
    """Every region is its mean."""

    cell: int = 8
    centred = own_samples = denoise = clip = False
    is_resolved = is_linear = True
    target = None
    samples = "points"
    fill_order = 1.55

    def resolve(self, view):
        return self

    def probe_grids(self, shape):
        return ()

    def partition(self, shape, periodic):
        periodic = np.flatnonzero(periodic)
        return ef.Partition.regular(shape, self.cell, periodic=periodic, overlap=self.cell / 4)

    def adopt(self, partition):
        return partition

    def model(self, box, inside, like):
        return Constant(box)


blocks = ef.fit(picture, Means())
figure, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
for a, f, title in zip(axes, (blocks, field), ("means, blended", "Legendre"), strict=True):
    a.imshow(f.resize((256, 256)), cmap="gray", vmin=0, vmax=255)
    a.set_title(title)
    a.set_axis_off()

# %%
# The contracts, and the tests that run over every implementation, are listed in
# :doc:`/contributing`.
