"""The functions of `mbi.marginal_oracles`: all of them use the same exact oracle of pgmest.

A function that JAX traces (`jax.jit`, `jax.grad`) has no numbers yet; there mbi's own oracle runs.
"""

from __future__ import annotations

import concurrent.futures
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pgmest.adapters.mbi.field import MarkovRandomField
from pgmest.adapters.mbi.peer import available, done, installed, mbi, traced
from pgmest.adapters.mbi.tables import to_mbi_factor
from pgmest.errors import ArgumentError
from pgmest.queries import Kron

_peer = installed("mbi.marginal_oracles")
_extensions = available("mbi.extensions.message_passing")

ORACLES = (
    "message_passing_stable",
    "message_passing_fast",
    "message_passing_hugin",
    "message_passing_shafer_shenoy",
    "message_passing_implicit",
    "brute_force_marginals",
    "einsum_marginals",
)
"""The functions of mbi that return the marginals on the cliques of the potentials."""


def _field(potentials: Any, total: Any, constraints: Iterable[Any]) -> MarkovRandomField:
    return MarkovRandomField(potentials, None, float(total), tuple(constraints))


def marginals(potentials: Any, total: Any = 1.0, *, constraints: Sequence[Any] = ()) -> Any:
    """Return the marginals on exactly the cliques of the potentials, as an `mbi.CliqueVector`."""
    return _many(_field(potentials, total, constraints), potentials.cliques)


def _many(field: MarkovRandomField, cliques: Iterable[Sequence[Any]]) -> Any:
    wanted = [tuple(clique) for clique in cliques]
    tables = field.model.project_many([field._names.clique(clique) for clique in wanted])
    factors = {clique: to_mbi_factor(table, field._names) for clique, table in zip(wanted, tables, strict=True)}
    return mbi.CliqueVector(field.domain, wanted, factors)


def _on_pgmest(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return mbi's oracle, replaced for calls with numbers that ask for marginals only."""

    @functools.wraps(original)
    def oracle(potentials: Any, total: Any = 1.0, *args: Any, constraints: Sequence[Any] = (), **options: Any) -> Any:
        if traced(potentials, total, constraints) or args or options.get("jtree") or options.get("return_messages"):
            return original(potentials, total, *args, **_unless_empty(constraints), **options)
        return marginals(potentials, total, constraints=constraints)

    for attribute in ("lower", "trace", "eval_shape", "clear_cache"):  # a function that JAX has compiled has these
        if hasattr(original, attribute):
            setattr(oracle, attribute, getattr(original, attribute))
    return oracle


message_passing_stable: Any
message_passing_fast: Any
message_passing_hugin: Any
message_passing_shafer_shenoy: Any
message_passing_implicit: Any
brute_force_marginals: Any
einsum_marginals: Any
for _name in ORACLES:
    if hasattr(_peer, _name):
        globals()[_name] = _on_pgmest(getattr(_peer, _name))
CONSTRAINED = {
    name: _on_pgmest(getattr(_extensions, name))
    for name in ("shafer_shenoy", "implicit")
    if _extensions is not None and hasattr(_extensions, name)
}
"""The oracles of `mbi.extensions.message_passing`."""


EVIDENCE = "_mbi_evidence"
"""mbi 1.1's name of the first axis of the answer if the evidence is an array."""


def variable_elimination(
    potentials: Any,
    clique: Any,
    total: Any = 1.0,
    evidence: Mapping[Any, Any] | None = None,
    *,
    constraints: Sequence[Any] = (),
    mesh: Any = None,
) -> Any:
    """Return the marginal on any attributes, given the evidence, as an `mbi.Factor` that sums to `total`.

    Args:
        potentials, clique, total, constraints: as in mbi.
        evidence: attribute -> code. As in mbi 1.1, codes may be arrays of one length: the answer then has a first axis
            for their entries, and sums to `total` for each entry.
        mesh: an argument of mbi, accepted and not used.

    Raises:
        QueryError: the evidence has an attribute of `clique`.
    """
    if traced(potentials, total, evidence, constraints):
        extra = {"evidence": evidence} if evidence else {}
        return _peer.variable_elimination(potentials, clique, total, **extra, **_unless_empty(constraints))
    field = _field(potentials, total, constraints)
    names = field._names
    codes = {names.of[attribute]: np.asarray(code, dtype=np.int64) for attribute, code in (evidence or {}).items()}
    if any(code.ndim for code in codes.values()):
        return _given_arrays(field, names.clique(clique), codes, float(total))
    given = {attribute: int(code) for attribute, code in codes.items()}
    table = field.model.project(names.clique(clique), given)
    return to_mbi_factor(table.normalize(float(total)) if given else table, names)


def _given_arrays(
    field: MarkovRandomField, clique: tuple[str, ...], codes: Mapping[str, np.ndarray], total: float
) -> Any:
    """Return the marginal for each entry of the evidence; equal entries are computed once."""
    columns = np.stack(np.broadcast_arrays(*codes.values()), axis=-1).reshape(-1, len(codes))
    distinct, places = np.unique(columns, axis=0, return_inverse=True)
    tables = [field.model.project(clique, dict(zip(codes, map(int, row), strict=True))) for row in distinct]
    values = np.stack([np.asarray(table.normalize(total).values) for table in tables])[places.reshape(-1)]
    theirs = field.domain.project(field._names.back(clique))
    return mbi.Factor(mbi.Domain([EVIDENCE, *theirs.attributes], values.shape), values)


def bulk_variable_elimination(
    potentials: Any, marginal_queries: Iterable[Any], total: Any = 1.0, *, constraints: Sequence[Any] = ()
) -> Any:
    """Return the marginals on many sets of attributes as an `mbi.CliqueVector`; shared work is done once."""
    if traced(potentials, total, constraints):
        return _peer.bulk_variable_elimination(potentials, marginal_queries, total, **_unless_empty(constraints))
    return _many(_field(potentials, total, constraints), marginal_queries)


def calculate_many_marginals(
    potentials: Any,
    marginal_queries: Iterable[Any],
    total: Any = 1.0,
    belief_propagation_oracle: Any = None,
    *,
    constraints: Sequence[Any] = (),
) -> Any:
    """Call `bulk_variable_elimination`; the oracle argument is not used."""
    return bulk_variable_elimination(potentials, marginal_queries, total, constraints=constraints)


def precompile_bulk_variable_elimination(*args: Any, **options: Any) -> concurrent.futures.Future[None]:
    """Return a future that is done, since pgmest compiles nothing for a query."""
    return done()


def kron_query(
    potentials: Any,
    query_factors: Mapping[Any, Any],
    total: Any = 1,
    suffix: str = "_answer",
    *,
    constraints: Sequence[Any] = (),
) -> Any:
    """Return the answers to a product of query matrices, an `mbi.Factor` over the attributes with `suffix`.

    Raises:
        ArgumentError: two attributes would get the same name.
    """
    field = _field(potentials, total, constraints)
    names = field._names
    matrices = {names.of[attribute]: np.asarray(matrix, float) for attribute, matrix in query_factors.items()}
    answers = field.model.answer(Kron(matrices)).transpose(matrices)
    renamed = [f"{attribute}{suffix}" for attribute in query_factors]
    if len(set(renamed)) != len(renamed):
        raise ArgumentError.of("suffix", suffix, "a text with which the attributes' names stay distinct")
    return mbi.Factor(mbi.Domain(renamed, answers.domain.shape), np.asarray(answers.values))


def _unless_empty(constraints: Sequence[Any]) -> dict[str, Any]:
    return {"constraints": constraints} if constraints else {}


def __getattr__(name: str) -> Any:
    """Return a name of mbi's own module."""
    return getattr(_peer, name)
