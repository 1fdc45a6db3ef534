"""The queries on one attribute of PGM Table 2, and the range strategies of matrix mechanisms.

Each function takes the attribute's number of values n and returns a `MatrixQuery` of shape (rows, n). Answers are sums
of counts; divide by the total for fractions, or, in the case of `mean`, for the mean over the records.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pgmest.errors import QueryError
from pgmest.queries.base import MatrixQuery, finite_vector, positive_size
from pgmest.queries.matrices import Grouping, Identity, dense
from pgmest.queries.ranges import Differences, Ranges, tree_ranges


def identity(n: int) -> MatrixQuery:
    """Return the query of every count: the identity matrix, (n, n)."""
    size = positive_size(n)
    return Identity((size, size), {"kind": "identity"})


def total(n: int) -> MatrixQuery:
    """Return the sum over all codes, (1, n); in a Kron the attribute keeps an axis of length 1."""
    return _ranges(positive_size(n), {"kind": "total"}, [0], [n])


def point(n: int, code: int) -> MatrixQuery:
    """Return the count of one code (evidence), (1, n).

    Raises:
        QueryError: the code is outside 0..n-1.
    """
    size = positive_size(n)
    code = _code(code, size, "code")
    return _ranges(size, {"kind": "point", "code": code}, [code], [code + 1])


def interval(n: int, start: int, stop: int) -> MatrixQuery:
    """Return the sum over the codes start <= j < stop (as in a Python slice), (1, n).

    Raises:
        QueryError: not 0 <= start < stop <= n.
    """
    size = positive_size(n)
    start, last = _code(start, size, "start"), _code(stop, size + 1, "stop")
    if start >= last:
        raise QueryError(f"the interval from {start} to {last} is empty; stop is exclusive and must exceed start.")
    return _ranges(size, {"kind": "interval", "start": start, "stop": last}, [start], [last])


def subset(n: int, members: Iterable[int] | np.ndarray) -> MatrixQuery:
    """Return the sum over a set of codes, given as codes or as a boolean mask of length n, (1, n).

    Raises:
        QueryError: a code is outside 0..n-1, or the mask has another length.
    """
    size = positive_size(n)
    chosen = np.asarray(members if isinstance(members, np.ndarray) else list(members))
    if chosen.dtype == bool:
        if chosen.shape != (size,):
            raise QueryError(f"the mask of a subset of {size} codes: expected shape ({size},), got {chosen.shape}.")
        chosen = np.flatnonzero(chosen)
    codes = sorted({_code(code, size, "a member of the subset") for code in chosen.tolist()})
    row = np.zeros((1, size))
    row[0, codes] = 1.0
    return dense(row, {"kind": "subset", "members": codes})


def prefix(n: int) -> MatrixQuery:
    """Return the cumulative counts, (n, n): row i sums the codes 0..i (a lower-triangular matrix of ones)."""
    size = positive_size(n)
    return _ranges(size, {"kind": "prefix"}, np.zeros(size, dtype=np.int64), np.arange(1, size + 1))


def compress(n: int, mapping: Callable[[int], int] | Iterable[int], count: int | None = None) -> MatrixQuery:
    """Return the counts after recoding, (count, n): row g sums the codes that map to g.

    >>> compress(6, lambda code: code // 2).apply([1, 2, 3, 4, 5, 6])
    array([ 3.,  7., 11.])

    Args:
        n: the number of values.
        mapping: the group 0..count-1 of each code: n integers, or a function of the code.
        count: the number of groups; by default the largest group plus one.

    Raises:
        QueryError: the mapping has not n entries, or an entry is not an integer in 0..count-1.
    """
    size = positive_size(n)
    groups = [mapping(code) for code in range(size)] if callable(mapping) else list(mapping)
    if len(groups) != size:
        raise QueryError(f"the mapping of compress: expected one group for each of {size} codes, got {len(groups)}.")
    bound = None if count is None else positive_size(count)
    codes = np.array([_code(group, bound, "a group of compress") for group in groups], dtype=np.int64)
    codes.flags.writeable = False
    rows = int(codes.max()) + 1 if bound is None else bound
    return Grouping((rows, size), {"kind": "compress", "mapping": codes, "count": rows}, codes)


def mean(n: int, values: Any = None) -> MatrixQuery:
    """Return the sum over records of the numeric value of the record's code, (1, n).

    Args:
        n: the number of values.
        values: the numeric value of each code, n finite numbers; by default 0..n-1.

    Raises:
        QueryError: `values` are not n finite numbers.
    """
    numbers = _code_values(n, values)
    return dense(numbers[None, :], {"kind": "mean", "values": numbers})


def moments(n: int, k: int, values: Any = None) -> MatrixQuery:
    """Return the sums over records of the powers 1..k of the numeric value of the record's code, (k, n).

    Args:
        n: the number of values.
        k: the highest power.
        values: the numeric value of each code, n finite numbers; by default 0..n-1.

    Raises:
        QueryError: k is not a positive integer, or the values or their powers are not n finite numbers.
    """
    numbers, k = _code_values(n, values), positive_size(k)
    with np.errstate(over="ignore"):
        powers = numbers[None, :] ** np.arange(1, k + 1)[:, None]
    return dense(powers, {"kind": "moments", "k": k, "values": numbers})


def all_range(n: int) -> MatrixQuery:
    """Return every range of consecutive codes, (n (n + 1) / 2, n), ordered by first code, then by last code."""
    size = positive_size(n)
    first, last = np.triu_indices(size)
    return _ranges(size, {"kind": "all_range"}, first, last + 1)


def haar(n: int) -> MatrixQuery:
    """Return the Haar wavelets, (n, n): the total, then left half minus right half of each node of a binary tree.

    The nodes are in level order, the rows are not normalized, and n need not be a power of two.
    """
    size = positive_size(n)
    splits = [(start, (start + stop) // 2, stop) for start, stop in tree_ranges(size, 2) if stop - start > 1]
    start, middle, stop = np.array([(0, size, size), *splits], dtype=np.int64).T
    shape, spec = (size, size), {"kind": "haar"}
    return Differences(shape, spec, Ranges(shape, spec, start, middle), Ranges(shape, spec, middle, stop))


def hierarchical(n: int, branching: int = 2) -> MatrixQuery:
    """Return the nodes of a tree over the codes, level by level from the root (the total) to single codes.

    A node splits into b = `branching` nearly equal parts. If n is a power of b, there are (n b - 1) / (b - 1) rows.

    Raises:
        QueryError: `branching` is less than 2.
    """
    size, parts = positive_size(n), positive_size(branching)
    if parts < 2:
        raise QueryError(f"the branching of a hierarchy must be at least 2, got {branching!r}.")
    starts, stops = np.array(tree_ranges(size, parts), dtype=np.int64).T
    return _ranges(size, {"kind": "hierarchical", "branching": parts}, starts, stops)


def _ranges(n: int, spec: dict[str, Any], starts: Any, stops: Any) -> Ranges:
    return Ranges((len(starts), n), spec, np.asarray(starts), np.asarray(stops))


def _code(code: Any, bound: int | None, what: str) -> int:
    try:
        number = -1 if isinstance(code, bool) else operator.index(code)
    except TypeError:
        number = -1
    if number < 0 or (bound is not None and number >= bound):
        allowed = "an integer from 0" if bound is None else f"an integer in 0..{bound - 1}"
        raise QueryError(f"{what} must be {allowed}, got {code!r}.")
    return number


def _code_values(n: int, values: Any) -> np.ndarray:
    size = positive_size(n)
    return finite_vector(np.arange(size) if values is None else values, size, "the values of the codes")
