"""The compiled kernel that packs codes for Parquet files."""

from __future__ import annotations

import numpy as np

from pgmest._base.compiled import compiled

_8, _255 = np.uint64(8), np.uint64(255)


@compiled
def pack_codes(codes, width, out):
    """Write codes of `width` bits one after the other, the lowest bits first.

    codes: unsigned integers, a multiple of 8 of them; out: their bytes, width / 8 times as many.
    """
    width = np.uint64(width)
    if width <= _8:  # 8 codes fit into 64 bits
        for group in range(np.uint64(codes.size) // _8):
            bits = np.uint64(0)
            for i in range(_8):
                bits |= np.uint64(codes[group * _8 + i]) << (i * width)
            for i in range(width):
                out[group * width + i] = np.uint8(bits >> (_8 * i))
        return
    bits, held, place = np.uint64(0), np.uint64(0), np.uint64(0)
    for i in range(np.uint64(codes.size)):
        bits |= np.uint64(codes[i]) << held
        held += width
        while held >= _8:
            out[place] = np.uint8(bits & _255)
            place += np.uint64(1)
            bits >>= _8
            held -= _8
