"""The slow, obvious versions: loops, float64, the equations as printed; nothing shared with src.

Positions count in samples: sample k of an axis sits at k, cell borders lie half-way between.
"""

import itertools
import math

import numpy as np

# --- windows ----------------------------------------------------------------------------------


def ramp(u, delta):
    """0 before -delta, 1 after delta, t³ (10 - 15 t + 6 t²) between."""
    if u <= -delta:
        return 0.0
    if u >= delta:
        return 1.0
    t = (u + delta) / (2 * delta)
    return t**3 * (10 - 15 * t + 6 * t * t)


def cell_window(x, cell, edges, delta, periodic):
    """The window of one cell of one axis: a ramp up at its lower border less one at its upper."""
    n = edges[-1]
    if len(edges) == 2:
        return 1.0
    total = 0.0
    for image in (-n, 0, n) if periodic else (0,):
        first = cell == 0 and not periodic
        last = cell == len(edges) - 2 and not periodic
        up = 1.0 if first else ramp(x + image - (edges[cell] - 0.5), delta)
        down = 0.0 if last else ramp(x + image - (edges[cell + 1] - 0.5), delta)
        total += up - down
    return total


def windows(points, edges, labels, overlap, periodic):
    """φ, shape (n, N): each region's window is the sum of its cells', each a product of axes."""
    phi = np.zeros((len(points), int(labels.max()) + 1))
    for j, x in enumerate(points):
        for cell in np.ndindex(labels.shape):
            factors = [
                cell_window(x[k], cell[k], edges[k], overlap[k], periodic[k]) for k in range(len(x))
            ]
            phi[j, labels[cell]] += math.prod(factors)
    return phi


# --- the paper's network ----------------------------------------------------------------------


ACTIVATION = {
    "relu": lambda z: max(z, 0.0),
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "gaussian": lambda z: math.exp(-z * z / 2),
}


def hidden_layer(t, *, width, frequencies=10, scale=1.0, activation="relu", draw="normal", seed=0):
    """H, shape (S, m), at local coordinates t (S, d): σ(γ(t) w + b), neuron after neuron."""
    S, d = t.shape
    rng = np.random.default_rng(seed)
    B = scale * rng.standard_normal((d, frequencies))
    gamma = []
    for i in range(S):
        phase = [2 * math.pi * float(t[i] @ B[:, f]) for f in range(frequencies)]
        gamma.append([*map(math.cos, phase), *map(math.sin, phase)] if frequencies else t[i])
    H = np.empty((S, width))
    for j in range(width):
        size = len(gamma[0]) + 1
        drawn = rng.standard_normal(size) if draw == "normal" else rng.uniform(-1, 1, size)
        for i in range(S):
            H[i, j] = ACTIVATION[activation](float(np.dot(gamma[i], drawn[:-1])) + drawn[-1])
    return H


def paper_region(y, **network):
    """One region fitted as printed, α = argmin |H α - y|²; its own samples, and α."""
    shape = y.shape
    local = [np.linspace(-1, 1, n) if n > 1 else np.zeros(1) for n in shape]
    t = np.array(list(itertools.product(*local)))
    H = hidden_layer(t, **network)
    alpha = np.linalg.lstsq(H, y.ravel(), rcond=1e-10)[0]
    return (H @ alpha).reshape(shape), alpha


def normal_equations(y, **network):
    """(Hᵀ H) α = Hᵀ y, solved as it stands; only for layers whose squared condition allows it."""
    local = [np.linspace(-1, 1, n) for n in y.shape]
    H = hidden_layer(np.array(list(itertools.product(*local))), **network)
    return np.linalg.solve(H.T @ H, H.T @ y.ravel())


def paper_samples(values, cell, **network):
    """The paper's reconstruction of an array, cut into cells that divide it."""
    out = np.empty(values.shape)
    for corner in itertools.product(*(range(0, n, c) for n, c in zip(values.shape, cell))):
        box = tuple(slice(a, a + c) for a, c in zip(corner, cell))
        out[box], _ = paper_region(values[box], **network)
    return out


# --- the product network ----------------------------------------------------------------------


def axis_neurons(n):
    """(kind, ω) of every neuron of an axis of n samples: period 1.25 n, up to 1 cycle a sample."""
    if n == 1:
        return [("one", 0.0)]
    waves = [2 * math.pi * k / (1.25 * n) for k in range(1, math.floor(1.25 * n) + 1)]
    return [("one", 0.0), *(("cos", w) for w in waves), *(("sin", w) for w in waves)]


def axis_neuron(kind, omega, u):
    if kind in ("one", "line"):
        return 1.0 if kind == "one" else u
    return math.sqrt(2) * (math.cos(omega * u) if kind == "cos" else math.sin(omega * u))


def axis_price(omega, order):
    epsilon = max(0.01, math.pi**2 * 10 ** ((-20 if order <= 8 else -12) / order))
    return (epsilon + omega**2) ** order


def continued(n, order):
    """T: the samples of an axis, and below order 2 two more at either end.

    Those are the mirror images of the samples inside, moved along the least-squares slope of the
    outermost six.
    """
    if n == 1 or order >= 2:
        return np.eye(n)
    w = min(6, n)
    mean = (w - 1) / 2
    spread = sum((i - mean) ** 2 for i in range(w))
    slope = np.array([(i - mean) / spread if i < w else 0.0 for i in range(n)])
    rows = []
    for at in (-2, -1):
        image = min(-1 - at, n - 1)
        rows.append(np.eye(n)[image] - (image - at) * slope)
    after = [row[::-1] for row in reversed(rows)]
    return np.array([*rows, *np.eye(n), *after])


def axis_weights(n, order, points):
    """W, (len(points), n): what each sample adds to the function at offsets from the centre.

    Of all Σ_k β_k u^k + Σ α_j a_j(u), k below the order, that meet the samples (and those beyond),
    that of least Σ E_j α_j²: α = E⁻¹ Aᵀ w with K w + X β = T y and Xᵀ w = 0, solved as it stands.
    """
    T = continued(n, order)
    m = len(T)
    neurons = [a for a in axis_neurons(m) if a[0] != "one"]
    E = np.array([axis_price(omega, order) for _, omega in neurons])

    def features(u):
        return np.array([axis_neuron(*a, u) for a in neurons])

    at = np.arange(m) - (m - 1) / 2
    A = np.array([features(u) for u in at]).reshape(m, -1)
    q = min(m, max(2, math.ceil(order)), max(2, m // 2))
    X = np.stack([at**k for k in range(q)], axis=1)
    whole = np.block([[(A / E) @ A.T, X], [X.T, np.zeros((q, q))]])
    solved = np.linalg.solve(whole, np.vstack([T, np.zeros((q, n))]))
    rows = [
        np.concatenate([(features(u) / E) @ A.T, [u**k for k in range(q)]]) @ solved for u in points
    ]
    return np.array(rows)


def product_model(y, order, points):
    """The function of least energy through y, at offsets from the centre of its box: Σ Π W_k y."""
    orders = [order] * y.ndim if np.ndim(order) == 0 else order
    found = []
    for x in points:
        f = y
        for n, s, u in zip(y.shape, orders, x):
            f = np.tensordot(axis_weights(n, s, [u])[0], f, axes=(0, 0))
        found.append(float(f))
    return np.array(found)


def equal_boxes(n, edges, overlap):
    """First samples and common size of the boxes of one axis's cells."""
    margin = sum(0.5 + j < overlap for j in range(n))  # samples at 1/2, 3/2, ... beyond a border
    size = min(n, max(np.diff(edges)) + 2 * margin)
    return [min(max(e - margin, 0), n - size) for e in edges[:-1]], size


def product_field(values, edges, overlap, order, points):
    """The default field: the mean is taken off, every cell fits its box, windows blend them."""
    mean = values.mean()
    boxes = [equal_boxes(n, e, o) for n, e, o in zip(values.shape, edges, overlap)]
    cells = tuple(len(e) - 1 for e in edges)
    labels = np.arange(math.prod(cells)).reshape(cells)
    phi = windows(points, edges, labels, overlap, [False] * values.ndim)
    total = np.full(len(points), mean)
    for cell in np.ndindex(cells):
        start = [boxes[k][0][i] for k, i in enumerate(cell)]
        size = [boxes[k][1] for k in range(values.ndim)]
        y = values[tuple(slice(a, a + b) for a, b in zip(start, size))] - mean
        centre = np.array([a + (b - 1) / 2 for a, b in zip(start, size)])
        weight = phi[:, labels[cell]]
        speaks = weight > 0
        total[speaks] += weight[speaks] * product_model(y, order, points[speaks] - centre)
    return total


# --- derivatives, and errors ------------------------------------------------------------------


def difference_gradient(f, points, h):
    """Central differences of f, shape (n, d)."""
    steps = h * np.eye(points.shape[1])
    return np.stack([(f(points + e) - f(points - e)) / (2 * h) for e in steps], axis=-1)


def difference_hessian(f, points, h):
    """Second central differences of f, shape (n, d, d)."""
    d = points.shape[1]
    e = h * np.eye(d)
    out = np.empty((len(points), d, d))
    for k, l in itertools.product(range(d), repeat=2):
        pp, pm = f(points + e[k] + e[l]), f(points + e[k] - e[l])
        mp, mm = f(points - e[k] + e[l]), f(points - e[k] - e[l])
        out[:, k, l] = (pp - pm - mp + mm) / (4 * h * h)
    return out


def psnr(truth, estimate, peak):
    squares = [(float(a) - float(b)) ** 2 for a, b in zip(truth.ravel(), estimate.ravel())]
    return 10 * math.log10(peak**2 / (sum(squares) / len(squares)))


def paper_psnr(truth, estimate):
    """-10 log10(MSE + 1e-8) of both divided by max(truth)."""
    peak = float(truth.max())
    squares = [
        (float(a) / peak - float(b) / peak) ** 2 for a, b in zip(truth.ravel(), estimate.ravel())
    ]
    return -10 * math.log10(sum(squares) / len(squares) + 1e-8)
