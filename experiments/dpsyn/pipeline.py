"""DPSyn's pipeline (sections 5.3 to 5.5): recode, choose the noise, measure, make consistent, synthesize, undo.

Everything that looks at the records asks the curator, and all of it is paid from one budget.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.dpsyn.design import Design
from pgmest.data.dataset import Dataset
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.privacy import GDP, Curator, Epsilon, Ledger, best_noise
from pgmest.privacy.allocation import least_error_weights
from pgmest.solvers.total import estimate_total
from pgmest.synthesis import GradualUpdate, MinCostFlow, consistent_tables, synthesize
from pgmest.synthesis.gum import Callback
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor
from pgmest.transforms import Transform, learn_mapping, merge_and_compress, rare_values

DEVIATIONS, LEAST_COUNT = 4.5, 800
"""Values are rare below max(4.5 sigma, 800) (section 5.3)."""

ENGINEERING = 0.25
"""The share of the budget that the recoding costs: mappings, combined attributes and one-way marginals."""


@dataclass(frozen=True, eq=False)
class Measured:
    """The measurements, and the transform that undoes the recoding.

    Attributes:
        tables: after the recoding: they agree, and are not negative.
        transforms: in the order in which they were made.
        total: the estimated number of records.
        noise: "laplace" or "gaussian".
        ledger: what was paid.
        design: of the recoding.
    """

    tables: list[Factor]
    transforms: list[Transform]
    total: float
    noise: str
    ledger: Ledger
    design: Design

    def records(
        self, method: str | GradualUpdate | MinCostFlow, seed: int, callback: Callback | None = None
    ) -> Dataset:
        """Synthetic records, as many as were estimated, over the attributes before the recoding."""
        domain = self.transforms[-1].after
        made = synthesize(self.tables, domain, max(1, round(self.total)), method=method, seed=seed, callback=callback)
        rng = np.random.default_rng(seed)
        for transform in reversed(self.transforms):
            made = transform.decode(made, rng)
        return made


def measure(data: Dataset, design: Design, epsilon: float, delta: float, seed: int) -> Measured:
    """Sections 5.3 and 5.4: recode, and measure what the design says, with the noise that is least for so many."""
    wanted = design.marginals(epsilon)
    count = len(wanted) + len(data.domain) + len(design.learned) + len(design.combined)
    noise = best_noise(count, epsilon, delta).noise
    budget = Epsilon(epsilon) if noise == "laplace" else GDP.of(epsilon, delta)
    first = Curator(data, budget, backend="simulation", seed=seed)
    recoding = Recoding(first, design)
    recoding.run()
    curator = recoding.curator
    weights = least_error_weights(curator.domain, wanted, type(budget))
    marginals = curator.measure_all(wanted, curator.remaining, weights=weights)
    everything = recoding.reduced(curator.domain.attributes) + list(marginals)
    total = estimate_total(everything, curator.domain).value
    tables = consistent_tables(everything, curator.domain, total=total, rounds=30)
    return Measured(tables, recoding.transforms, total, noise, first.ledger, design)


class Recoding:
    """The recoding of one run, step by step; each step is a transform, and later ones see what it made."""

    def __init__(self, curator: Curator, design: Design):
        self.curator, self.design = curator, design
        self.transforms: list[Transform] = []
        self._measured: list[LinearMeasurement] = []
        steps = len(design.learned) + len(design.combined) + 2
        self._step = curator.budget * (ENGINEERING / steps)

    def run(self) -> None:
        """Learn, combine, compress."""
        for name, of in self.design.learned.items():
            self._apply(learn_mapping(self.curator, self._step, name, of))
        for name, attributes in self.design.combined.items():
            self._combine(name, attributes)
        self._compress()

    def reduced(self, attributes: Clique) -> list[LinearMeasurement]:
        """The one-way marginals that the recoding has paid for, after it."""
        return [measurement for measurement in self._measured if set(measurement.clique) <= set(attributes)]

    def _combine(self, name: str, attributes: Clique) -> None:
        made = merge_and_compress(
            self.curator, self._step, attributes, name, threshold=DEVIATIONS, at_least=LEAST_COUNT, drop=True
        )
        whole = self.curator.measurements[-1]
        self._apply(made)
        self._measured.append(made.push(whole))

    def _compress(self) -> None:
        """One-way marginals of all attributes that have none yet, and rare values put together."""
        known = {name for measurement in self._measured for name in measurement.clique}
        cliques = [(name,) for name in self.curator.domain if name not in known]
        weights = least_error_weights(self.curator.domain, cliques, type(self.curator.budget))
        one_way = self.curator.measure_all(cliques, self._step * 2, weights=weights)
        many = [measurement for measurement in one_way if measurement.clique[0] not in self.design.whole]
        made = rare_values(self.curator.domain, many, DEVIATIONS, at_least=LEAST_COUNT, drop=True)
        self._apply(made)
        self._measured += [made.push(measurement) for measurement in one_way]

    def _apply(self, transform: Transform) -> None:
        self.transforms.append(transform)
        self.curator = self.curator.through(transform)
