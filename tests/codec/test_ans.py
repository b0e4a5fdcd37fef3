"""The entropy engine: what goes in comes out, near its entropy, and damage is told."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmfield.codec.ans import Decoder
from elmfield.codec.symbol_tables import AdaptiveTables, Tables, frequencies, join_tables
from elmfield.errors import StoreError
from oracles import ans as oracle


def drawn(seed, sizes, K=3, A=20, bits=12):
    """Tables and batches of symbols drawn from them."""
    rng = np.random.default_rng(seed)
    freq = frequencies(rng.integers(0, 50, (K, A)) ** 2, bits)
    classes = [rng.integers(0, K, n) for n in sizes]
    symbols = [np.array([rng.choice(A, p=freq[k] / 2**bits) for k in c], int) for c in classes]
    return Tables.of(freq, bits), freq, classes, symbols


def encoded(tables, lanes, classes, symbols, keeps, tail=None):
    encoder = oracle.Encoder(lanes)
    for k, s, keep in zip(classes, symbols, keeps, strict=True):
        encoder.push(tables.entries[k, s], tables.bits)
        encoder.release(keep)
    return encoder.finish([] if tail is None else tail)


def decoded(tables, lanes, classes, keeps, words):
    decoder = Decoder([words], lanes)
    out = []
    for k, keep in zip(classes, keeps, strict=True):
        out.append(decoder.decode(tables, k))
        if keep is not None:
            decoder.release(keep)
    return out, decoder.finish()[0]


def shrinking(sizes, lanes):
    """How many lanes are needed after each batch."""
    return [min(lanes, max(sizes[i + 1 :], default=0)) for i in range(len(sizes))]


@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.integers(0, 40), max_size=12),
    lanes=st.integers(1, 50),
    bits=st.integers(6, 15),
    n_tail=st.integers(0, 80),
    release=st.booleans(),
)
def test_any_batches_come_back_also_by_the_slow_decoder(seed, sizes, lanes, bits, n_tail, release):
    tables, freq, classes, symbols = drawn(seed, sizes, bits=bits)
    keeps = shrinking(sizes, lanes) if release else [None] * len(sizes)
    tail = np.random.default_rng(seed).integers(0, 2**16, n_tail).astype(np.uint16)
    words = encoded(tables, lanes, classes, symbols, keeps, tail)
    out, rest = decoded(tables, lanes, classes, keeps, words)
    slow, slow_rest = oracle.decode(words, lanes, bits, freq.tolist(), classes, keeps)
    for s, fast, plain in zip(symbols, out, slow, strict=True):
        assert fast.tolist() == s.tolist() == plain
    assert rest.tolist() == slow_rest
    assert rest[:n_tail].tolist() == tail.tolist()
    assert not rest[n_tail:].any()


def test_lanes_cost_nine_bits_each_where_others_have_words_for_them():
    sizes, lanes = [300] * 30 + list(range(300, 0, -1)), 300
    tables, freq, classes, symbols = drawn(1, sizes)
    k, s = np.concatenate(classes), np.concatenate(symbols)
    entropy = -np.log2(freq[k, s] / 2**12).sum()
    words = encoded(tables, lanes, classes, symbols, shrinking(sizes, lanes))
    # A last state 2^16 + w costs log2 of it, 16.56 bits on average, and keeps 16 of them; a first
    # state is written in 32 bits and worth 24 on average.
    assert 16 * len(words) < entropy + 9 * lanes + 64
    assert (
        16 * len(encoded(tables, lanes, classes, symbols, [None] * len(sizes)))
        > entropy + 23 * lanes
    )


def test_raw_words_at_the_end_fill_the_lanes():
    tables, freq, classes, symbols = drawn(2, [64] * 20)
    s, k = np.concatenate(symbols), np.concatenate(classes)
    tail = np.random.default_rng(0).integers(0, 2**16, 100).astype(np.uint16)
    words = encoded(tables, 64, classes, symbols, [None] * 20, tail)
    assert 16 * len(words) < -np.log2(freq[k, s] / 2**12).sum() + 1600 + 9 * 64 + 64


def test_several_streams_side_by_side_are_the_streams_alone():
    sizes, lanes = [5, 9, 9, 3, 1], 7
    made = [drawn(seed, sizes) for seed in range(4)]
    keeps = shrinking(sizes, lanes)
    streams = [encoded(t, lanes, k, s, keeps) for t, _, k, s in made]
    decoder = Decoder(streams, lanes)
    tables = join_tables([t for t, _, _, _ in made])
    for i, keep in enumerate(keeps):
        rows = np.stack([k[i] + 3 * j for j, (_, _, k, _) in enumerate(made)])
        np.testing.assert_array_equal(decoder.decode(tables, rows), [s[i] for _, _, _, s in made])
        decoder.release(keep)
    for rest, (t, _, k, _), words in zip(decoder.finish(), made, streams, strict=True):
        np.testing.assert_array_equal(rest, decoded(t, lanes, k, keeps, words)[1])


@pytest.mark.parametrize("lanes", [1, 16])
def test_streams_that_are_cut_off_raise(lanes):
    tables, _, classes, symbols = drawn(3, [16] * 10)
    words = encoded(tables, lanes, classes, symbols, [None] * 10)
    for n in range(len(words)):
        with pytest.raises(StoreError, match=r"too short|ends before"):
            decoded(tables, lanes, classes, [None] * 10, words[:n])


def test_streams_that_are_damaged_raise_or_give_other_symbols():
    tables, _, classes, symbols = drawn(4, [16] * 10)
    words = encoded(tables, 16, classes, symbols, [None] * 10)
    rng, told = np.random.default_rng(0), 0
    for _ in range(200):
        hurt = words.copy()
        hurt[rng.integers(len(hurt))] ^= np.uint16(1 << rng.integers(16))
        try:
            out, _ = decoded(tables, 16, classes, [None] * 10, hurt)
        except StoreError:
            told += 1
        else:
            assert [len(o) for o in out] == [16] * 10
    assert told > 100  # lanes that do not end between 2^16 and 2^17 are noticed


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(0, 60), lanes=st.integers(1, 40))
def test_raw_numbers_of_any_bits_come_back_between_symbols(seed, n, lanes):
    tables, _, (classes,), (symbols,) = drawn(seed, [n])
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 16, n).astype(np.uint32)
    values = (rng.integers(0, 2**15, n) & ((1 << bits) - 1)).astype(np.uint32)
    encoder = oracle.Encoder(lanes)
    encoder.push(tables.entries[classes, symbols], tables.bits)
    encoder.push(values << 16 | 1, bits)
    encoder.push(tables.entries[classes, symbols], tables.bits)
    decoder = Decoder([encoder.finish()], lanes)
    assert decoder.decode(tables, classes).tolist() == symbols.tolist()
    assert decoder.decode_raw(bits).tolist() == values.tolist()
    assert decoder.decode(tables, classes).tolist() == symbols.tolist()
    assert not decoder.finish()[0].any()


@given(
    counts=st.lists(
        st.lists(st.integers(0, 2**40), min_size=4, max_size=4), min_size=1, max_size=5
    ),
    bits=st.integers(3, 15),
)
def test_frequencies_sum_and_keep_every_symbol_that_occurs(counts, bits):
    f = frequencies(np.array(counts), bits)
    assert (f.sum(axis=1) == 1 << bits).all()
    assert (f >= 0).all()
    for row, c in zip(f, counts, strict=True):
        assert all((a > 0) == (b > 0) for a, b in zip(row, c, strict=True)) or not any(c)


def test_adaptive_tables_learn_and_both_ends_agree():
    rng = np.random.default_rng(5)
    K, A, n = 2, 16, 200
    truth = rng.dirichlet(np.full(A, 0.3), K)
    classes = [rng.integers(0, K, n) for _ in range(60)]
    symbols = [np.array([rng.choice(A, p=truth[k]) for k in c]) for c in classes]
    learned, encoder = AdaptiveTables(np.ones((K, A), int), 12), oracle.Encoder(64)
    for k, s in zip(classes, symbols, strict=True):
        encoder.push(learned.tables.entries[k, s], 12)
        learned.update(k, s)
    words = encoder.finish()
    learned, decoder = AdaptiveTables(np.ones((K, A), int), 12), Decoder([words], 64)
    for k, s in zip(classes, symbols, strict=True):
        out = decoder.decode(learned.tables, k)
        assert out.tolist() == s.tolist()
        learned.update(k, out)
    k, s = np.concatenate(classes), np.concatenate(symbols)
    entropy = -np.log2(truth[k, s]).sum()
    assert 16 * (len(words) - 2 * 64) < 1.04 * entropy
