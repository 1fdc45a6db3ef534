"""Transformed: a mechanism that runs another mechanism on recoded records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.mechanisms.estimation import lifted
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.mechanisms.one_code import seen_by_run, without_names
from pgmest.mechanisms.parameters import Check, check_parameters, instance, number, parameter
from pgmest.mechanisms.prepared_run import PreparedRun
from pgmest.mechanisms.result import Outcome
from pgmest.models.exact import Model
from pgmest.models.one_code import with_constants
from pgmest.privacy.budgets import GDP, Budget, Epsilon, Rho
from pgmest.privacy.curator import Curator
from pgmest.privacy.neighbors import AddRemove, Neighbors
from pgmest.tables.domain import Clique, Domain
from pgmest.transforms.transform import Transform
from pgmest.workloads import Workload

Step = Callable[[Curator, Budget], Transform]
"""A function that returns a transform; it can ask the curator for at most the given budget."""


def _steps(value: Any) -> tuple[Step, ...]:
    steps = tuple(value)
    if not all(callable(step) for step in steps):
        raise TypeError
    return steps


STEPS = Check("functions of a curator and a budget, such as transforms.compress_rare", _steps)


@dataclass(frozen=True, kw_only=True)
class Transformed(Mechanism):
    """Recode the records, run a mechanism on them, and undo the recoding in its model.

    Each step recodes the records of the previous step. Together the steps get `share` of the budget; the mechanism gets
    the rest, and what the steps have not spent. The mechanism inside states the budget. The backend and the neighboring
    relation can be stated for either of the two, and hold for both.

    >>> import pgmest as pg
    >>> from pgmest import transforms
    >>> data = pg.datasets.load("census").select(["age", "native-country", "income>50K"])
    >>> inside = pg.mechanisms.MST(epsilon=1.0, delta=1e-9, backend="simulation", threshold=float("-inf"))
    >>> result = Transformed(mechanism=inside, steps=[transforms.compress_rare], share=0.2).fit(data, seed=0)
    >>> result.model.domain == data.domain
    True

    Args:
        mechanism: the mechanism with its budget, which runs on the recoded records; its model must be a `pgmest.Model`.
        steps: functions of a curator and a budget, such as `transforms.compress_rare`. A public step ignores the
            budget: `lambda curator, spend: transforms.merge(curator.domain, ("county", "state"), "place")`.
        share: the share of the budget that the steps can spend; 0 if all steps are public.

    Raises:
        ArgumentError: if there is no mechanism, the share is outside 0 to 1, the budget is stated here, too, two
            different backends or relations are stated, or structural zeros are stated for the mechanism inside. They
            belong here, in terms of the attributes before the steps.
    """

    mechanism: Mechanism | None = parameter(None, instance(Mechanism, "a mechanism, such as pg.mechanisms.MST(...)"))
    steps: Sequence[Step] = parameter((), STEPS)
    share: float = parameter(0.1, number("at least 0 and below 1", lambda value: 0 <= value < 1))

    definition: ClassVar[str] = "either"

    def __post_init__(self) -> None:
        check_parameters(self)
        if (self.epsilon, self._delta(), self.rho) != (None, None, None):
            raise ArgumentError(
                "Transformed has the budget of its mechanism: give epsilon=, delta= or rho= to the mechanism."
            )
        if self.inside.structural_zeros:
            raise ArgumentError("give structural_zeros to Transformed, in terms of the attributes before its steps.")
        if self.inside.invariants:
            raise ArgumentError("give invariants to Transformed, in terms of the attributes before its steps.")
        super().__post_init__()
        for name, unstated in (("backend", "opendp"), ("neighbors", AddRemove())):
            self._agree(name, unstated)

    def _agree(self, name: str, unstated: object) -> None:
        """Take a parameter that is stated here or for the mechanism inside for both."""
        here, there = getattr(self, name), getattr(self.inside, name)
        if here != there and unstated not in (here, there):
            raise ArgumentError.of(name, here, f"what its mechanism has, {there}, or stated in one of the two places")
        stated = there if here == unstated else here
        object.__setattr__(self, name, stated)
        object.__setattr__(self, "mechanism", replace(self.inside, **{name: stated}))

    @property
    def inside(self) -> Mechanism:
        """The mechanism inside."""
        assert self.mechanism is not None
        return self.mechanism

    def budget(self) -> Epsilon | Rho | GDP:
        """Return the budget of the mechanism inside."""
        return self.inside.budget()

    def with_neighbors(self, neighbors: Neighbors) -> Self:
        """Return a copy with another neighboring relation, also for the mechanism inside."""
        return replace(self, neighbors=neighbors, mechanism=self.inside.with_neighbors(neighbors))

    @property
    def graphical(self) -> bool:
        return self.inside.graphical

    @property
    def title(self) -> str:
        return f"{type(self).__name__}({self.inside.title})"

    @property
    def used(self) -> str:
        return self.inside.used

    def sees(self, domain: Domain) -> Clique:
        """Return all attributes, which steps may name; the mechanism inside sees those of several codes."""
        return domain.attributes

    def covering_workload(self, domain: Domain, workload: Workload) -> Workload:
        return self.inside.covering_workload(domain.project(self.inside.sees(domain)), workload)

    @property
    def requested(self) -> tuple[float | None, float | None]:
        return self.inside.requested

    def with_rho(self, rho: float) -> Transformed:
        return replace(self, mechanism=self.inside.with_rho(rho))

    def with_share(self, share: float) -> Transformed:
        return replace(self, mechanism=self.inside.with_share(share))

    def _prepared(self, *arguments: Any) -> PreparedRun:
        if not self.graphical:
            raise ArgumentError.of("mechanism", self.inside.title, "one whose model is a pgmest.Model")
        return super()._prepared(*arguments)

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        made: list[tuple[Curator, Transform]] = []
        recoded = curator
        for step, spend in zip(self.steps, self._shares(curator), strict=True):
            transform = step(recoded, spend)
            made.append((recoded, transform))
            recoded = recoded.through(transform)
            if workload is not None:  # marginals only: after recoding, a query matrix would not fit the codes
                workload = Workload(tuple(replace(i, clique=transform.clique(i.clique), query=None) for i in workload))
        inside, names = self.inside.without_constants(recoded.domain), self.inside.sees(recoded.domain)
        workload = None if workload is None else without_names(recoded.domain, workload, names)
        inner = inside.run(seen_by_run(recoded, names), workload, rng)
        outcome = inner if isinstance(inner, Outcome) else Outcome(inner)
        model = with_constants(outcome.model, recoded.domain)
        if not isinstance(model, Model):
            raise ArgumentError.of("mechanism", type(self.inside).__name__, "one whose model is a pgmest.Model")
        for before, transform in reversed(made):
            model = lifted(before, transform, model)
        return replace(outcome, model=model)

    def _shares(self, curator: Curator) -> list[Budget]:
        return (curator.budget * self.share).split(len(self.steps)) if self.steps else []
