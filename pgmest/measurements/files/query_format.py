"""The conversion of queries to JSON values and back."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pgmest import queries
from pgmest.errors import ArgumentError, QueryError, listed
from pgmest.queries import Kron, LinearQuery, MatrixQuery, as_matrix_query

# For each kind of query: its constructor, its required fields, and its optional fields.
KINDS: dict[str, tuple[Callable[..., MatrixQuery], tuple[str, ...], tuple[str, ...]]] = {
    "identity": (queries.identity, (), ()),
    "total": (queries.total, (), ()),
    "prefix": (queries.prefix, (), ()),
    "all_range": (queries.all_range, (), ()),
    "haar": (queries.haar, (), ()),
    "hierarchical": (queries.hierarchical, (), ("branching",)),
    "point": (queries.point, ("code",), ()),
    "interval": (queries.interval, ("start", "stop"), ()),
    "subset": (queries.subset, ("members",), ()),
    "compress": (queries.compress, ("mapping",), ("count",)),
    "mean": (queries.mean, (), ("values",)),
    "moments": (queries.moments, ("k",), ("values",)),
    "matrix": (lambda n, rows: as_matrix_query(rows), ("rows",), ()),
    "sparse": (lambda n, **parts: _sparse(**parts), ("shape", "row", "column", "value"), ()),
}


def encode_query(query: LinearQuery, store: Callable[[np.ndarray], Any]) -> dict[str, Any]:
    """Convert a query to a JSON object; `store` converts the arrays in it.

    Raises:
        ArgumentError: the query is a LinearOperator, whose entries are not known.
    """
    spec = dict(query.spec)
    if spec["kind"] == "kron":
        return spec | {"factors": [[name, encode_query(factor, store)] for name, factor in spec["factors"].items()]}
    if spec["kind"] not in KINDS:
        raise ArgumentError("a LinearOperator query cannot be saved; measure with its matrix, dense or sparse.")
    if spec["kind"] == "sparse":
        entries = spec.pop("values").tocoo()
        spec |= {"shape": list(entries.shape), "row": entries.row, "column": entries.col, "value": entries.data}
    return {name: store(value) if isinstance(value, np.ndarray) else value for name, value in spec.items()}


def decode_query(spec: Any, sizes: Mapping[str, int], cells: int, answers: int, load: Callable[[Any], Any]) -> Any:
    """Convert a JSON value to a query.

    Args:
        spec: the JSON value.
        sizes: the number of values of each attribute.
        cells: the number of cells of the clique's table.
        answers: the number of measured values; queries with more answers are refused before they are built.
        load: converts the JSON value of an array to the array.

    Raises:
        QueryError: the value is not a query, or the query does not fit the table or the answers.
    """
    spec = {"kind": spec} if isinstance(spec, str) else spec
    if not isinstance(spec, dict) or not isinstance(spec.get("kind"), str):
        raise QueryError('a query is a kind such as "prefix", or an object with a "kind".')
    if spec["kind"] != "kron":
        return _decode_factor(spec, cells, answers, load)
    fields = _fields(spec, ("factors",), ())
    pairs = fields["factors"]
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise QueryError('the "factors" of a kron are pairs [attribute, query].')
    for name, factor in pairs:
        if not isinstance(name, str) or name not in sizes:
            raise QueryError(f"{name!r} is not an attribute of the clique ({listed(sizes)}).")
        if isinstance(factor, dict) and factor.get("kind") == "kron":
            raise QueryError("a kron cannot be a factor of a kron.")
    return Kron([(name, decode_query(factor, {}, sizes[name], answers, load)) for name, factor in pairs])


def _decode_factor(spec: dict[str, Any], n: int, answers: int, load: Callable[[Any], Any]) -> MatrixQuery:
    """Convert a JSON object to a query on n cells, which is not a Kron."""
    kind = spec["kind"]
    if kind not in KINDS:
        raise QueryError(f"unknown kind {kind!r}; it must be one of {listed([*KINDS, 'kron'], 20)}.")
    constructor, required, optional = KINDS[kind]
    fields = {name: load(value) for name, value in _fields(spec, required, optional).items()}
    rows = _least_rows(kind, n, fields)
    if rows > answers:
        raise QueryError(f"{kind} has at least {rows:,} answers here, but there are only {answers:,} values.")
    try:
        return constructor(n, **fields)
    except (TypeError, ValueError, OverflowError) as error:
        raise error if isinstance(error, QueryError) else QueryError(f"{kind}: {error}.") from None


def _fields(spec: dict[str, Any], required: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of a query; raise QueryError if one is missing or unknown."""
    fields = {name: value for name, value in spec.items() if name != "kind"}
    missing = [name for name in required if name not in fields]
    unknown = [name for name in fields if name not in (*required, *optional)]
    if missing or unknown:
        problem = f"lacks {listed(missing)}" if missing else f"has unknown fields {listed(unknown)}"
        takes = listed([*required, *(f"{name} (optional)" for name in optional)]) or "no fields"
        raise QueryError(f"{spec['kind']} {problem}; it takes {takes}.")
    return fields


def _least_rows(kind: str, n: int, fields: Mapping[str, Any]) -> int:
    """Return a lower bound on the rows of a query, so that a short file cannot request a huge query."""
    declared = {"moments": "k", "compress": "count"}.get(kind, "")
    if declared in fields:
        return _integer(fields[declared], declared)
    if kind == "sparse":
        shape = fields["shape"]
        if not isinstance(shape, list) or len(shape) != 2:
            raise QueryError(f'the "shape" of a sparse query is [rows, columns], got {shape!r}.')
        if _integer(shape[1], "columns") != n:
            raise QueryError(f"a sparse query of shape {tuple(shape)}: expected {n} columns.")
        return _integer(shape[0], "rows")
    return {"all_range": n * (n + 1) // 2, "identity": n, "prefix": n, "haar": n, "hierarchical": n}.get(kind, 1)


def _sparse(shape: list[int], row: Any, column: Any, value: Any) -> MatrixQuery:
    from scipy import sparse

    indices = [np.asarray(part) for part in (row, column)]
    if any(part.size and part.dtype.kind not in "iu" for part in indices):
        raise QueryError("the row and column of a sparse query must be integers.")
    values = np.asarray(value, dtype=np.float64)
    positions = tuple(part.astype(np.int64) for part in indices)
    return as_matrix_query(sparse.coo_array((values, positions), shape=tuple(shape)))


def _integer(value: Any, what: str) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise QueryError(f'"{what}" must be an integer, got {value!r}.') from None
