"""The lines of a draft about rows of its table that are no records, or may be none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pgmest.data.table_file import TableFile
from pgmest.errors import listed
from pgmest.schema.schema import DRAFT_MARK

NAMED = 12
"""The number of columns that a line about many of them names."""
FEWEST_SUMMED, FAR_ABOVE = 5, 2
"""The least number of numbers above their sum, and how many times the greatest of them that must be."""

PRIVATE_MARK = f"# {DRAFT_MARK}"


def rows_decided(table: Any, numbers: Mapping[str, np.ndarray]) -> Iterator[str]:
    """Yield lines about rows that are no records, or may be none."""
    if isinstance(table, TableFile) and table.skip_rows:
        yield f"{PRIVATE_MARK}: THE ROWS THAT ARE NO RECORDS (skip_rows).\n"
        yield "#   Each row whose first value is one of these texts is left out: none may be how a record begins.\n"
    names = [name for name, found in numbers.items() if _ends_in_sum(found)]
    if names:
        yield f"{PRIVATE_MARK}: THE LAST ROW, WHICH HAS THE SUM OF ALL OTHERS IN {listed(names, NAMED)}.\n"
        yield "#   If it is no record, delete it from the table, or say skip_rows in file: by its first value.\n"


def _ends_in_sum(numbers: np.ndarray) -> bool:
    """Return whether the last number is the sum of all others, and far above them."""
    above = numbers[:-1][~np.isnan(numbers[:-1])]
    if len(above) < FEWEST_SUMMED or not np.abs(numbers[-1]) > FAR_ABOVE * np.abs(above).max():
        return False
    return bool(np.isclose(above.sum(), numbers[-1], rtol=1e-9, atol=1e-6))
