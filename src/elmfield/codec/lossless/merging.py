"""Contexts that share a table, found by a loop."""

import numpy as np

from elmfield._array.compiled import compiled
from elmfield._array.typing import Integers


@compiled
def _price(a: Integers, b: Integers, entropies: Integers, token: int, table: int) -> int:
    """Bits of two rows of counts as one, in 64ths."""
    n = inner = some = 0
    for k in range(a.size):
        both = a[k] + b[k]
        n += both
        inner += entropies[both]
        some += 1 if both else 0
    return int(entropies[n] - inner + token * some + table)


@compiled
def merge(h: Integers, entropies: Integers, token: int, table: int) -> Integers:
    """`tokens.merged`."""
    n, h, nothing = len(h), h.copy(), np.zeros(h.shape[1], np.int64)
    own, member = np.empty(n, np.int64), np.arange(n)
    union = np.zeros((n, n), np.int64)
    for i in range(n):
        own[i] = _price(h[i], nothing, entropies, token, table)
    for i in range(n):
        for j in range(i + 1, n):
            union[i, j] = _price(h[i], h[j], entropies, token, table) - own[i] - own[j]
    while True:
        one = other = least = 0
        for i in range(n):
            for j in range(i + 1, n):
                if union[i, j] < least:
                    one, other, least = i, j, union[i, j]
        if least >= 0:
            return member
        for k in range(h.shape[1]):
            h[one, k] += h[other, k]
        own[one] = _price(h[one], nothing, entropies, token, table)
        for i in range(n):
            if member[i] == other:
                member[i] = one
        for j in range(n):
            union[min(j, other), max(j, other)] = 0
            if j != one and member[j] == j:
                price = _price(h[one], h[j], entropies, token, table)
                union[min(j, one), max(j, one)] = price - own[one] - own[j]
