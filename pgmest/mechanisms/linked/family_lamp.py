"""FamilyLAMP: the run of LinkedLAMP on one child table and its parent table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pgmest._base.stages import out_of_time
from pgmest.errors import ArgumentError
from pgmest.mechanisms.lamp.lamp import LAMP
from pgmest.mechanisms.linked.assembly import Assembly, Effort
from pgmest.mechanisms.linked.families import Families, Layout
from pgmest.mechanisms.linked.rounds import LinkedEvidence, LinkedRounds, Maker
from pgmest.mechanisms.linked.rules import FamilyRules
from pgmest.mechanisms.linked.size_limits import SizeLimits, size_limits
from pgmest.mechanisms.linked.zeros import possible_cells
from pgmest.mechanisms.result import Outcome
from pgmest.privacy.curator import Curator
from pgmest.privacy.neighbors import AddRemove, Neighbors
from pgmest.tables.domain import Clique, Domain
from pgmest.workloads import Workload

DRAFT = Effort(20_000, 1, 8)
"""The effort for families between rounds."""
BETTER = Effort(100_000, 1, 12)
"""The effort for the families from which the last ratios of averages to lengths are taken: where noise is small, the
ratios of few families would be the largest error."""
FINAL = Effort(None, 2, 12)
"""The effort for the families of the result."""

AGAIN, LAST = 2, Effort(None, 2, 4)
"""The number of times that the families of the result are changed to meet what the answers mean given these families,
and the effort."""


@dataclass(frozen=True, kw_only=True)
class FamilyLAMP(LAMP):
    """LAMP on families; the data must be a `FamilyDataset`.

    Attributes:
        layout: the attributes.
        rules: what holds in every family.
        neighbors: how many families one unit can add and remove (`AddRemove`), or change (`Change`).
    """

    layout: Layout = field(kw_only=True)
    rules: FamilyRules = field(kw_only=True)
    neighbors: Neighbors = field(default_factory=AddRemove)

    @property
    def title(self) -> str:
        return "LinkedLAMP"

    def sees(self, domain: Domain) -> Clique:
        return domain.attributes

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        if workload is not None:
            raise ArgumentError.of("workload", workload, "None: the tables of families are the workload")
        found = size_limits(curator, self.layout, self.rules.least)
        if not found:
            return self._outcome(curator, curator, rng)
        limits = SizeLimits(self.layout, found)
        limited = replace(self, layout=limits.limited, rules=limits.rules(self.rules))
        return limited._outcome(curator.through(limits), curator, rng)

    def _outcome(self, seen: Curator, curator: Curator, rng: np.random.Generator) -> Outcome:
        """Return the families that follow from the answers of a curator; `curator` may be stopped early."""
        possible = possible_cells(self.rules.zeros, self.layout, self.max_megabytes)
        rounds = LinkedRounds.begin(self, seen, self.layout, self._maker(DRAFT, rng), rng, possible)
        try:
            rounds.spend_all()
        except KeyboardInterrupt:  # Ctrl-C or the time limit: the families are made from the answers so far
            if not curator.stopped:
                raise
        families = self._families(rounds.linked, rng)
        model = replace(rounds.linked.model_of(families), scored=rounds.scored())
        return Outcome(model, {"measured_marginals": tuple(rounds.measured_marginals)})

    def _maker(self, effort: Effort, rng: np.random.Generator) -> Maker:
        assembly = Assembly(self.layout, self.rules, self.max_megabytes)
        return lambda linked, evidence: assembly.families(linked, evidence, effort, rng)

    def _families(self, linked: LinkedEvidence, rng: np.random.Generator) -> Families:
        """Return the families of the result."""
        evidence = linked.refreshed(self._maker(BETTER, rng))
        families = self._maker(FINAL, rng)(linked, evidence)
        assembly = Assembly(self.layout, self.rules, self.max_megabytes)
        for _ in range(0 if out_of_time() else AGAIN):
            families = assembly.improved(linked, families, LAST, rng)
        return families

    def conclude(self, curator: Curator) -> Any:
        """Return None: before the first round there is no model, and later `run` makes the families itself."""
        return None
