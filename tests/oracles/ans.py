"""One lane after the other, one symbol after the other: the engine as its page writes it."""

import numpy as np


class Encoder:
    """Batches in the order of decoding, coded backwards when they are all there."""

    def __init__(self, lanes):
        self.lanes = self.kept = lanes
        self.batches = []

    def push(self, entries, bits):
        """Append a batch of ``start * 2^16 + freq``; raw numbers are entries of frequency 1."""
        bits = np.broadcast_to(bits, entries.shape)
        self.batches.append((list(zip(entries.tolist(), bits.tolist(), strict=True)), self.kept))

    def release(self, keep):
        """Later batches use lanes below `keep` only."""
        if keep is not None and keep < self.kept:
            self.batches.append(([], self.kept))
            self.kept = keep

    def finish(self, tail=()):
        """The stream: states, words, then the words of the tail that no lane took."""
        words, x = [int(w) for w in tail], []  # words of the stream so far, states of lanes
        for entries, kept in [([], self.kept), *reversed(self.batches)]:
            new = max(kept - len(x), 0)
            last, words = words[:new], words[new:]
            x += [2**16 + w for w in last] + [2**16] * (new - len(last))
            for i, (entry, bits) in reversed(list(enumerate(entries))):
                lane, freq, start = i % self.lanes, entry % 2**16, entry >> 16
                if x[lane] >> (32 - bits) >= freq:
                    words.insert(0, x[lane] % 2**16)
                    x[lane] >>= 16
                x[lane] = (x[lane] // freq << bits) + x[lane] % freq + start
        halves = [half for state in x for half in (state % 2**16, state >> 16)]
        return np.array(halves + words, np.uint16)


def decode(words, lanes, bits, freq, batches, keeps):
    """Symbols of all batches (lists of classes) and the words left, from a list of words."""
    words = [int(w) for w in words]
    x = [words[2 * i] + (words[2 * i + 1] << 16) for i in range(lanes)]
    rest, kept, out = words[2 * lanes :], lanes, []
    for classes, keep in zip(batches, keeps, strict=True):
        symbols = []
        for i, k in enumerate(classes):
            lane, slot = i % lanes, x[i % lanes] % 2**bits
            start, symbol = 0, 0
            while slot >= start + freq[k][symbol]:
                start, symbol = start + freq[k][symbol], symbol + 1
            symbols.append(symbol)
            x[lane] = freq[k][symbol] * (x[lane] >> bits) + slot - start
            if x[lane] < 2**16:
                x[lane] = (x[lane] << 16) + rest.pop(0)
        out.append(symbols)
        if keep is not None and keep < kept:
            rest[:0] = [x[i] - 2**16 for i in range(keep, kept)]
            kept = keep
    rest[:0] = [x[i] - 2**16 for i in range(kept)]
    return out, rest
