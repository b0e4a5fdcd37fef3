"""One-dimensional Zarr 3 arrays, written once, and read block by block as they are needed.

The subset of Zarr that model files use (docs/format.md): one axis, little-endian numbers, Blosc or
no compression, a CRC-32C at the end of every block. It is coded here, on Zarr's own codecs: every
claim in a file is then checked before memory is spent on it, and a block costs no more than its
bytes (the zarr package took 4 ms for each of the 4000 blocks of a gigabyte).
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np

from elmfield._array.typing import Array, Integers
from elmfield.errors import StoreError
from elmfield.io.model.entries import Entries, Sink, document

CACHE = 1 << 26
"""Bytes of decoded blocks kept at hand, per array."""

LARGEST_BLOCK = 1 << 26

CHECK = 8
"""Hexadecimal digits of a block's check sum."""

OPEN = "an open model file cannot be pickled; pickle its path, or load(lazy=False)"


class Blocks:
    """A stored array of `size` numbers.

    Parameters
    ----------
    entries : Entries
        Where the bytes are.
    sizes : mapping of str to int
        Bytes of each entry.
    name : str
        Of the array.
    size : int
        How many numbers it must hold.
    kinds : tuple of str
        Dtypes it may have.
    checks : str, optional
        The check sums of its blocks, as the metadata have them: a block of another array, or of
        another model, is noticed by them.
    """

    def __init__(
        self,
        entries: Entries,
        sizes: dict[str, int],
        name: str,
        size: int,
        kinds: tuple[str, ...],
        checks: str | None = None,
    ) -> None:
        self.entries, self.name, self.size, self._checks = entries, name, size, checks
        self._kept: OrderedDict[int, Array] = OrderedDict()
        self._lock = threading.RLock()
        meta = document(entries, f"{name}/zarr.json")
        try:
            (self.block,) = (int(n) for n in meta["chunk_grid"]["configuration"]["chunk_shape"])
            codecs = [codec["name"] for codec in meta["codecs"]]
            plain = (
                meta["zarr_format"] == 3
                and meta["node_type"] == "array"
                and meta["shape"] == [size]
                and meta["data_type"] in kinds
                and meta["chunk_grid"]["name"] == "regular"
                and meta["chunk_key_encoding"]["name"] == "default"
                and codecs in (["bytes", "blosc", "crc32c"], ["bytes", "crc32c"])
                and meta["codecs"][0].get("configuration", {}).get("endian", "little") == "little"
            )
            self.dtype = np.dtype(str(meta["data_type"])).newbyteorder("<")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._damaged("its description makes no sense") from error
        if not plain:
            raise self._damaged(f"{size} numbers of type {' or '.join(kinds)} were expected")
        self.compressed = "blosc" in codecs
        if not 0 < self.block * self.dtype.itemsize <= LARGEST_BLOCK:
            raise self._damaged(f"blocks of {self.block} numbers")
        self.n_blocks = -(-size // self.block)
        # A block that is not there reads as zeros in Zarr; here it means that the file lies.
        if self.n_blocks > len(sizes) or not all(
            f"{name}/c/{i}" in sizes for i in range(self.n_blocks)
        ):
            raise self._damaged("blocks are missing")
        if checks is not None and (
            not isinstance(checks, str) or len(checks) != CHECK * self.n_blocks
        ):
            raise self._damaged("its check sums are not those of its blocks")

    def _damaged(self, why: str) -> StoreError:
        return StoreError(f"{self.entries.name} is damaged: array {self.name!r}: {why}.")

    def read(self, first: int) -> Array:
        """Block number `first`, decoded."""
        from numcodecs import Blosc
        from numcodecs.checksum32 import CRC32C

        data = self.entries.read(f"{self.name}/c/{first}")
        if self._checks is not None:
            expected = self._checks[CHECK * first : CHECK * (first + 1)]
            if data[-CHECK // 2 :].hex() != expected:
                raise self._damaged(f"block {first} is not the one that was saved here")
        n_bytes = self.block * self.dtype.itemsize
        try:
            raw = bytes(memoryview(CRC32C(location="end").decode(data)))
            if self.compressed:
                if len(raw) < 16 or int.from_bytes(raw[4:8], "little") != n_bytes:
                    raise ValueError("wrong length")
                raw = Blosc().decode(raw)
            if len(raw) != n_bytes:
                raise ValueError("wrong length")
        except (RuntimeError, ValueError, TypeError, MemoryError) as error:
            raise self._damaged(f"block {first} cannot be decoded ({error})") from error
        return np.frombuffer(raw, self.dtype)

    def whole(self) -> Array:
        """All numbers, in memory."""
        return self.gather(np.asarray([0]), np.asarray([self.size]))

    def gather(self, starts: Integers, counts: Integers) -> Array:
        """The runs of numbers that begin at `starts`, one after the other."""
        out = np.empty(int(counts.sum()), self.dtype.newbyteorder("="))
        places = np.cumsum(counts) - counts
        some = np.flatnonzero(counts)
        order = some[np.argsort(starts[some], kind="stable")]
        starts, counts, places = starts[order], counts[order], places[order]
        # Neighbours in the file that are neighbours in the result are one run.
        new = np.ones(len(order), bool)
        new[1:] = (starts[1:] != starts[:-1] + counts[:-1]) | (
            places[1:] != places[:-1] + counts[:-1]
        )
        head = np.flatnonzero(new)
        lengths = np.add.reduceat(counts, head) if len(head) else counts
        with self._lock:
            for start, length, place in zip(
                starts[head].tolist(), lengths.tolist(), places[head].tolist()
            ):
                done = 0
                while done < length:
                    i, offset = divmod(start + done, self.block)
                    step = min(self.block - offset, length - done)
                    out[place + done : place + done + step] = self._at(i)[offset : offset + step]
                    done += step
        return out

    def _at(self, i: int) -> Array:
        """Block i, from the cache if it is there."""
        if i in self._kept:
            self._kept.move_to_end(i)
            return self._kept[i]
        block = self._kept[i] = self.read(i)
        while len(self._kept) * self.block * self.dtype.itemsize > CACHE and len(self._kept) > 1:
            self._kept.popitem(last=False)
        return block

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError(OPEN)


def layout(size: int, itemsize: int, target: int = 1 << 18) -> int:
    """Numbers per block: about `target` bytes each, of one length, so that little is padded."""
    count = max(1, round(size * itemsize / target))
    return max(1, -(-size // count))


def put_document(sink: Sink, key: str, content: dict[str, Any]) -> None:
    """Write a JSON object."""
    sink.put(key, json.dumps(content, separators=(",", ":"), allow_nan=False).encode())


def put_array(
    sink: Sink, name: str, parts: Iterator[Array], size: int, kind: str, compress: bool
) -> str:
    """Write an array that comes in parts of any length; the check sums of its blocks."""
    from numcodecs import Blosc
    from numcodecs.checksum32 import CRC32C

    dtype = np.dtype(kind).newbyteorder("<")
    block = layout(size, dtype.itemsize)
    bitwise = dtype.kind == "f"
    packing = Blosc(cname="zstd", clevel=5, shuffle=Blosc.BITSHUFFLE if bitwise else Blosc.SHUFFLE)
    codecs: list[dict[str, Any]] = [{"name": "bytes"}]
    if dtype.itemsize > 1:
        codecs[0]["configuration"] = {"endian": "little"}
    if compress:
        blosc = {
            "typesize": dtype.itemsize, "cname": "zstd", "clevel": 5,
            "shuffle": "bitshuffle" if bitwise else "shuffle", "blocksize": 0,
        }  # fmt: skip
        codecs.append({"name": "blosc", "configuration": blosc})
    codecs.append({"name": "crc32c"})
    about = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [size],
        "data_type": kind,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [block]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": codecs,
    }
    put_document(sink, f"{name}/zarr.json", about)
    check = CRC32C(location="end")
    sums: list[str] = []
    for values in _in_blocks(parts, block):
        values = np.ascontiguousarray(values, dtype)
        if len(values) < block:
            values = np.concatenate([values, np.zeros(block - len(values), dtype)])
        data = packing.encode(values) if compress else values.tobytes()
        data = bytes(memoryview(check.encode(data)))
        sink.put(f"{name}/c/{len(sums)}", data)
        sums.append(data[-CHECK // 2 :].hex())
    return "".join(sums)


def _in_blocks(parts: Iterator[Array], block: int) -> Iterator[Array]:
    """The same numbers, `block` at a time; the last may be fewer."""
    rest = None
    for part in parts:
        values = part if rest is None else np.concatenate([rest, part])
        whole = len(values) // block * block
        for i in range(0, whole, block):
            yield values[i : i + block]
        rest = values[whole:]
    if rest is not None and len(rest):
        yield rest
