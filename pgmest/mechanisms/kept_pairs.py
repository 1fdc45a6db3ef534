"""KeptPairs: which dependences a release kept, which follow from others, and which are lost.

A release has the dependence of a pair of attributes if a table with both was measured. If not, a chain of measured
tables can imply some of it. Without a chain, the two attributes are independent in the release. All of this follows
from the measured cliques, so it costs no budget.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

from pgmest._base.widths import joined
from pgmest.errors import percent_text, plural
from pgmest.inference.exact.structural_zeros import zero_rules
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.hierarchy import split_level

MEASURED, IMPLIED, INDEPENDENT = "measured", "implied", "independent"
"""The states of a pair in a release: with a table, with what other measured tables imply, or with neither."""

IN_WORDS = {
    MEASURED: "measured",
    IMPLIED: "not measured; follows from other measured tables as far as these imply it",
    INDEPENDENT: "not measured; independent in the release",
}

NOISE = "the budget cannot tell it from noise"
"""The usual reason why a marginal that matters was not measured."""

LOST, MATTERS = "lost_dependence", "matters"
"""The names in `Result.details` of the estimated dependence of tables that were not measured (total variation between
the records and the model, from noisy scores that were paid for), and of the marginals that matter."""


@dataclass(frozen=True, eq=False)
class KeptPairs:
    """The state of each pair of attributes in a release.

    >>> kept = KeptPairs(["age", "sex", "income", "job"], [("age", "sex"), ("sex", "income")])
    >>> kept.counts
    {'measured': 2, 'implied': 1, 'independent': 3}
    >>> kept.state(("age", "income")), kept.state(("job", "age"))
    ('implied', 'independent')

    Attributes:
        attributes: The attributes of which some table was measured.
        measured: The measured cliques.
        known: Further cliques whose dependence the release has, such as those of structural zeros.
        unmeasured: The attributes of which nothing was measured, which are uniform.
        estimates: For some pairs that were not measured, an estimate of the dependence that is lost: the total
            variation between the records and the release, without sampling error.
        matters: The marginals that matter, as the user named them.
        reason: The reason why a marginal that matters was not measured.
    """

    attributes: list[str]
    measured: list[Clique]
    known: list[Clique] = field(default_factory=list)
    unmeasured: list[str] = field(default_factory=list)
    estimates: Mapping[frozenset[str], float] = field(default_factory=dict)
    matters: list[Clique] = field(default_factory=list)
    reason: str = NOISE

    @classmethod
    def of(cls, released: Any) -> KeptPairs | None:
        """Return what a mechanism's result or a model has of each pair; None if its measurements are not known."""
        domain, answers = getattr(released, "domain", None), getattr(released, "measurements", None)
        exact = (one for one in getattr(released, "invariants", ()) if one.exact_rows.all())
        answers = (*exact, *(answers or ()))
        if not isinstance(domain, Domain) or not answers:
            return None
        measured = list(dict.fromkeys(domain.ordered(answer.clique) for answer in answers))
        seen, details = {name for clique in measured for name in clique}, getattr(released, "details", {})
        several = [name for name, size in domain.items() if size > 1]
        zeros = getattr(getattr(released, "mechanism", None), "structural_zeros", None)
        return cls(
            [name for name in several if name in seen],
            measured,
            [domain.ordered(rule.attributes) for rule in zero_rules(zeros)],
            [name for name in several if name not in seen],
            {frozenset(clique): error for clique, error in details.get(LOST, {}).items()},
            [tuple(clique) for clique in details.get(MATTERS, ())],
            _reason(released),
        )

    @cached_property
    def _pairs(self) -> set[frozenset[str]]:
        """The pairs inside the measured cliques."""
        of_several = set(self.attributes)
        return {
            frozenset(pair)
            for clique in self.measured
            for pair in combinations([name for name in clique if name in of_several], 2)
        }

    @cached_property
    def _component(self) -> dict[str, str]:
        """For each attribute, the representative of all that a chain of measured or known tables connects with it."""
        parent = {name: name for name in self.attributes}

        def root(name: str) -> str:
            while parent[name] != name:
                parent[name] = name = parent[parent[name]]
            return name

        for clique in (*self.measured, *self.known):
            names = [name for name in clique if name in parent]
            for name in names[1:]:
                parent[root(name)] = root(names[0])
        return {name: root(name) for name in self.attributes}

    @property
    def counts(self) -> dict[str, int]:
        """The number of pairs in each state."""
        sizes = Counter(self._component.values()).values()
        together, total = sum(math.comb(size, 2) for size in sizes), math.comb(len(self.attributes), 2)
        measured = len(self._pairs)
        return {MEASURED: measured, IMPLIED: together - measured, INDEPENDENT: total - together}

    def state(self, pair: Iterable[str]) -> str:
        """Return the state of a pair; one with an attribute of which nothing was measured is independent."""
        names = list(pair)
        if frozenset(names) in self._pairs:
            return MEASURED
        first, second = (self._component.get(name) for name in names)
        return IMPLIED if first is not None and first == second else INDEPENDENT

    def not_measured(self, most: int) -> list[tuple[Clique, str, float | None]]:
        """Return pairs that were not measured, with their state and the estimated loss, the largest first.

        Args:
            most: The largest number of pairs.
        """
        estimated = sorted(
            ((pair, error) for pair, error in self.estimates.items() if len(pair) == 2 and pair not in self._pairs),
            key=lambda entry: -entry[1],
        )
        found: list[tuple[Clique, str, float | None]] = [
            (self._in_order(pair), self.state(pair), error) for pair, error in estimated[:most]
        ]
        others = self._without_estimate()
        found += [(pair, self.state(pair), None) for pair, _ in zip(others, range(most - len(found)), strict=False)]
        return found

    def _in_order(self, pair: frozenset[str]) -> Clique:
        return tuple(name for name in self.attributes if name in pair)

    def _without_estimate(self) -> Iterator[Clique]:
        """Yield pairs that were neither measured nor estimated, first those that are independent in the release."""
        for state in (INDEPENDENT, IMPLIED):
            for pair in combinations(self.attributes, 2):
                if frozenset(pair) not in self.estimates and self.state(pair) == state:
                    yield pair

    def on_matters(self) -> list[str]:
        """Return a sentence on each marginal that matters: whether it was measured, and if not, what is known."""
        return [f"{self._called(clique)}: {self.verdict(clique)}" for clique in self.matters]

    def _called(self, clique: Clique) -> str:
        """Return the name of a table, with long names of attributes shortened."""
        return joined(clique, (*self.attributes, *self.unmeasured), " x ")

    def verdict(self, clique: Clique) -> str:
        """Return whether a marginal was measured, and if not, what is known of it; of levels, of their attributes."""
        known = {*self.attributes, *self.unmeasured}
        clique = tuple(name if name in known else (split_level(name) or (name,))[0] for name in clique)
        several = tuple(name for name in clique if name in known)
        if len(several) < min(2, len(clique)):
            return "a column with one value cannot depend on others"
        clique = several
        if any(set(clique) <= set(measured) for measured in self.measured):
            return "measured"
        if len(clique) == 2:
            error = self.estimates.get(frozenset(clique))
            text = f"NOT measured, since {self.reason}; {IN_WORDS[self.state(clique)].removeprefix('not measured; ')}"
            return (
                text if error is None else f"{text}; scores estimate a loss of {percent_text(error, 1)} of the records"
            )
        pairs = list(combinations(clique, 2))
        count = sum(self.state(pair) == MEASURED for pair in pairs)
        return f"NOT measured as a whole; {count} of its {plural(len(pairs), 'pair')} were"

    def lines(self, most: int) -> list[str]:
        """Return sentences on the pairs that were kept and those that were not, for the end of a run.

        Args:
            most: The largest number of pairs that are named.
        """
        counts = self.counts
        lost, total = counts[IMPLIED] + counts[INDEPENDENT], sum(counts.values())
        found = [f"matters: {text}" for text in self.on_matters()]
        if total:
            found.append(
                f"dependences: {counts[MEASURED]:,} of {plural(total, 'pair')} measured, {counts[IMPLIED]:,} follow "
                f"from these as far as they imply it, {counts[INDEPENDENT]:,} are independent in the table"
            )
        if lost:
            named = [
                self._called(pair) + ("" if error is None else f" ({percent_text(error, 1)})")
                for pair, _, error in self.not_measured(most)
            ]
            more = f", and {lost - len(named):,} more (--report lists them)" if lost > len(named) else ""
            meaning = " (in brackets: the share of the records that noisy scores estimate as lost)"
            found.append(f"not measured{meaning if self.estimates else ''}: {', '.join(named)}{more}")
        if self.unmeasured:
            names = ", ".join(self._called((name,)) for name in self.unmeasured[:most])
            found.append(f"nothing was measured of {names}, which are uniform in the table")
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the counts, the marginals that matter, and pairs that were not measured, as JSON values."""
        return {
            **self.counts,
            "matters": [{"clique": list(clique), "result": self.verdict(clique)} for clique in self.matters],
            "not_measured": [
                {"pair": list(pair), "state": state, "estimated_loss": error}
                for pair, state, error in self.not_measured(MOST_IN_JSON)
            ],
        }


MOST_IN_JSON = 1000
"""The largest number of pairs in the JSON form."""


def _reason(released: Any) -> str:
    """Return the reason why a result may lack a marginal that matters."""
    if getattr(released, "interrupted", False):
        return "the run was ended early"
    limited = hasattr(getattr(released, "mechanism", None), "max_cells")
    return "the budget or the size limits of the model left it out" if limited else NOISE
