"""Tables with labeled axes, or with masked cells, as the values of a measurement.

pandas and xarray label the positions of a table, and a `value_counts` or a crosstab puts them in another order than
that of the codes. Here such tables are put in the order of the clique's attributes and codes, or refused.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.errors import MeasurementError, ShapeError, listed
from pgmest.queries import LinearQuery
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor

UNNAMED = re.compile(r"dim_\d+")
"""The names that xarray gives to axes without a name."""


def in_code_order(values: Any, clique: Clique, query: LinearQuery | None, where: str) -> Any:
    """Return a labeled table as an array over the codes of the clique's attributes; return other values unchanged.

    A Factor, a pandas Series or DataFrame, or an xarray array has names of attributes, codes as labels, or both. Names
    and codes that are there decide the order; without them the position counts. Answers to a query have no axes of
    attributes: they count by position.

    Raises:
        MeasurementError: the names are not the clique's attributes, or the labels are not their codes, each once.
    """
    if type(values) is np.ndarray:
        return values
    if isinstance(values, Factor):
        return _of_factor(values, clique, query, where)
    table = _labeled(values, clique)
    if table is None:
        return values
    if query is not None or table.plain:
        return table.cells
    return table.in_order(clique, where)


def totals_in_order(of: Any, clique: Clique, query: LinearQuery | None, where: str) -> Any:
    """Return labeled totals of some attributes as an array that broadcasts to the clique's table; others as they are.

    Raises:
        MeasurementError: as for `in_code_order`.
    """
    table = None if query is not None or isinstance(of, Factor) else _labeled(of, clique)
    names = of.domain.attributes if isinstance(of, Factor) else () if table is None else table.names
    some = tuple(name for name in clique if name in names)
    if query is not None or not some or len(some) < len(names):
        return in_code_order(of, clique, query, where)
    return np.expand_dims(in_code_order(of, some, query, where), tuple(np.flatnonzero([n not in some for n in clique])))


def labeled_like(array: Any, table: Any) -> Any:
    """Return an array with the labels of a table if the table has labels and the same shape; return others unchanged.

    Standard errors and ends of a labeled table mostly come as an array in the order of the table.
    """
    if type(table) is np.ndarray or not _is_labeled(table) or _is_labeled(array):
        return array
    try:
        alike = np.ndim(array) > 0 and np.shape(array) == np.shape(table)
    except ValueError:  # rows of different lengths, which are refused later
        alike = False
    if not alike:
        return array
    if isinstance(table, Factor):
        return array if np.ma.isMaskedArray(array) else Factor(table.domain, np.asarray(array))
    if not hasattr(table, "index"):
        return table.copy(data=np.asarray(array))
    columns = {"columns": table.columns} if hasattr(table, "columns") else {}
    return type(table)(np.asarray(array), index=table.index, **columns)


def _is_labeled(values: Any) -> bool:
    """Return whether the values are a table with labels: a Factor, or of pandas or xarray."""
    pandas = sys.modules.get("pandas")
    of_pandas = pandas is not None and isinstance(values, pandas.DataFrame | pandas.Series)
    return (
        of_pandas or isinstance(values, Factor) or all(hasattr(values, name) for name in ("dims", "coords", "values"))
    )


def _of_factor(values: Factor, clique: Clique, query: LinearQuery | None, where: str) -> np.ndarray:
    """Return the values of a Factor with its axes in the clique's order."""
    if query is not None or set(values.domain) != set(clique):
        raise MeasurementError(
            f"{where}: a Factor over {values.domain.attributes} can be the values only of an identity measurement "
            "of the same attributes; give the answers to the query as an array."
        )
    return values.transpose(clique).values


@dataclass(frozen=True)
class _Labeled:
    """A table with labels.

    Attributes:
        cells: the values; its axes may combine several attributes, as pandas' MultiIndex does.
        names: the name of each attribute; None without a name.
        labels: the labels of each attribute, along its axis of `cells`.
        axes: the axis of `cells` of each attribute.
        plain: True if there are neither names nor other labels than 0, 1, 2, ...
    """

    cells: np.ndarray
    names: Sequence[Any]
    labels: Sequence[np.ndarray]
    axes: Sequence[int]
    plain: bool

    def in_order(self, clique: Clique, where: str) -> np.ndarray:
        """Return the cells with one axis for each attribute of the clique, in the order of the codes."""
        order = _order_of(self.names, clique, where)
        codes = [_codes_of(labels, clique[place], where) for labels, place in zip(self.labels, order, strict=True)]
        shape = [0] * len(clique)
        for own, place in zip(codes, order, strict=True):
            shape[place] = int(own.max(initial=-1)) + 1
        if np.prod([float(size) for size in shape]) != self.cells.size:  # also keeps huge codes from allocating
            raise _incomplete(where, shape, self.cells.size)
        positions: list[Any] = [None] * len(clique)
        for own, place, axis in zip(codes, order, self.axes, strict=True):
            along = [1] * self.cells.ndim
            along[axis] = len(own)
            positions[place] = np.broadcast_to(own.reshape(along), self.cells.shape)
        seen = np.zeros(shape, dtype=bool)
        seen[tuple(positions)] = True
        if not seen.all():
            raise _incomplete(where, shape, int(np.count_nonzero(seen)))
        table = np.empty(shape, dtype=self.cells.dtype)
        table[tuple(positions)] = self.cells
        return table


def _incomplete(where: str, shape: Sequence[int], given: int) -> MeasurementError:
    return MeasurementError(
        f"{where}: the labels of the values name {given:,} of the {int(np.prod(shape)):,} cells of a table of shape "
        f"{tuple(shape)}. Give each code once: value_counts leaves out codes without records; add them with "
        "reindex(range(n), fill_value=0)."
    )


def _labeled(values: Any, clique: Clique) -> _Labeled | None:
    """Return the labels of a pandas or xarray table; None for other values."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(values, pandas.DataFrame | pandas.Series):
        return _of_pandas(values, clique, pandas)
    return _of_xarray(values) if _is_labeled(values) else None


def _of_pandas(values: Any, clique: Clique, pandas: Any) -> _Labeled:
    """Return the labels of a Series, or of a DataFrame; a frame of one column is a Series unless two axes are asked."""
    indexes = [values.index] if isinstance(values, pandas.Series) else [values.index, values.columns]
    try:
        cells = values.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        cells = values.to_numpy()
    if len(indexes) == 2 and values.shape[1] == 1 and indexes[0].nlevels == len(clique):
        indexes, cells = indexes[:1], cells[:, 0]
    names = [name for index in indexes for name in index.names]
    labels = [np.asarray(index.get_level_values(level)) for index in indexes for level in range(index.nlevels)]
    axes = [axis for axis, index in enumerate(indexes) for _ in range(index.nlevels)]
    plain = all(name is None for name in names) and all(
        index.nlevels == 1 and index.equals(pandas.RangeIndex(len(index))) for index in indexes
    )
    return _Labeled(cells, names, labels, axes, plain)


def _of_xarray(values: Any) -> _Labeled:
    """Return the labels of an xarray array."""
    cells, dims = np.asarray(values.values), [str(name) for name in values.dims]
    names = [None if UNNAMED.fullmatch(name) else name for name in dims]
    counted = [np.arange(size) for size in cells.shape]
    labels = [
        np.asarray(values.coords[name]) if name in values.coords else positions
        for name, positions in zip(dims, counted, strict=True)
    ]
    same = all(map(np.array_equal, labels, counted))
    return _Labeled(cells, names, labels, range(cells.ndim), same and all(name is None for name in names))


def _order_of(names: Sequence[Any], clique: Clique, where: str) -> list[int]:
    """Return for each attribute of the labels its place in the clique."""
    known = [name for name in names if name is not None]
    if len(names) != len(clique) or not set(known) <= set(clique) or len(set(known)) != len(known):
        shown = listed("without a name" if name is None else repr(name) for name in names)
        raise MeasurementError(
            f"{where}: the axes of the values are {shown}, which are not the attributes of the clique. Name them after "
            "the attributes, or give an array (.to_numpy()) with an axis for each attribute, in the clique's order."
        )
    if len(known) < len(names) and any(name not in (None, own) for name, own in zip(names, clique, strict=True)):
        raise MeasurementError(
            f"{where}: some axes of the values have names in another order than the clique, and others have no names. "
            "Name all axes."
        )
    return [place if name is None else clique.index(name) for place, name in enumerate(names)]


def _codes_of(labels: np.ndarray, attribute: str, where: str) -> np.ndarray:
    """Return labels as codes."""
    try:
        numbers = labels.astype(np.float64)
        codes = numbers.astype(np.int64)
    except (TypeError, ValueError):
        numbers = codes = None
    if numbers is None or codes is None or not np.array_equal(codes, numbers) or (codes < 0).any():
        raise MeasurementError(
            f"{where}: the values have the labels {listed((repr(label) for label in labels.tolist()), 4)} for "
            f"{attribute}, which are not codes 0, 1, 2, ... Put them in the order of the codes, and give an array "
            "(.to_numpy())."
        )
    return codes


def without_masked(
    values: Any, deviations: Any, query: LinearQuery | None, where: str
) -> tuple[np.ndarray, Any, Any, tuple[int, ...] | None]:
    """Leave out the masked cells of a table (`numpy.ma`), whose answers are unknown.

    Returns:
        the other values; their deviations; the query that answers these cells (None if no cell is masked); and the
        shape of the table (None if no cell is masked).

    Raises:
        MeasurementError: answers to a query are masked, or all cells are.
    """
    if not (np.ma.isMaskedArray(values) and np.ma.is_masked(values)):
        return np.ma.getdata(values) if np.ma.isMaskedArray(values) else values, deviations, None, None
    if query is not None:
        raise MeasurementError(
            f"{where}: some answers to its query are masked; leave their rows out of the query and the values."
        )
    from scipy import sparse

    shown = ~np.ma.getmaskarray(values)
    if not shown.any():
        raise MeasurementError(f"{where} has no values: all are masked. Leave the measurement out.")
    spread = np.ma.getdata(deviations) if np.ma.isMaskedArray(deviations) else np.asarray(deviations)
    if spread.size == shown.size and spread.ndim > 0:
        spread = spread.reshape(-1)[shown.reshape(-1)]
    cells = sparse.csr_array(sparse.eye_array(shown.size))[np.flatnonzero(shown)]
    return np.ma.getdata(values)[shown], spread, cells, shown.shape


def shaped_like(deviations: np.ndarray, shape: tuple[int, ...], where: str) -> np.ndarray:
    """Return standard deviations as one number, or flat with one for each answer.

    Args:
        deviations: one number, or an array that has the shape of the values or broadcasts to it axis by axis.
        shape: the shape of the values.
        where: the name of the measurement in errors.

    Raises:
        ShapeError: the shape does not fit.
    """
    if deviations.ndim == 0:
        return deviations
    rows = int(np.prod(shape))
    if deviations.shape == (rows,):
        return deviations
    fits = deviations.ndim == len(shape) and all(own in (1, n) for own, n in zip(deviations.shape, shape, strict=True))
    if not fits:
        allowed = " or ".join(dict.fromkeys(["()", f"({rows},)", str(shape)]))
        raise ShapeError.of(f"{where}: stddev", allowed, deviations.shape)
    return np.broadcast_to(deviations, shape).reshape(-1)
