"""The cells that structural zeros exclude, as the header of a model file has them: lengths of runs of equal values."""

from __future__ import annotations

from typing import Any

import numpy as np

from pgmest.inference.exact.structural_zeros import MOST_CELLS
from pgmest.models.archive import Unreadable
from pgmest.tables.domain import Clique, Domain


def run_lengths(cells: np.ndarray) -> list[int]:
    """Return the lengths of the runs of equal values of a table of true and false, row by row; the first is of false.

    >>> run_lengths(np.array([[True, False], [False, True]]))
    [0, 1, 2, 1]
    """
    flat = cells.ravel()
    ends = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    lengths = np.diff(np.concatenate([[0], ends, [flat.size]])).tolist()
    return [0, *lengths] if flat[0] else lengths


def read_impossible(domain: Domain, entries: Any) -> dict[Clique, np.ndarray]:
    """Read the excluded cells of sets of attributes from pairs of the attributes and their run lengths.

    Raises:
        Unreadable: the entries are no such pairs, or the runs do not have as many cells as the table.
    """
    found = dict[Clique, np.ndarray]()
    try:
        for names, lengths in entries:
            clique, runs = domain.clique(names), np.array(lengths, dtype=np.int64)
            cells = domain.size(clique)
            if cells > MOST_CELLS or not (runs >= 0).all() or sum(lengths) != cells:
                raise ValueError(f"{clique} has {cells} cells")
            found[clique] = np.repeat(np.arange(len(runs)) % 2 > 0, runs).reshape([domain[name] for name in clique])
    except (TypeError, ValueError, OverflowError) as error:
        raise Unreadable(f"its impossible cells are wrong ({error})") from None
    return found
