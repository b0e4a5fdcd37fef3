"""One lane after the other, one symbol after the other: the entropy coder as its page writes it."""

import numpy as np


def number(data):
    """A number in bytes of seven bits, and what follows it."""
    n, i = 0, 0
    while True:
        n |= (data[i] & 127) << 7 * i
        i += 1
        if data[i - 1] < 128:
            return n, data[i:]


class Stream:
    """A decoder: symbols in lanes, then the tail."""

    def __init__(self, data):
        lanes, data = number(data)
        n_words, data = number(data)
        self.x = np.frombuffer(data, "<u4", lanes).tolist()
        self.words = np.frombuffer(data, "<u2", n_words, 4 * lanes).tolist()[::-1]
        rest = data[4 * lanes + 2 * n_words :]
        self.rest = np.frombuffer(rest + bytes(len(rest) % 2), "<u2").tolist()

    def symbol(self, i, freq):
        """Symbol i of a batch, from its frequencies."""
        lane = i % len(self.x)
        x, start, symbol = self.x[lane], 0, 0
        while x % 4096 >= start + freq[symbol]:
            start, symbol = start + freq[symbol], symbol + 1
        x = freq[symbol] * (x >> 12) + x % 4096 - start
        self.x[lane] = (x << 16) + self.words.pop() if x < 1 << 16 else x
        return symbol

    def batch(self, tables, classes):
        """A batch, from tables that learn."""
        out = [self.symbol(i, tables.freq[c]) for i, c in enumerate(classes)]
        tables.learn(list(zip(classes, out, strict=True)))
        return out

    def numbers(self, widths):
        """Raw numbers of so many bits: 8 of each, then the next 8 of those that have more."""
        out = [0] * len(widths)
        for low in range(0, max(widths, default=0), 8):
            some = [i for i, n in enumerate(widths) if n > low]
            for j, i in enumerate(some):
                bits = min(widths[i] - low, 8)
                out[i] += self.symbol(j, [4096 >> bits] * (1 << bits)) << low
        return out

    def finish(self):
        """The tail; its bits are raw, the highest of each byte first."""
        assert not self.words
        tail = [x - 2**16 for x in self.x] + self.rest
        data = np.array(tail, "<u2").tobytes()
        self.raw_bits, self.at = [byte >> (7 - i) & 1 for byte in data for i in range(8)], 0
        return tail

    def raw(self, n):
        """The next n raw bits, as a number."""
        self.at += n
        return int("0" + "".join(map(str, self.raw_bits[self.at - n : self.at])), 2)
