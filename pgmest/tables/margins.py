"""The cells of a margin that the cells of a table are in, row-major."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pgmest.tables.domain import Clique, Domain

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def margin_cells(domain: Domain, cells: Clique, margin: Clique) -> np.ndarray:
    """Return, for each cell over `cells` (row-major), the part of its position in `margin` due to these attributes."""
    found = np.zeros(1, dtype=np.int64)
    for name in cells:
        stride = domain.size(margin[margin.index(name) + 1 :]) if name in margin else 0
        found = (found[:, None] + np.arange(domain[name]) * stride).reshape(-1)
    return found


def margin_sums(domain: Domain, clique: Clique, names: Clique, start: int = 0, columns: int | None = None) -> csr_array:
    """Return the matrix that sums the cells of a clique to those of a margin.

    Args:
        domain: the attributes.
        clique, names: the attributes of the table, and of the margin.
        start, columns: the first column of the cells, and the number of columns; by default those of the table alone.
    """
    from scipy.sparse import csr_array

    index = margin_cells(domain, clique, names)
    shape = domain.size(names), len(index) if columns is None else columns
    return csr_array((np.ones(len(index)), (index, start + np.arange(len(index)))), shape=shape)
