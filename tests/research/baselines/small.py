"""Small networks of every method, and their insides."""

import numpy as np
import pytest
import torch

from paper.research import baselines

torch.set_num_threads(1)

SMALL = {
    "siren": baselines.siren(hidden=24, layers=2),
    "ffn": baselines.ffn(hidden=24, layers=2, n_frequencies=16, scale=3),
    "gaussnet": baselines.gaussnet(hidden=24, layers=2),
    "wire": baselines.wire(hidden=24, layers=2, scale=10),
    "hashgrid": baselines.hashgrid(hidden=16, levels=4, coarsest=2, finest=9, table=40),
}
every_method = pytest.mark.parametrize("method", SMALL.values(), ids=SMALL)


def layers_of(network):
    return [(W.detach().double().numpy(), b.detach().double().numpy()) for W, b in network.layers]


def drawn(method, shape, channels=1, seed=3):
    return method.network(shape, channels, np.random.default_rng(seed))


def values_of(network, x):
    with torch.no_grad():
        return network(network.prepare(torch.as_tensor(x, dtype=torch.float32))).numpy()
