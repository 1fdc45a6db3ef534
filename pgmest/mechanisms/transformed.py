"""Transformed: any mechanism on recoded records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.mechanisms.estimation import lifted
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.mechanisms.parameters import Check, check_parameters, instance, number, parameter
from pgmest.mechanisms.result import Outcome
from pgmest.models.exact import Model
from pgmest.privacy.budgets import GDP, Budget, Epsilon, Rho
from pgmest.privacy.curator import Curator
from pgmest.privacy.neighbors import AddRemove, Neighbors
from pgmest.queries.workloads import Item, Workload
from pgmest.transforms.transform import Transform

Step = Callable[[Curator, Budget], Transform]
"""Makes a transform, and may measure with a curator for no more than the budget it is given."""


def _steps(value: Any) -> tuple[Step, ...]:
    steps = tuple(value)
    if not all(callable(step) for step in steps):
        raise TypeError
    return steps


STEPS = Check("functions of a curator and a budget, such as transforms.compress_rare", _steps)


@dataclass(frozen=True, kw_only=True)
class Transformed(Mechanism):
    """Recode the records, run a mechanism on them, and undo the recoding in its model.

    The steps are made one after the other, each of the records that the last one made; together they get `share` of
    the budget, what they leave of it goes to the mechanism. The budget is that of the mechanism inside; the backend and
    the neighboring relation may be stated here or there, and hold for both.

    >>> import pgmest as pg
    >>> from pgmest import transforms
    >>> data = pg.datasets.load("census").select(["age", "native-country", "income>50K"])
    >>> inside = pg.mechanisms.MST(epsilon=1.0, delta=1e-9, backend="simulation", threshold=float("-inf"))
    >>> result = Transformed(mechanism=inside, steps=[transforms.compress_rare], share=0.2).fit(data, seed=0)
    >>> result.model.domain == data.domain
    True

    Args:
        mechanism: what runs on the recoded records; its model must be a `pgmest.Model`. It states the budget.
        steps: functions of a curator and a budget, such as `transforms.compress_rare`; of public ones for example
            `lambda curator, spend: transforms.merge(curator.domain, ("county", "state"), "place")`.
        share: the part of the budget that the steps may spend; 0 where they are public.

    Raises:
        ArgumentError: no mechanism, a share outside 0 to 1, a budget stated here, too, two backends or relations, or
            structural zeros stated for the mechanism inside: they are given here, in terms of the attributes before
            the steps.
    """

    mechanism: Mechanism | None = parameter(None, instance(Mechanism, "a mechanism, such as pg.mechanisms.MST(...)"))
    steps: Sequence[Step] = parameter((), STEPS)
    share: float = parameter(0.1, number("at least 0 and below 1", lambda value: 0 <= value < 1))

    definition: ClassVar[str] = "either"

    def __post_init__(self) -> None:
        check_parameters(self)
        if self.accounting != "auto" or self.inside.accounting == "pld":
            raise ArgumentError(
                'Transformed has the accounting of its mechanism, which cannot be "pld": the plan is of the attributes '
                'after the steps, and they have costs of their own. Use "gdp".'
            )
        if (self.epsilon, self.delta, self.rho) != (None, None, None):
            raise ArgumentError("Transformed has the budget of its mechanism: state epsilon, delta or rho there.")
        if self.inside.structural_zeros:
            raise ArgumentError("give structural_zeros to Transformed, in terms of the attributes before its steps.")
        super().__post_init__()
        for name, unstated in (("backend", "opendp"), ("neighbors", AddRemove())):
            self._agree(name, unstated)

    def _agree(self, name: str, unstated: object) -> None:
        """What is stated here or for the mechanism inside holds for both."""
        here, there = getattr(self, name), getattr(self.inside, name)
        if here != there and unstated not in (here, there):
            raise ArgumentError.of(name, here, f"what its mechanism has, {there}, or stated in one of the two places")
        stated = there if here == unstated else here
        object.__setattr__(self, name, stated)
        object.__setattr__(self, "mechanism", replace(self.inside, **{name: stated}))

    @property
    def inside(self) -> Mechanism:
        """The mechanism."""
        assert self.mechanism is not None
        return self.mechanism

    def budget(self) -> Epsilon | Rho | GDP:
        """That of the mechanism."""
        return self.inside.budget()

    def check_budget(self) -> None:
        """The mechanism inside has checked it."""

    def with_neighbors(self, neighbors: Neighbors) -> Transformed:
        """The same around a mechanism with another neighboring relation."""
        return replace(self, neighbors=neighbors, mechanism=self.inside.with_neighbors(neighbors))

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        made: list[tuple[Curator, Transform]] = []
        recoded = curator
        for step, spend in zip(self.steps, self._shares(curator), strict=True):
            transform = step(recoded, spend)
            made.append((recoded, transform))
            recoded = recoded.through(transform)
            if workload is not None:  # of the marginals' attributes; a query of their codes would be another one
                workload = Workload(tuple(Item(transform.clique(i.clique), None, i.weight) for i in workload))
        inner = self.inside.run(recoded, workload, rng)
        outcome = inner if isinstance(inner, Outcome) else Outcome(inner)
        model = outcome.model
        if not isinstance(model, Model):
            raise ArgumentError.of("mechanism", type(self.inside).__name__, "one whose model is a pgmest.Model")
        for before, transform in reversed(made):
            model = lifted(before, transform, model)
        return replace(outcome, model=model)

    def _shares(self, curator: Curator) -> list[Budget]:
        return (curator.budget * self.share).split(len(self.steps)) if self.steps else []
