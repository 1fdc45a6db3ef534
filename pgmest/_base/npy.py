"""The header of an npy array, read without trust in its content and without allocating the array."""

from __future__ import annotations

import tokenize
import warnings
from typing import IO, Any

import numpy as np


def read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return the shape, the Fortran order, and the type of an array; the stream is then at the array's first value.

    Raises:
        ValueError: the stream has no valid header.
    """
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"unknown npy version {version}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # NumPy repairs headers of Python 2, and says so
            return readers[version](stream)
    except (tokenize.TokenError, SyntaxError, TypeError, UserWarning) as error:
        raise ValueError(f"its header cannot be read: {error}") from None
