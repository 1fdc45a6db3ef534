"""Parquet files of codes, written as fast as they are packed.

A general writer looks each value up in a dictionary that it builds. Codes are their own dictionary: 0..n-1 in order, so
that packing them into as few bits as n values need is all there is to do, 20 times as fast. Everything else is what the
format asks for (https://parquet.apache.org/docs/file-format): per row group and column a page of the dictionary and a
page of packed codes, and in the end the metadata, in Thrift's compact protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from pgmest._base.version import __version__
from pgmest.tables.domain import Domain

MOST_VALUES = 1 << 16
"""Attributes of more values are no dictionary worth writing."""

ROWS_OF_A_GROUP = 1 << 20

MAGIC = b"PAR1"
_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12  # kinds of Thrift fields
_INT32, _REQUIRED, _UINT_8, _UINT_16 = 1, 0, 11, 12  # of columns
_PLAIN, _RLE, _RLE_DICTIONARY = 0, 3, 8  # encodings
_SNAPPY, _DATA_PAGE, _DICTIONARY_PAGE = 1, 0, 2

Field = tuple[int, bytes]


class PackedParquet:
    """A Parquet file that row groups of codes are appended to; `close` writes what readers need.

    Args:
        file: open for writing.
        domain: the attributes, each of at most `MOST_VALUES` values.
        compress: by Snappy.
    """

    def __init__(self, file: BinaryIO, domain: Domain, compress: Callable[[bytes], bytes]):
        self._file, self._domain, self._compress = file, domain, compress
        self._groups: list[bytes] = []
        self._rows = 0
        self._place = 0
        dictionaries = (np.arange(size, dtype="<i4").tobytes() for size in domain.shape)
        details = (_struct({1: _i32(size), 2: _i32(_PLAIN)}) for size in domain.shape)
        self._dictionaries = [
            self._page(_DICTIONARY_PAGE, 7, detail, data) for detail, data in zip(details, dictionaries, strict=True)
        ]
        self._write(MAGIC)

    def append(self, columns: Sequence[np.ndarray]) -> None:
        """Append records, in row groups of at most `ROWS_OF_A_GROUP`."""
        for start in range(0, len(columns[0]), ROWS_OF_A_GROUP):
            self._append_group([column[start : start + ROWS_OF_A_GROUP] for column in columns])

    def close(self) -> None:
        """Write the metadata; the file stays open."""
        root = _struct({4: _binary(b"schema"), 5: _i32(len(self._domain))})
        leaves = [
            _struct(
                {
                    1: _i32(_INT32),
                    3: _i32(_REQUIRED),
                    4: _binary(name.encode()),
                    6: _i32(_UINT_8 if size <= 256 else _UINT_16),
                }
            )
            for name, size in self._domain.items()
        ]
        order = _struct({1: (_STRUCT, _struct({}))})
        metadata = _struct(
            {
                1: _i32(2),
                2: _list([root, *leaves]),
                3: _i64(self._rows),
                4: _list(self._groups),
                6: _binary(f"pgmest version {__version__}".encode()),
                7: _list([order] * len(self._domain)),  # without it, readers ignore the least and greatest values
            }
        )
        self._write(metadata + len(metadata).to_bytes(4, "little") + MAGIC)

    def _append_group(self, columns: Sequence[np.ndarray]) -> None:
        rows = len(columns[0])
        chunks = [
            self._append_chunk(name, size, column, dictionary)
            for (name, size), column, dictionary in zip(self._domain.items(), columns, self._dictionaries, strict=True)
        ]
        total = sum(chunk.size for chunk in chunks)
        self._groups.append(_struct({1: _list([chunk.metadata for chunk in chunks]), 2: _i64(total), 3: _i64(rows)}))
        self._rows += rows

    def _append_chunk(self, name: str, size: int, codes: np.ndarray, dictionary: _Page) -> _Chunk:
        """Write a column of a row group."""
        detail = _struct({1: _i32(len(codes)), 2: _i32(_RLE_DICTIONARY), 3: _i32(_RLE), 4: _i32(_RLE)})
        page = self._page(_DATA_PAGE, 5, detail, packed(codes, size))
        start = self._place
        self._write(dictionary.written + page.written)
        extremes = {5: _binary(_value(codes.max())), 6: _binary(_value(codes.min()))}
        metadata = {
            1: _i32(_INT32),
            2: _list_of_numbers([_PLAIN, _RLE, _RLE_DICTIONARY]),
            3: _list_of_texts([name.encode()]),
            4: _i32(_SNAPPY),
            5: _i64(len(codes)),
            6: _i64(dictionary.size + page.size),
            7: _i64(len(dictionary.written) + len(page.written)),
            9: _i64(start + len(dictionary.written)),
            11: _i64(start),
            12: (_STRUCT, _struct({3: _i64(0), **extremes})),
        }
        return _Chunk(_struct({2: _i64(0), 3: (_STRUCT, _struct(metadata))}), dictionary.size + page.size)

    def _page(self, kind: int, place: int, detail: bytes, data: bytes) -> _Page:
        """A page; `detail` is the field of its header, at `place`, that its kind has."""
        compressed = self._compress(data)
        header = _struct({1: _i32(kind), 2: _i32(len(data)), 3: _i32(len(compressed)), place: (_STRUCT, detail)})
        return _Page(header + compressed, len(header) + len(data))

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._place += len(data)


@dataclass(frozen=True)
class _Page:
    """A page as it is written, and its size with the data uncompressed."""

    written: bytes
    size: int


@dataclass(frozen=True)
class _Chunk:
    """What the metadata of a file say of a column in a row group, and its uncompressed size."""

    metadata: bytes
    size: int


def packed(codes: np.ndarray, size: int) -> bytes:
    """A run of codes, all smaller than `size`, in as few bits as these need, after the number of bits and of codes.

    >>> list(packed(np.array([0, 1, 2, 3, 4, 5, 6, 7], dtype=np.uint8), 8))
    [3, 3, 136, 198, 250]
    """
    from pgmest.sampling.parquet_kernels import pack_codes

    width, groups = max(1, (size - 1).bit_length()), -(-len(codes) // 8)
    whole = np.zeros(8 * groups, dtype=codes.dtype)
    whole[: len(codes)] = codes
    out = np.empty(width * groups, dtype=np.uint8)
    pack_codes(whole, width, out)
    return bytes([width]) + _varint(groups << 1 | 1) + out.tobytes()


# -- Thrift's compact protocol ----------------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    """A number of at least 0, seven bits a byte, the lowest first."""
    found = bytearray()
    while number >= 128:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _i32(number: int) -> Field:
    return _I32, _varint(number << 1)  # zigzag: the numbers of this format are at least 0


def _i64(number: int) -> Field:
    return _I64, _varint(number << 1)


def _binary(data: bytes) -> Field:
    return _BINARY, _varint(len(data)) + data


def _list(structs: Sequence[bytes], kind: int = _STRUCT) -> Field:
    count = len(structs)
    start = bytes([count << 4 | kind]) if count < 15 else bytes([0xF0 | kind]) + _varint(count)
    return _LIST, start + b"".join(structs)


def _list_of_numbers(numbers: Sequence[int]) -> Field:
    return _list([_i32(number)[1] for number in numbers], _I32)


def _list_of_texts(texts: Sequence[bytes]) -> Field:
    return _list([_binary(text)[1] for text in texts], _BINARY)


def _struct(fields: Mapping[int, Field]) -> bytes:
    """Fields by number, in ascending order, each less than 16 above the one before."""
    found, last = bytearray(), 0
    for place, (kind, data) in fields.items():
        found += bytes([(place - last) << 4 | kind]) + data
        last = place
    return bytes(found) + b"\0"


def _value(code: int) -> bytes:
    return int(code).to_bytes(4, "little")
