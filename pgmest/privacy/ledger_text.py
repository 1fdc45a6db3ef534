"""A ledger in words: a line for each charge, or a summary of many charges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import TYPE_CHECKING

from pgmest._base.widths import joined, key_of_names, padded, short_names, shortened, width
from pgmest.errors import plural
from pgmest.privacy.budgets import GDP, Rho, at_most_text

if TYPE_CHECKING:
    from pgmest.privacy.budgets import Budget
    from pgmest.privacy.ledger import Entry

MOST_LISTED = 40
"""The most charges that are printed one by one; of more, a summary is printed."""

TECHNICAL = ("clique", "query", "grid")
"""The parameters of a request that the JSON of a ledger has, and its text has not."""

LONGEST_LABEL = 64
LONGEST_DETAILS = 80

COLUMNS = ("#", "what for", "kind", "cost", "share", "details")
"""The column titles of charges."""

SUMMARY_COLUMNS = ("kind", "of", "requests", "cost", "share", "noise (stddev)")
"""The column titles of a summary of charges."""

RIGHT = frozenset(("#", "requests", "cost", "share"))
"""The columns of numbers."""

ASKED = {
    "clique": "the number of records",
    "candidates": "choices among candidates",
    "threshold": "values that nobody listed",
    "values": "numbers computed from the records",
}
"""The names of requests without a table, by a parameter of their entries."""

Rows = list[tuple[str, ...]]


def charge_rows(entries: Sequence[Entry], budget: Budget) -> Rows:
    """Return a row of texts for each charge, one text for each of `COLUMNS`."""
    names = tuple(dict.fromkeys(name for entry in entries for name in entry.clique))
    return [
        (
            str(number),
            _label(entry, names),
            entry.kind,
            _cost(entry.cost.exact),
            f"{100 * (entry.cost / budget):.1f} %",
            _details(entry),
        )
        for number, entry in enumerate(entries, 1)
    ]


def full_names(entries: Sequence[Entry]) -> list[str]:
    """Return a line for each name of an attribute that `charge_rows` shortens."""
    names = dict.fromkeys(name for entry in entries for name in entry.clique)
    return [f"  {text} = {name}" for text, name in key_of_names(short_names(names))]


def summary_rows(entries: Sequence[Entry], budget: Budget) -> Rows:
    """Return a row of texts for each kind of charge, one text for each of `SUMMARY_COLUMNS`."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.kind, _asked(entry)), []).append(entry)
    rows = []
    for (kind, tables), some in sorted(groups.items()):
        spent = [sum(amounts, Fraction(0)) for amounts in zip(*(entry.cost.exact for entry in some), strict=True)]
        share = f"{100 * (budget.above(spent) / budget):.1f} %"
        rows.append((kind, tables, f"{len(some):,}", _cost(spent), share, _noise(some)))
    return rows


def aligned(columns: Sequence[str], rows: Rows) -> list[str]:
    """Return the lines of a table of texts."""
    widths = [max(map(width, cells)) for cells in zip(columns, *rows, strict=True)]
    lines = []
    for row in (columns, *rows):
        cells = zip(row, widths, columns, strict=True)
        lines.append("  " + "  ".join(padded(text, most, right=name in RIGHT) for text, most, name in cells).rstrip())
    return lines


def amounts_text(budget: Budget, down: bool = False) -> str:
    """Return the amounts of a budget with their names, rounded up, or down for what is left; mu of `GDP`, not mu^2."""
    named = {"mu": budget.mu} if isinstance(budget, GDP) else asdict(budget)
    return ", ".join(f"{name} {_rounded(amount, down)}" for name, amount in named.items())


def in_terms(budget: Budget, delta: float, down: bool = False) -> str:
    """Return a budget as the epsilon that it implies at a delta, with its own amounts, rounded like them, beside it."""
    if not isinstance(budget, Rho | GDP):
        return amounts_text(budget, down)
    return f"epsilon {_rounded(budget.to_approx(delta).epsilon, down)} ({amounts_text(budget, down)})"


def _rounded(amount: float, down: bool) -> str:
    return at_most_text(-amount, 4).removeprefix("-") if down else at_most_text(amount, 4)


def _asked(entry: Entry) -> str:
    """Return what the requests like this one are about."""
    if entry.clique:
        return f"tables of {plural(len(entry.clique), 'attribute')}"
    return next((text for name, text in ASKED.items() if name in entry.parameters), "other requests")


def _cost(exact: Iterable[Fraction]) -> str:
    return ", ".join(f"{float(amount):.4g}" for amount in exact)


def _noise(entries: Sequence[Entry]) -> str:
    """Return the range of the standard deviations of the noise."""
    found = [value for entry in entries if isinstance(value := entry.parameters.get("stddev"), int | float)]
    if not found:
        return ""
    low, high = (f"{end:.4g}" for end in (min(found), max(found)))
    return low if low == high else f"{low} to {high}"


def _label(entry: Entry, names: tuple[str, ...]) -> str:
    """Return the label, with short names if it is made of the names of attributes."""
    if entry.clique and " x ".join(entry.clique) in entry.label:
        return entry.label.replace(" x ".join(entry.clique), joined(entry.clique, names, " x "))
    return shortened(entry.label, LONGEST_LABEL)


def _details(entry: Entry) -> str:
    parts = [
        value if name == "noise" else f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in entry.parameters.items()
        if name not in TECHNICAL
    ]
    text = ", ".join(parts)
    shown = text if len(text) <= LONGEST_DETAILS else f"{text[: LONGEST_DETAILS - 3]}..."
    return f"{shown}, INSECURE".lstrip(", ") if entry.insecure else shown
