"""The lines of a draft about rows of its table that are no records, or stand for several."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pgmest._base.printable import on_one_line
from pgmest.data.table_file import TableFile
from pgmest.errors import listed
from pgmest.schema.guess_numbers import number_text, upper_bound
from pgmest.schema.notation import quoted
from pgmest.schema.numerals import complete_numbers
from pgmest.schema.schema import DRAFT_MARK

NAMED = 12
"""The number of columns that a line about many of them names."""
FEWEST_SUMMED, FAR_ABOVE = 5, 2
"""The least number of numbers above their sum, and how many times the greatest of them that must be."""
MOST_WEIGHTS = 3
"""The largest number of columns that are proposed as weights: a file may have 80 replicate weights."""
WEIGHT_NAME = re.compile(
    r".*(?:weight|wg?ht|wgt|gewicht|ponder|expansion).*|.*wts?\d*|_*wt.*|.*_wts?_.*|poids.*|pesos?|f_?exp\w*|phrf|hhrf|w"
)
"""The names of survey weights in small letters, such as PWGTP, pspwght, WTFINL, perwt, FINLWT21 and fnlwgt."""
OTHER_WEIGHT = re.compile(r"growth|birth|body|carat|height|kg|lbs?$|gram|net|gross|ship|freight|weighted")
"""What in a name says that it is about what something weighs."""

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


def weights_in(columns: Mapping[str, np.ndarray], numbers: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return the columns that may say how many people a row stands for, with their greatest numbers.

    They are called so, and hold numbers above 0 that differ, without gaps.

    Args:
        columns: the columns of a table.
        numbers: the numbers of those that a draft describes as numbers, NaN for none.
    """
    found = {}
    for name, array in columns.items():
        small = name.strip().lower()
        if not WEIGHT_NAME.fullmatch(small) or OTHER_WEIGHT.search(small):
            continue
        weights = complete_numbers(array)
        if weights is None:
            continue
        weights = numbers.get(name, weights)
        if np.isfinite(weights).all() and weights.min() > 0 and np.ptp(weights) > 0:
            found[name] = float(weights.max())
    return found


def weight_lines(weights: Mapping[str, float]) -> Iterator[str]:
    """Yield comments that propose columns as the survey weight of a schema."""
    for name, most in list(weights.items())[:MOST_WEIGHTS]:
        shown = on_one_line(name)
        yield (
            f"{PRIVATE_MARK}: {shown} MAY BE A SURVEY WEIGHT; ITS GREATEST NUMBER IS {number_text(most)}.\n"
            "# If it says how many people a row stands for, uncomment this, delete the column above, and state a\n"
            "# public bound: larger weights count as max.\n"
            f"# weight: {{column: {quoted(name)}, max: {number_text(upper_bound(most))}}}\n"
        )
