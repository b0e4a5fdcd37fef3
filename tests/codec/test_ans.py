"""The entropy coder: what goes in comes out, near its entropy, and damage is told."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmfield.codec.ans import (
    BITS_PER_FILLED_LANE,
    BITS_PER_LANE,
    AdaptiveTables,
    StreamReader,
    StreamWriter,
    Tables,
    frequencies,
)
from elmfield.errors import StoreError
from oracles import ans as oracle


def drawn(seed, sizes, K=3, A=20):
    """Tables and batches of symbols drawn from them."""
    rng = np.random.default_rng(seed)
    freq = frequencies(rng.integers(0, 50, (K, A)) ** 2)
    classes = [rng.integers(0, K, n) for n in sizes]
    symbols = [np.array([rng.choice(A, p=freq[k] / 4096) for k in c], int) for c in classes]
    return Tables.of(freq), freq, classes, symbols


def encoded(tables, classes, symbols, tail=()):
    writer = StreamWriter()
    for k, s in zip(classes, symbols, strict=True):
        writer.append(tables.entries[k, s], np.array([len(k)]))
    return writer.content(np.array(tail, np.uint16))


def decoded(tables, classes, data):
    reader = StreamReader(data)
    return [reader.decode(tables, k) for k in classes], reader.finish()


@pytest.mark.thorough
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.integers(0, 40), max_size=12),
    lane_bits=st.sampled_from([8, 32, 1 << 20]),
    n_tail=st.integers(0, 80),
    scalar_lanes=st.sampled_from([0, 16]),
)
def test_any_batches_come_back_also_by_the_slow_decoder(
    seed, sizes, lane_bits, n_tail, scalar_lanes
):
    tables, freq, classes, symbols = drawn(seed, sizes)
    tail = np.random.default_rng(seed).integers(0, 2**16, n_tail)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("elmfield.codec.ans.BITS_PER_LANE", lane_bits)
        patch.setattr("elmfield.codec.ans.SCALAR_LANES", scalar_lanes)
        data = encoded(tables, classes, symbols, tail)
        out, rest = decoded(tables, classes, data)
    slow = oracle.Stream(data)
    for k, s, fast in zip(classes, symbols, out, strict=True):
        assert fast.tolist() == s.tolist()
        assert [slow.symbol(i, freq[c].tolist()) for i, c in enumerate(k)] == s.tolist()
    assert rest.tolist() == slow.finish()
    assert rest[:n_tail].tolist() == tail.tolist()
    assert not rest[n_tail:].any()


@pytest.mark.thorough
@pytest.mark.parametrize("n_tail", [0, 100])
def test_lanes_cost_nine_bits_where_the_tail_has_words_for_them(n_tail):
    tables, freq, classes, symbols = drawn(1, [400] * 100)
    k, s = np.concatenate(classes), np.concatenate(symbols)
    entropy = -np.log2(freq[k, s] / 4096).sum()
    tail = np.random.default_rng(0).integers(0, 2**16, n_tail)
    data = encoded(tables, classes, symbols, tail)
    # A last state 2^16 + w costs log2 of it, 16.56 bits on average, and keeps 16 of them; a first
    # state is written in 32 bits and worth 24 on average.
    each, cost = (BITS_PER_FILLED_LANE, 9) if n_tail else (BITS_PER_LANE, 25)
    lanes = len(StreamReader(data).x)
    assert lanes == pytest.approx(entropy / each, abs=2)
    assert lanes > 20
    assert 8 * len(data) < entropy + 16 * n_tail + cost * lanes + 100


def test_streams_that_are_cut_off_raise():
    tables, _, classes, symbols = drawn(3, [16] * 10)
    data = encoded(tables, classes, symbols)
    for n in range(len(data)):
        with pytest.raises(StoreError, match=r"ends too early|ends before"):
            decoded(tables, classes, data[:n])


def test_streams_that_are_damaged_raise_or_give_other_symbols(monkeypatch):
    monkeypatch.setattr("elmfield.codec.ans.BITS_PER_LANE", 32)
    tables, _, classes, symbols = drawn(4, [16] * 10)
    data = encoded(tables, classes, symbols)
    rng, told = np.random.default_rng(0), 0
    for _ in range(200):
        hurt = bytearray(data)
        hurt[rng.integers(len(hurt))] ^= 1 << rng.integers(8)
        try:
            out, _ = decoded(tables, classes, bytes(hurt))
        except StoreError:
            told += 1
        else:
            assert [len(o) for o in out] == [16] * 10
    assert told > 100  # lanes that do not end between 2^16 and 2^17 are noticed


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(0, 60))
def test_raw_numbers_of_any_bits_come_back_between_symbols(seed, n):
    tables, freq, (classes,), (symbols,) = drawn(seed, [n])
    rng = np.random.default_rng(seed)
    widths = rng.integers(0, 36, n)
    values = rng.integers(0, 2**35, n) & ((1 << widths) - 1)
    writer = StreamWriter()
    writer.append(tables.entries[classes, symbols], np.array([n]))
    writer.numbers(values, widths)
    writer.append(tables.entries[classes, symbols], np.array([n]))
    reader, slow = StreamReader(writer.content()), oracle.Stream(writer.content())
    for is_first in (True, False):
        assert reader.decode(tables, classes).tolist() == symbols.tolist()
        found = [slow.symbol(i, freq[c].tolist()) for i, c in enumerate(classes)]
        assert found == symbols.tolist()
        if is_first:
            assert reader.numbers(widths).tolist() == values.tolist()
            assert slow.numbers(widths.tolist()) == values.tolist()
    assert not reader.finish().any()


@given(
    counts=st.lists(
        st.lists(st.integers(0, 2**40), min_size=4, max_size=4), min_size=1, max_size=5
    ),
)
def test_frequencies_sum_and_keep_every_symbol_that_occurs(counts):
    f = frequencies(np.array(counts))
    assert (f.sum(axis=1) == 4096).all()
    assert (f >= 0).all()
    for row, c in zip(f, counts, strict=True):
        assert all((a > 0) == (b > 0) for a, b in zip(row, c, strict=True)) or not any(c)


def test_adaptive_tables_learn_and_both_ends_agree():
    rng = np.random.default_rng(5)
    K, A, n = 2, 16, 200
    truth = rng.dirichlet(np.full(A, 0.3), K)
    classes = [rng.integers(0, K, n) for _ in range(60)]
    symbols = [np.array([rng.choice(A, p=truth[k]) for k in c]) for c in classes]
    learned, writer = AdaptiveTables(np.ones((K, A), int)), StreamWriter()
    for k, s in zip(classes, symbols, strict=True):
        writer.symbols(learned, k, s)
    data = writer.content()
    learned, reader = AdaptiveTables(np.ones((K, A), int)), StreamReader(data)
    for k, s in zip(classes, symbols, strict=True):
        assert reader.symbols(learned, k).tolist() == s.tolist()
    k, s = np.concatenate(classes), np.concatenate(symbols)
    entropy = -np.log2(truth[k, s]).sum()
    assert 8 * len(data) < 1.04 * entropy
