"""One lane after the other, one symbol after the other: the engine as its page writes it."""


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
