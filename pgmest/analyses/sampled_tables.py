"""SampledTables: synthetic tables, and what analyses of them rest on, which `combine` reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
Pair = tuple[str, ...]

MOST_NAMED = 5
"""The largest number of pairs that a sentence names."""


class SampledTables(list[T]):
    """The list of synthetic tables that `sample_tables` returns; `combine(results, tables=tables)` reads the rest.

    Attributes:
        unmeasured: the pairs of their attributes that no answer is about.
        weight: the column of weights that analyses must use; None for tables without weights.
        spread: the standard error of an estimate, relative to its standard deviation between tables; None for tables
            that vary as draws do.
        about: "table" if the tables have hardly any sampling error; "population" if their records are independent; None
            if that is not known.
    """

    def __init__(
        self,
        tables: Iterable[T],
        unmeasured: Sequence[Pair] = (),
        weight: str | None = None,
        spread: float | None = None,
        about: str | None = None,
    ) -> None:
        super().__init__(tables)
        self.unmeasured: tuple[Pair, ...] = tuple(unmeasured)
        self.weight: str | None = weight
        self.spread: float | None = spread
        self.about: str | None = about

    def changed(self, tables: Iterable[Any]) -> SampledTables[Any]:
        """Return the same tables in another form."""
        return SampledTables(tables, self.unmeasured, self.weight, self.spread, self.about)


def named_pairs(pairs: Sequence[Pair]) -> str:
    """Return the names of pairs in a sentence."""
    named = ", ".join(" and ".join(pair) for pair in pairs[:MOST_NAMED])
    return named + (f", and {len(pairs) - MOST_NAMED} more pairs" if len(pairs) > MOST_NAMED else "")
