"""The subset of Zarr 3 that model files use (docs/format.md): documents, and arrays in blocks.

Arrays of one axis hold little-endian numbers, with Blosc or no compression, and a CRC-32C at the
end of every block; they are read block by block as they are needed. All of it is coded here, on
Zarr's own codecs: every claim in a file is checked before memory is spent on it, and a block costs
no more than its bytes (the zarr package took 4 ms for each of the 4000 blocks of a gigabyte).
"""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import product as cartesian
from typing import Any, NoReturn

import numpy as np

from elmfield._array.cache import Recent
from elmfield._array.typing import Array, Integers
from elmfield.errors import StoreError
from elmfield.io.store.stores import Store, max_bytes

MAX_JSON_VALUES, MAX_JSON_CONTAINERS = 1 << 22, 1 << 20
"""Values in a document, and lists and objects among them: Python takes up to 64 bytes for a value
that has two or three in JSON, and 200 for an object."""

MAX_JSON_DEPTH = 100

MAX_BLOCK_BYTES = 1 << 26

BLOCK_BYTES = 1 << 18
"""Of a block before compression, about."""

CACHE_BYTES = 1 << 26
"""Of decoded blocks kept in memory, per array."""

CHECK_DIGITS = 8
"""Hexadecimal digits of a block's check sum."""


# --- documents ------------------------------------------------------------------------------------


def _find_excess(key: str, data: bytes) -> str | None:
    """Say what a JSON document has too much of to be made into Python's objects, if anything."""
    if len(data) > max_bytes(key):
        return f"{key!r} has {len(data)} bytes; at most {max_bytes(key)} are read"
    n_containers, n_values = data.count(b"[") + data.count(b"{"), data.count(b",")
    if n_containers > MAX_JSON_CONTAINERS or n_values > MAX_JSON_VALUES:
        return (
            f"{key!r} has {n_containers} lists and objects, and {n_values} values; at most "
            f"{MAX_JSON_CONTAINERS} and {MAX_JSON_VALUES} are read"
        )
    return None


def write_document(store: Store, key: str, content: dict[str, object]) -> None:
    """Write a JSON object; ValueError if it would be refused when read."""
    data = json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
    if (excess := _find_excess(key, data)) is not None:
        raise ValueError(
            f"the field cannot be saved: {excess}. Its attributes go there, and coordinates that "
            "belong to no axis; drop the large ones."
        )
    store.write(key, data)


def read_document(store: Store, key: str) -> dict[str, Any]:
    """Return the JSON object in one entry; StoreError if there is none, or it is too large."""
    data = store.read(key)
    if (excess := _find_excess(key, data)) is not None:
        raise StoreError(f"{store.name} is damaged: {excess}.")

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no number of JSON")

    try:
        found = json.loads(data, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{store.name} is damaged: {key!r} is not JSON.") from error
    if not isinstance(found, dict):
        raise StoreError(f"{store.name} is damaged: {key!r} is not a JSON object.")
    level: list[Any] = [found]
    depth = 0
    while level:
        depth += 1
        if depth > MAX_JSON_DEPTH:
            raise StoreError(f"{store.name} is damaged: {key!r} is nested too deeply.")
        inner = (v.values() if isinstance(v, dict) else v for v in level)
        level = [v for values in inner for v in values if isinstance(v, (dict, list))]
    return found


def describe_array(
    store: Store,
    name: str,
    shape: Sequence[int],
    dtype: str,
    block: Sequence[int],
    codecs: Sequence[dict[str, object]],
) -> None:
    """Write the document of an array: a regular grid of blocks, named as Zarr does by default."""
    content = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(block)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": list(codecs),
    }
    write_document(store, f"{name}/zarr.json", content)


def read_description(
    store: Store, name: str
) -> tuple[tuple[int, ...], str, tuple[int, ...], list[str]]:
    """Return shape, dtype, block and names of the codecs of an array; StoreError if it has none."""
    found = read_document(store, f"{name}/zarr.json")
    try:
        grid, keys = found["chunk_grid"], found["chunk_key_encoding"]["name"]
        known = (found["zarr_format"], found["node_type"], grid["name"], keys)
        endian = [c.get("configuration", {}).get("endian", "little") for c in found["codecs"]]
        if known != (3, "array", "regular", "default") or {*endian} - {"little"}:
            raise ValueError("another kind of array")
        both = found["shape"], grid["configuration"]["chunk_shape"]
        shape, block = (tuple(int(n) for n in sizes) for sizes in both)
        if len(shape) != len(block) or not all(0 < n <= 1 << 40 for n in block):
            raise ValueError("blocks of no size")
        return shape, str(found["data_type"]), block, [str(c["name"]) for c in found["codecs"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged_array(store, name, "its description makes no sense") from error


def damaged_array(store: Store, name: str, why: str) -> StoreError:
    """Return the error for an array that is not what it should be."""
    return StoreError(f"{store.name} is damaged: array {name!r}: {why}.")


def block_key(name: str, place: Iterable[int]) -> str:
    """Return the entry of a block of an array, by its place along each axis."""
    return "/".join([name, "c", *map(str, place)])


def write_block(store: Store, key: str, data: bytes) -> str:
    """Write a block and its CRC-32C; return that, eight hexadecimal digits."""
    data = add_check(data)
    store.write(key, data)
    return data[-4:].hex()


def add_check(data: bytes) -> bytes:
    """Return a block with its CRC-32C, four bytes, at its end."""
    from numcodecs.checksum32 import CRC32C

    return bytes(memoryview(CRC32C(location="end").encode(data)))


def strip_check(data: bytes) -> bytes:
    """Return a block without its CRC-32C; ValueError if that is wrong."""
    if add_check(data[:-4]) != data:
        raise ValueError("its check sum is wrong")
    return data[:-4]


# --- arrays of one axis ---------------------------------------------------------------------------


class Blocks:
    """A stored array of `size` numbers.

    Parameters
    ----------
    arrays : ArrayReader
        Has its bytes, and the check sums of its blocks, as the metadata have them: a block of
        another array, or of another model, is noticed by them.
    name : str
        Of the array.
    size : int
        How many numbers it must hold.
    dtypes : tuple of str
        Dtypes it may have.
    """

    def __init__(
        self, arrays: "ArrayReader", name: str, size: int | None, dtypes: tuple[str, ...]
    ) -> None:
        self.store, self.name = arrays.store, name
        self._checks, self._cache = arrays.checks[name], Recent[int, Array]()
        shape, dtype, block, codecs = read_description(self.store, name)
        self.size = size = shape[0] if size is None else size
        known = codecs in (["bytes", "blosc", "crc32c"], ["bytes", "crc32c"])
        if shape != (size,) or dtype not in dtypes or not known:
            raise self.damaged(f"{size} numbers of type {' or '.join(dtypes)} were expected")
        self.dtype = np.dtype(dtype).newbyteorder("<")
        (self.block,), self.is_compressed = block, "blosc" in codecs
        if self.block * self.dtype.itemsize > MAX_BLOCK_BYTES:
            raise self.damaged(f"blocks of {self.block} numbers")
        self._keys = arrays.blocks_of(name, self._checks, shape, block)

    def damaged(self, why: str) -> StoreError:
        """Return the error for an array that is not what it should be."""
        return damaged_array(self.store, self.name, why)

    def read(self, first: int) -> Array:
        """Return block number `first`, decoded."""
        from numcodecs import Blosc

        data = self.store.read(self._keys[first])
        if data[-4:].hex() != self._checks[CHECK_DIGITS * first : CHECK_DIGITS * (first + 1)]:
            raise self.damaged(f"block {first} is not the one that was saved here")
        n_bytes = self.block * self.dtype.itemsize
        try:
            raw = strip_check(data)
            if self.is_compressed:
                if len(raw) < 16 or int.from_bytes(raw[4:8], "little") != n_bytes:
                    raise ValueError("wrong length")
                raw = Blosc().decode(raw)
            if len(raw) != n_bytes:
                raise ValueError("wrong length")
        except (RuntimeError, ValueError, TypeError, MemoryError) as error:
            raise self.damaged(f"block {first} cannot be decoded ({error})") from error
        return np.frombuffer(raw, self.dtype)

    def read_all(self) -> Array:
        """Return all numbers."""
        return self.gather(np.asarray([0]), np.asarray([self.size]))

    def gather(self, starts: Integers, counts: Integers) -> Array:
        """Return the runs of numbers that begin at `starts`, one after the other."""
        out = np.empty(int(counts.sum()), self.dtype.newbyteorder("="))
        places = np.cumsum(counts) - counts
        some = np.flatnonzero(counts)
        order = some[np.argsort(starts[some], kind="stable")]
        starts, counts, places = starts[order], counts[order], places[order]
        # Neighbours in the file that are neighbours in the result are one run.
        new = np.ones(len(order), bool)
        new[1:] = (np.diff(starts) != counts[:-1]) | (np.diff(places) != counts[:-1])
        head = np.flatnonzero(new)
        lengths = np.add.reduceat(counts, head) if len(head) else counts
        runs = (starts[head].tolist(), lengths.tolist(), places[head].tolist())
        for start, length, place in zip(*runs):
            done = 0
            while done < length:
                i, offset = divmod(start + done, self.block)
                step = min(self.block - offset, length - done)
                out[place + done : place + done + step] = self._at(i)[offset : offset + step]
                done += step
        return out

    def _at(self, i: int) -> Array:
        """Return block i, from the cache if it is there."""
        block = self._cache.find(i)
        if block is None:
            block = self.read(i)
            self._cache.keep(i, block, max(1, CACHE_BYTES // block.nbytes))
        return block

    def __getstate__(self) -> NoReturn:
        raise TypeError("an open model file cannot be pickled; use its path, or load(lazy=False)")


class ArrayReader:
    """Reads the arrays of a model, and holds what a file claims against its bytes.

    Parameters
    ----------
    store : Store
        Where the bytes are.
    checks : mapping of str to str
        The check sums of the blocks of each array.
    """

    def __init__(self, store: Store, checks: dict[str, str]) -> None:
        self.store, self.checks, self.sizes = store, checks, store.sizes()
        self.n_bytes = sum(self.sizes.values())

    def require(self, holds: bool | np.bool_, why: str) -> None:
        """Raise unless a claim holds."""
        if not holds:
            raise StoreError(f"{self.store.name} is damaged: {why}.")

    def blocks_of(
        self, name: str, checks: str, shape: Sequence[int], block: Sequence[int]
    ) -> list[str]:
        """Return the entries of all blocks of an array, in order; StoreError if one is missing."""
        counts = [-(-n // b) for n, b in zip(shape, block)]
        keys, n = [], math.prod(counts)
        if n <= len(self.sizes):  # else it claims too many to be listed
            keys = [block_key(name, place) for place in cartesian(*map(range, counts))]
        # A block that is not there reads as zeros in Zarr; here it means that the file lies.
        if len(keys) != n or not all(key in self.sizes for key in keys):
            raise damaged_array(self.store, name, "blocks are missing")
        if len(checks) != CHECK_DIGITS * n:
            raise damaged_array(self.store, name, "its check sums are not those of its blocks")
        return keys

    def open(self, name: str, size: int | None, *dtypes: str) -> Blocks:
        """Return an array of numbers of one of the dtypes: `size`, or as many as it says itself."""
        return Blocks(self, name, size, dtypes)

    def read(self, name: str, size: int | None, *dtypes: str) -> Array:
        """Return all numbers of an array."""
        return self.open(name, size, *dtypes).read_all()

    def integers(self, name: str, size: int) -> Integers:
        """Return all numbers of an array of whole numbers."""
        found = self.read(name, size, "uint8", "uint16", "uint32", "int64")
        return np.asarray(found, np.int64)

    def bits(self, name: str, size: int) -> Array:
        """Return an array of bits, first bit highest, as booleans."""
        packed = self.read(name, -(-size // 8), "uint8")
        return np.unpackbits(packed, count=size).astype(bool)


def block_length(size: int, itemsize: int) -> int:
    """Return the numbers of a block: about `BLOCK_BYTES` each, of one length, little padded."""
    count = max(1, round(size * itemsize / BLOCK_BYTES))
    return max(1, -(-size // count))


def write_array(
    store: Store, name: str, parts: Iterator[Array], size: int, dtype: str, compress: bool
) -> str:
    """Write an array that comes in parts of any length; return the check sums of its blocks."""
    from numcodecs import Blosc

    kind = np.dtype(dtype).newbyteorder("<")
    block = block_length(size, kind.itemsize)
    shuffle = "bitshuffle" if kind.kind == "f" else "shuffle"
    blosc = Blosc("zstd", 5, Blosc.BITSHUFFLE if kind.kind == "f" else Blosc.SHUFFLE)
    endian = {"configuration": {"endian": "little"}} if kind.itemsize > 1 else {}
    codecs: list[dict[str, object]] = [{"name": "bytes", **endian}]
    if compress:
        about = {"typesize": kind.itemsize, "cname": "zstd", "clevel": 5, "shuffle": shuffle}
        codecs.append({"name": "blosc", "configuration": {**about, "blocksize": 0}})
    codecs.append({"name": "crc32c"})
    describe_array(store, name, (size,), dtype, (block,), codecs)
    sums: list[str] = []
    for values in _cut(parts, block):
        values = np.ascontiguousarray(values, kind)
        if len(values) < block:
            values = np.concatenate([values, np.zeros(block - len(values), kind)])
        data = blosc.encode(values) if compress else values.tobytes()
        sums.append(write_block(store, block_key(name, [len(sums)]), data))
    return "".join(sums)


def _cut(parts: Iterator[Array], block: int) -> Iterator[Array]:
    """Yield the same numbers, `block` at a time; the last may be fewer."""
    rest = None
    for part in parts:
        values = part if rest is None else np.concatenate([rest, part])
        n = len(values) // block * block
        yield from (values[i : i + block] for i in range(0, n, block))
        rest = values[n:]
    if rest is not None and len(rest):
        yield rest
