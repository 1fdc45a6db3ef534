"""Damaged files: strategies of changes to bytes, to JSON values, and to the members of archives."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

PIECES = [b"", b"\x00", b"\xff", b"\n", b"\r\n", b"\xef\xbb\xbf", b",", b'"', b"'", b"[", b"{", b"[[[[", b"&a", b"*a"]
PIECES += [b"-1", b"1e999", b"NaN", b"null", b"true", b"9" * 30, b"1_0", b"!!python/object:os.system", b"2020-01-01"]

NUMBERS = [0, 1, -1, 3, 2**31, 2**63, 10**30, -(10**30), 0.5, 1e308, -1e308, 1e-308, float("nan"), float("inf")]
TEXTS = ["", "age", "sex", "x", "F", "1e5", "0001-01-01", "identity", "kron", "haar", "date", "real", "other", "error"]
VALUES = [None, True, False, *NUMBERS, *TEXTS, [], {}, [[]], [0], [1, 2], ["age"], {"array": "header"}, {"min": 0}]
VALUES += [
    {"kind": "moments", "k": 10**9},
    {"kind": "sparse", "shape": [5, 5], "row": [9], "column": [0], "value": [1]},
]


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """The bytes with one to four changes: cut off, a byte replaced, a stretch replaced, repeated, or left out."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 20)))
        piece = draw(st.sampled_from(PIECES) | st.binary(min_size=1, max_size=1) | st.just(content[start:end] * 2))
        content = content[:start] + piece + (b"" if draw(st.integers(0, 5)) == 0 else content[end:])
    return content


@st.composite
def altered(draw: st.DrawFn, value: Any) -> Any:
    """The JSON value with one to three of the values inside it replaced, or left out."""
    value = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 3))):
        holder, key = draw(st.sampled_from(places(value) or [([None], 0)]))
        if draw(st.integers(0, 5)):
            holder[key] = copy.deepcopy(draw(st.sampled_from(VALUES)))
        else:
            del holder[key]
    return value


def places(value: Any) -> list[tuple[Any, Any]]:
    """Yield the places of values inside a JSON value: the dict or list, and the key or position."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in [(value, key), *places(value[key])]]


def members(path: Path) -> dict[str, bytes]:
    """The content of each member of an archive."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path: Path, contents: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> None:
    """Write an archive."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


def npy(array: Any) -> bytes:
    """An array as the content of an npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def header_of(contents: dict[str, bytes]) -> Any:
    """The JSON value in the member that has the header."""
    return json.loads(np.load(io.BytesIO(contents["header.npy"])).tobytes())


def with_header(contents: dict[str, bytes], header: Any) -> dict[str, bytes]:
    """Return the members with another header, without the arrays that it no longer names."""
    text = json.dumps(header)
    named = {name: array for name, array in contents.items() if f'"array": {json.dumps(name[:-4])}' in text}
    return named | {"header.npy": npy(np.frombuffer(text.encode(), dtype=np.uint8))}
