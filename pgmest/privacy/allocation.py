"""The allocation of a budget to marginals of different sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable

from pgmest.errors import BudgetTypeError
from pgmest.privacy.budgets import Budget, Epsilon
from pgmest.queries.levels import named_levels
from pgmest.tables.domain import Domain


def least_error_weights(
    domain: Domain, cliques: Iterable[Iterable[str] | str], kind: type[Budget], weights: Iterable[float] | None = None
) -> list[float]:
    """Return the weights for `measure_all` that minimize the sum over cliques of weight times expected l1 error.

    A marginal of c cells with weight w has an expected error proportional to w c / sqrt(rho) under zCDP, so its share
    is proportional to (w c)^(2/3) (PPSyn section 4); under pure DP to w c / epsilon, so to (w c)^(1/2).

    >>> from pgmest.privacy import Rho
    >>> least_error_weights(Domain({"a": 8, "b": 64}), [("a",), ("b",)], Rho)
    [4.0, 16.0]

    Args:
        domain: the attributes.
        cliques: the marginals to measure, of attributes or levels.
        kind: the type of the budget.
        weights: the importance of the error of each marginal; 1 for all by default.

    Returns:
        a weight for each clique.

    Raises:
        BudgetTypeError: if `kind` is no type of budget.
        UnknownAttributeError: if a clique has an attribute that is not in the domain.
    """
    sizes = [math.prod(one.size or domain[one.attribute] for one in named_levels(domain, clique)) for clique in cliques]
    if not (isinstance(kind, type) and issubclass(kind, Budget)):
        raise BudgetTypeError.of("kind", Budget, kind)
    importance = [1.0] * len(sizes) if weights is None else [float(weight) for weight in weights]
    power = 1 / 2 if kind is Epsilon else 2 / 3
    return [float(round((w * size) ** power, 12)) for w, size in zip(importance, sizes, strict=True)]
