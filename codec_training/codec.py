"""The tables of ``src/elmfield/codec/lossy/priors.npz``, trained.

    python codec_training/codec.py              tables for one, two and three axes (needs torch)
    python codec_training/codec.py 2            for two axes: about two minutes
    python codec_training/codec.py half=1       the tables of the other half, for the benchmark

A net says how large a coefficient is from two weighted sums of magnitudes around it and its
position; it learns the weights of the sums too, by the bits of a geometric distribution. Then it
is written down as a table over quantised sums, and the distribution of tokens in each class is
counted. The coefficients are those that the encoder chooses with the tables there are, so a
second round is a little better than the first.

Data: see ``data.py`` beside this.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from codec_training.data import sources
from codec_training.tables import kept, known, words
from elmfield.codec.ans import frequencies
from elmfield.codec.lossy import contexts, sections
from elmfield.codec.lossy.contexts import LEVELS, N_CLASSES, N_FLAGS, load_prior
from elmfield.codec.lossy.sections import Part, Quantiser, grid_shape
from elmfield.codec.lossy.transform import UNIT, expect_magnitudes, find_modes, modes

SIZES = {1: (16, 32, 64), 2: (8, 16, 32, 64), 3: (4, 8, 16)}
rng = np.random.default_rng(0)


# --- features -------------------------------------------------------------------------------------


class Noted:
    """Follows chosen magnitudes and keeps what was known before each of some."""

    def __init__(self, q, last, part):
        self.q, self.last, self.part = q, last, part
        self.features, self.targets, self.weights, self.flags, self.went = [], [], [], [], []

    def code_flags(self, classes, boxes, diagonal):
        self.went.append(self.last[boxes] >= diagonal)
        return self.went[-1]

    def code_magnitudes(self, classes, rows, boxes):
        return np.minimum(self.q[rows][:, boxes], 1 << 14)


class NotingWalk(contexts.BoxWalk):
    """A walk that tells `Noted` what it knows."""

    def _diagonal(self, rows, below, near):
        self.known = self._lower(rows, below, near)
        return super()._diagonal(rows, below, near)

    def _classes(self, rows, phase, S, T):
        n, note = self.n_even, self.coder
        columns = slice(0, n) if phase == 0 else slice(n, None)
        boxes, position = self.boxes[columns], self.modes.position[rows]
        own, lower, mean = self.known
        none = np.zeros_like(lower[:, columns])
        sums = [x[:, columns] if x.size else none for x in own]
        sums += self._sides(rows, boxes) if phase else [none, none]
        size = len(position) * len(boxes)
        some = rng.choice(size, min(size, max(400, int(size * note.part))), replace=False)
        i, j = some // len(boxes), some % len(boxes)
        about = (mean[i, 0], position[i], np.full(len(i), phase), np.full(len(i), self.large))
        note.features.append(np.stack([*(x[i, j] for x in (*sums, lower[:, columns])), *about], 1))
        note.targets.append(note.q[rows][i, boxes[j]])
        note.weights.append(np.full(len(i), size / len(i), np.float32))
        return np.zeros((len(position), len(boxes)), np.uint8)

    def _flags(self, s, below, near):
        walk, prior = self, self.prior

        class Table:
            def __getitem__(self, where):
                if len(where) == 2:
                    return self
                levels = np.broadcast_arrays(*where)
                first = [np.full(len(levels[0]), contexts.CHECKPOINTS.index(s))]
                first.append(np.full(len(levels[0]), walk.large))
                walk.coder.flags.append(np.stack([*first, *levels], axis=1).astype(np.int64))
                return np.zeros(len(levels[0]), np.uint8)

        self.prior = replace(prior, flags=Table())
        left = super()._flags(s, below, near)
        self.prior = prior
        return left


def noted(x, B, part):
    """What is known of the coefficients of samples in steps."""
    d = x.ndim - 1
    m, trained = modes(B, d), load_prior(d)
    X, grid = find_modes(x, B)[m.rows], grid_shape(x.shape, B)
    plane = np.rint(X[0]).astype(np.int64).reshape(grid) * UNIT
    a, _, _ = sections.find_residual(X, Part(m, plane))
    last = sections.find_last(a, m)
    choice = Quantiser(trained, a, last)
    contexts.BoxWalk(B, grid, expect_magnitudes(plane)).run(choice)
    note = Noted(choice.q, last, part)
    none = np.zeros((24, 10), np.int32), np.zeros(4 * 24 * LEVELS**2, np.uint8)
    nothing = replace(trained, weights=none[0], classes=none[1])
    note.prior = nothing
    NotingWalk(B, grid, expect_magnitudes(plane)).run(note)
    return note


def gathered(arrays, sizes, targets, part):
    """Notes of arrays in boxes of all sizes, at some qualities."""
    notes = []
    for values, peak in arrays:
        for B in sizes:
            for target in rng.choice(targets, 4, replace=False):
                step = peak * 10 ** (-target / 20) * 3.4
                x = (values.astype(np.float64) - values.mean())[None] / step
                notes.append(noted(x, B, part))
    join = [[y for note in notes for y in getattr(note, name)] for name in NAMES]
    return [np.concatenate(found) for found in join]


NAMES = ("features", "targets", "weights", "flags", "went")


# --- the net --------------------------------------------------------------------------------------


class Net(torch.nn.Module):
    """log2 of the mean magnitude from features."""

    def __init__(self, width=40):
        super().__init__()
        first = torch.tensor([1.0, 0.5, 0.5, 0.3, 0.25, 0.3, 0.6, 0.4, 0.15, 0.2])
        self.raw = torch.nn.Parameter(torch.log(torch.expm1(first))[None].repeat(24, 1))
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(28, width),
            torch.nn.ReLU(),
            torch.nn.Linear(width, width // 2),
            torch.nn.ReLU(),
            torch.nn.Linear(width // 2, 1),
        )
        self.line = torch.nn.Linear(2, 1)

    def weights(self):
        return torch.nn.functional.softplus(self.raw)

    def head(self, z, position, phase, large):
        place = torch.nn.functional.one_hot(position, 24).float() * 2
        x = torch.cat([z, place, phase[:, None] * 2, large[:, None] * 2], dim=1)
        return (self.layers(x) + self.line(z - 3))[:, 0]

    def forward(self, F):
        w, mean = self.weights()[F[:, 7].long()], F[:, 6] / 64
        S = F[:, 0] * w[:, 0] + F[:, 1] * w[:, 1] + F[:, 2] * w[:, 2] + mean * w[:, 3]
        even = F[:, 5] * w[:, 4] + mean * w[:, 5]
        odd = F[:, 3] * w[:, 6] + F[:, 4] * w[:, 7] + F[:, 5] * w[:, 8] + mean * w[:, 9]
        T = torch.where(F[:, 8] > 0, odd, even)
        z = torch.stack([torch.log2(16 * S + 0.6), torch.log2(16 * T + 0.6)], dim=1)
        return self.head(z, F[:, 7].long(), F[:, 8], F[:, 9])


def fitted(F, y, weight, rounds=2500, size=8192):
    net = Net()
    optimiser = torch.optim.Adam(net.parameters(), 5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, rounds)
    share = np.cumsum(np.minimum(weight, np.quantile(weight, 0.99)).astype(np.float64))
    for i in range(rounds):
        some = np.minimum(np.searchsorted(share / share[-1], rng.random(size)), len(y) - 1)
        q = torch.tensor(y[some].astype(np.float32))
        log_mean = net(torch.tensor(F[some].astype(np.float32))).clamp(-12, 14) * np.log(2)
        loss = ((q + 1) * torch.log1p(torch.exp(log_mean)) - q * log_mean).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if i % 500 == 0:
            print(f"{i}: {loss.item() / np.log(2):.4f} bits", flush=True)
    return net


def written_down(net):
    """Weights in 16ths, and the table of classes (large, phase, position, level, level)."""
    j = np.arange(LEVELS)
    z = np.log2(2.0 ** ((j - 1) / 3 + 1 / 6) + 0.6)
    z[:2] = np.log2(0.6), np.log2(1.6)
    both = np.stack(np.meshgrid(z, z, indexing="ij"), axis=-1).reshape(-1, 2)
    both, n = torch.tensor(both.astype(np.float32)), LEVELS**2
    table = np.zeros((2, 2, 24, LEVELS, LEVELS), np.uint8)
    with torch.no_grad():
        for large, phase, position in np.ndindex(2, 2, 24):
            about = torch.full((n,), position), torch.full((n,), float(phase))
            o = net.head(both, *about, torch.full((n,), float(large))).numpy()
            classes = np.clip(np.floor(4 * (o + 8) + 0.5), 0, N_CLASSES - 1)
            table[large, phase, position] = classes.reshape(LEVELS, LEVELS)
    return np.clip(np.rint(16 * net.weights().detach().numpy()), 0, 255).astype(np.uint8), table


def classes_of(F, weights, table):
    w, z, top = weights.astype(np.int64)[F[:, 7]], contexts.levels(), (1 << contexts.SUM_BITS) - 1
    S = F[:, 0] * w[:, 0] + F[:, 1] * w[:, 1] + F[:, 2] * w[:, 2] + (F[:, 6] * w[:, 3] >> 6)
    even = F[:, 5] * w[:, 4] + (F[:, 6] * w[:, 5] >> 6)
    odd = F[:, 3] * w[:, 6] + F[:, 4] * w[:, 7] + F[:, 5] * w[:, 8] + (F[:, 6] * w[:, 9] >> 6)
    T = np.where(F[:, 8] > 0, odd, even)
    return table[F[:, 9], F[:, 8], F[:, 7], z[np.minimum(S, top)], z[np.minimum(T, top)]]


def token_counts(c, y, weight):
    """Counts of tokens, 4096 in a class; a geometric distribution counts like 40 symbols."""
    counts, seen = np.zeros((N_CLASSES, contexts.N_TOKENS)), np.bincount(c, minlength=N_CLASSES)
    np.add.at(counts, (c, contexts.find_tokens(y.astype(np.int32), c)), weight)
    counts *= (seen / np.maximum(counts.sum(axis=1), 1e-9))[:, None]
    for i in range(N_CLASSES):
        mean = 2.0 ** (i / 4 - 8 - contexts.LOW_BITS[i])
        h = np.arange(1 << 15)
        p = (mean / (1 + mean)) ** h / (1 + mean)
        tokens = contexts.find_tokens((h << contexts.LOW_BITS[i]).astype(np.int32), np.uint8(i))
        counts[i] += 40 * np.bincount(tokens, p, minlength=contexts.N_TOKENS)
    p = np.maximum(counts / counts.sum(axis=1, keepdims=True), 1 / 6000) * contexts.ALLOWED
    whole = np.where(contexts.ALLOWED, np.maximum(np.rint(1e6 * p), 1), 0).astype(np.int64)
    return frequencies(whole).astype(np.uint16)


def flag_tables(where, went):
    """Classes of flags by half octaves of their odds, counts smoothed by coarser ones."""
    shape = (len(contexts.CHECKPOINTS), 2, contexts.COARSE, contexts.COARSE, contexts.EDGES)
    counts = np.zeros((*shape, 2))
    np.add.at(counts, (*where.T, went.astype(int)), 1)
    p = np.full(shape, 0.5)
    for axes in ((0, 1, 2, 3, 4), (1, 3, 4), (1, 4), (1,), ()):
        total = counts.sum(axis=axes, keepdims=True) if axes else counts
        p = (total[..., 1] + 30 * p) / (total.sum(axis=-1) + 30)
    classes = np.clip(np.rint(2 * (np.log2(p / (1 - p)) + 8)), 0, N_FLAGS - 1).astype(np.uint8)
    seen = np.zeros((N_FLAGS, 2))
    np.add.at(seen, (classes[tuple(where.T)], went.astype(int)), 1)
    middle = 1 / (1 + 2.0 ** -(np.arange(N_FLAGS) / 2 - 8))
    seen += 50 * np.stack([1 - middle, middle], axis=1)
    p = seen / seen.sum(axis=1, keepdims=True)
    return classes, frequencies(np.maximum(np.rint(1e6 * p), 1).astype(np.int64)).astype(np.uint16)


def main(axes, half):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    made = known(half)
    for d in axes:
        F, y, weight, where, went = gathered(sources(d, half), SIZES[d], np.arange(28, 80, 3), 0.05)
        weights, table = written_down(fitted(F, y, weight))
        tokens = token_counts(classes_of(F, weights, table), y, weight)
        flags, going = flag_tables(where, went)
        found = {
            "weights": weights,
            "classes": table,
            "tokens": tokens,
            "flags": flags,
            "going": going,
        }
        made |= {f"{name}{d}": values for name, values in found.items()}
    kept(made if half == 0 else {name: made[name] for name in made if name[-1] == "2"}, half)


if __name__ == "__main__":
    main(*words(sys.argv[1:]))
