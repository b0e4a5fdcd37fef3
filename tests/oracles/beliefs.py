"""Regions that choose what they believe, box by box: the evidence written out, no table, no halves.

Shares with src nothing but the members' metrics and orders.
"""

import math

import numpy as np

EPSILON, PERIOD, TEMPERATURE = 1e-2, 1.5, 3.0


def lattice(n):
    """Angular frequencies of an axis with boxes of n samples."""
    if n <= 1:
        return np.zeros(1)
    count = math.floor(PERIOD * n + 1e-9)
    return 2 * np.pi * np.arange(-count, count + 1) / (PERIOD * n)


def waves(box):
    """All frequency vectors but zero, (L, d)."""
    omega = np.stack(np.meshgrid(*(lattice(n) for n in box), indexing="ij"), axis=-1)
    omega = omega.reshape(-1, len(box))
    return omega[np.any(omega != 0, axis=1)]


def positions(box):
    """Samples counted from the centre, (S, d)."""
    return np.array([np.array(i) - (np.array(box) - 1) / 2 for i in np.ndindex(*box)])


def kernel(box, A, s, x, xs):
    """K(x, x') = Σ_ω cos ω·(x - x') / (ε + ω·Aω)^s, divided by its value at x = x'."""
    omega = waves(box)
    share = np.array([(EPSILON + w @ A @ w) ** -s for w in omega])
    share /= share.sum()
    return np.array([np.cos((p - xs) @ omega.T) @ share for p in x])


def free(box, x):
    """1 and u_k of axes with two samples and more, at points x."""
    used = [k for k, n in enumerate(box) if n > 1]
    return np.column_stack([np.ones(len(x)), *(x[:, k] for k in used)])


def evidence(box, A, s, y):
    """-(S - q)/2 log yᵀQy - 1/2 log det K - 1/2 log det XᵀK⁻¹X, up to what all members share."""
    x = positions(box)
    K, X = kernel(box, A, s, x, x), free(box, positions(box))
    Ki = np.linalg.inv(K)
    information = X.T @ Ki @ X
    b = np.linalg.solve(information, X.T @ Ki @ y)
    rest = y - X @ b
    return (
        -(len(y) - X.shape[1]) / 2 * np.log(rest @ Ki @ rest)
        - np.linalg.slogdet(K)[1] / 2
        - np.linalg.slogdet(information)[1] / 2
    )


def member(box, A, s, y, points):
    """The function of least energy through y, affine functions free, at points (n, d)."""
    x = positions(box)
    K, X = kernel(box, A, s, x, x), free(box, x)
    system = np.block([[K, X], [X.T, np.zeros((X.shape[1],) * 2)]])
    z = np.linalg.solve(system, np.concatenate([y, np.zeros(X.shape[1])]))
    return kernel(box, A, s, points, x) @ z[: len(y)] + free(box, points) @ z[len(y) :]


def weights(box, metrics, orders, Y):
    """softmax of the channels' mean evidence over T; Y (S, C)."""
    e = np.array([sum(evidence(box, A, s, y) for y in Y.T) for A, s in zip(metrics, orders)])
    e = (e - e.max()) / (TEMPERATURE * Y.shape[1])
    return np.exp(e) / np.exp(e).sum()


def local(box, metrics, orders, Y, points):
    """f(x) = Σ_k p_k f_k(x), (n, C), all members asked: no principal differences."""
    p = weights(box, metrics, orders, Y)
    said = [
        np.column_stack([member(box, A, s, y, points) for y in Y.T])
        for A, s in zip(metrics, orders)
    ]
    return sum(w * f for w, f in zip(p, said))


def filled(covariance, y, present):
    """Missing samples of one box by one member, and its evidence; covariance (S, S)."""
    K = covariance[np.ix_(present, present)]
    mean = y[present].mean()
    r = y[present] - mean
    z = np.linalg.solve(K, r)
    out = covariance[:, present] @ z + mean
    n = int(present.sum())
    return np.where(present, y, out), -n / 2 * np.log(r @ z) - np.linalg.slogdet(K)[1] / 2


def denoised(covariances, prior, amplitudes, y):
    """E[x | y] of one box of noise 1 under a mixture of members and amplitudes."""
    S = len(y)
    off = np.eye(S) - 1 / S
    basis = np.linalg.svd(off)[0][:, : S - 1]  # the mean is free
    r = basis.T @ y
    logs, said = [], []
    for k, C in enumerate(covariances):
        C = basis.T @ C @ basis
        C = C / (np.trace(C) / (S - 1))
        for j, a in enumerate(amplitudes):
            V = a * C + np.eye(S - 1)
            logs.append(prior[k, j] - r @ np.linalg.solve(V, r) / 2 - np.linalg.slogdet(V)[1] / 2)
            said.append(basis @ (a * C @ np.linalg.solve(V, r)) + y.mean())
    p = np.exp(np.array(logs) - max(logs))
    return (p / p.sum()) @ np.array(said)
