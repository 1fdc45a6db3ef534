"""LAMP (least-error adaptive marginal purchases): the mechanism's parameters, its steps, and its model.

`Rounds` measures marginals, `Evidence` turns the noisy answers into consistent tables, and `LAMP._model` fits records
to those tables.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pgmest._base.stages import ending_in, stage, time_left
from pgmest.errors import ArgumentError
from pgmest.inference.exact.structural_zeros import excluded_cells
from pgmest.measurements.known_errors import KnownErrors
from pgmest.mechanisms.held_records import known_tables, model_with_invariants
from pgmest.mechanisms.kept_pairs import LOST
from pgmest.mechanisms.lamp.emphasis import measure_emphasized, remaining_dependence
from pgmest.mechanisms.lamp.evidence import Evidence, evidence_of, total_of
from pgmest.mechanisms.lamp.grouped_model import GroupedModel, cross_fitted
from pgmest.mechanisms.lamp.possible_cells import PossibleCells
from pgmest.mechanisms.lamp.public_tables import PublicTables, checked_prior
from pgmest.mechanisms.lamp.records import refined_records, weighted_records
from pgmest.mechanisms.lamp.rounds import Rounds
from pgmest.mechanisms.lamp.scored_rounds import measurement_report
from pgmest.mechanisms.lamp.tree_order import OrderedCurator, TreeOrder
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.mechanisms.parameters import COUNT, MEGABYTES, SHARE, Check, number, parameter
from pgmest.mechanisms.rehearsal import RehearsedPlan, rehearse
from pgmest.mechanisms.result import Outcome
from pgmest.models.support import SupportModel
from pgmest.privacy.curator import Curator
from pgmest.tables.domain import Clique, Domain, as_domain

FRACTION = number("a number from 0 to 1", lambda value: 0 <= value <= 1)

MOST_RECORDS, MOST_CODES = 1_000_000, 300_000_000
"""The largest number of weighted records, and of codes in all of them together: both bound memory. Below these limits
there is a weighted record for each private one, since pairs that were not measured have the sampling error of the
weighted records."""

MODELS = 4
"""The number of times that fitting a model takes to cross-fit the evidence and fit again."""


@dataclass(frozen=True, kw_only=True)
class LAMP(Mechanism):
    r"""Measure, in a few rounds, the marginals that lower the expected error of a workload most; fit records to them.

    LAMP is short for *least-error adaptive marginal purchases*: LAMP chooses the marginals, and divides the budget
    among them, such that the expected error of the workload is minimal.

    1. **One-way marginals.** The share `first_share` of the budget measures the one-way marginals and the number of
       records. Empirical Bayes estimates the counts (`one_way`). The codes of each attribute are grouped into ranges of
       about equal mass, in nested levels (`groups`), so that pairs can be measured coarsely or finely.
    2. **Scores.** `scoring_share` of the budget, divided among the rounds, releases noisy l1 distances between the
       current model and the data, for each pair that is not yet measured, over coarse groups and over all codes.
       Empirical Bayes turns distances into estimates of the dependence that the model lacks (`dependence`).
    3. **Allocation.** Dependence, one-way marginals and noise determine the expected error of each marginal as a
       function of its share of the budget (`candidates`). The shares minimize the sum of the expected errors of all
       workload items (`allocation`). A pair is measured only if this lowers its error by the fraction
       `min_error_reduction` or more. The first round measures those pairs that form a spanning forest of the strongest
       dependence, the middle rounds the stronger half, and the last round all of them; the last round also measures
       triples of the workload, whose share is kept until then, and earlier marginals again where that lowers the
       error. Where measuring all pairs leaves no more error than the noise of scores, as it does for binary attributes,
       all pairs are measured without scores. Where the noise in the scores of all pairs would exceed a total variation
       of 0.05, the one-way marginals are measured again first, the exponential mechanism selects the pairs to score
       (`screening`), and the dependence of an item adds to its importance, so that strong dependence survives a small
       budget.
    4. **Model.** Each noisy table is shrunk by a mixture of priors (`mixture`), towards independence or towards the
       prediction of a model of other pairs, whichever has the smaller estimated risk (`cross_fitting`). A junction tree
       of at most `max_megabytes` holds the most dependent tables (`grouped_model`). Its records are reweighted to
       match all tables (`raked`), then as many records as the data has are drawn and changed code by code until they
       match all tables as closely as possible (`refined_records`). These records are the model.

    Its parts come from: Zhang et al. 2021 (PrivSyn: noisy distances from independence; cheaper here, since the model
    is already released); Xiao, He, Zhang and Kifer 2023 (ResidualPlanner: measuring interactions rather than counts);
    Kiefer and Wolfowitz 1956, Jiang and Zhang 2009, and Stephens 2017 (empirical Bayes); Stein 1981 (unbiased estimates
    of risk); Leung and Barron 2006 (mixtures of estimates weighted by risk); McKenna, Sheldon and Miklau 2019 (PGM: the
    graphical model); Deming and Stephan 1940 (raking).

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["age", "sex", "income>50K", "relationship"])
    >>> result = LAMP(epsilon=1.0, delta=1e-9, backend="simulation").fit(data, seed=0)
    >>> result.ledger.remaining / result.ledger.budget < 1e-9
    True

    With structural zeros, pairs are compared with and shrunk towards the tables that the zeros and the one-way
    marginals imply, instead of independence, and no step makes an impossible record (`possible_cells`). Zeros whose
    junction tree exceeds half of `max_megabytes` are left out of the models. Records that violate them are rejected
    instead, which can change marginals; `Result.details["rejected_zeros"]` lists these zeros.

    With invariants, their one-way marginals, pairs and triples count as answers without noise, and the last records are
    changed, as few as possible, until they hold the invariants in whole numbers (`held_records`).

    If the domain has hierarchies, the codes of an attribute are put in the order of its tree, so that groups do not
    straddle branches; the counts of all levels are measured together, and those of the codes of a branch are shrunk
    towards each other where that lowers the estimated risk (`tree_counts`). `Result.details["not_distinguished"]` lists
    the branches whose codes differ by no more than noise explains: their codes have even shares, or those of `prior`.

    Without a workload all pairs matter equally. A tree then changes no weights: coarser levels only decide over which
    groups a pair is measured, and all measurements together pay for the counts of branches. Triples at coarse levels,
    such as ("district@state", "age", "income"), are measured if the workload asks for them. Of attributes that a
    workload does not name, the one-way marginals matter.

    Args:
        first_share: The share of the budget for the first one-way marginals and the number of records.
        scoring_share: The share of the budget for the scores of all rounds together.
        rounds: The number of rounds after the first one-way marginals.
        min_error_reduction: The least fraction of a pair's expected error, from 0 to 1, that measuring it must remove.
        max_megabytes: The largest size of the junction tree's tables, at 8 bytes a cell.
        records: The least number of weighted records. Larger datasets use as many as they have, up to a million.
        prior: A public table over the same attributes, a model of one (`pgmest.Model` or a `Support`), or
            log-potentials. LAMP uses its one-way marginals, and the dependence of its pairs, only where the measured
            answers indicate that they are closer to the private ones than the estimate without a public table.
            `Result.details["public_pairs"]` lists these pairs.

    Raises:
        ArgumentError: A parameter is out of its range.
    """

    first_share: float = parameter(0.12, SHARE)
    scoring_share: float = parameter(0.04, SHARE)
    rounds: int = parameter(3, COUNT)
    min_error_reduction: float = parameter(0.4, FRACTION)
    max_megabytes: float = parameter(8.0, MEGABYTES)
    records: int = parameter(50_000, COUNT)
    prior: Any = parameter(
        None, Check("a public Dataset, a model of one, a CliqueVector of log-potentials, or None", checked_prior)
    )

    definition: ClassVar[str] = "either"
    gaussian_curve: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.first_share + self.scoring_share < 1:
            allowed = f"less than {1 - self.first_share:g}, which first_share= leaves"
            raise ArgumentError.of("scoring_share", self.scoring_share, allowed)

    def run(self, curator: Curator, workload: Any, rng: np.random.Generator) -> Outcome:
        order = TreeOrder.of(curator.domain)
        rounds = Rounds.start(self, order.curator(curator), workload)
        measure_emphasized(rounds)
        rounds.spend_all()
        public_pairs = None if self.prior is None else len(rounds.public_pairs)
        whole = 2 * rounds.evidence.total
        lost = {c: d.systematic / whole for c, d in rounds.dependence.items() if c not in rounds.level_of}
        details = {
            "measured_marginals": tuple(rounds.measured_marginals),
            "public_pairs": rounds.public_pairs,
            LOST: {clique: min(1.0, distance) for clique, distance in lost.items()},
            "report": measurement_report(rounds.measured_marginals, public_pairs),
        }
        if isinstance(rounds.curator, OrderedCurator):
            details["not_distinguished"] = not_distinguished(rounds.evidence, rounds.curator.order)
        if rounds.possible is not None and rounds.possible.others:
            details["rejected_zeros"] = tuple(map(repr, rounds.possible.others))
        model = self._model(rounds.curator, rounds.evidence, rng)
        return Outcome(with_known(model, curator, remaining_dependence(rounds)), details)

    def plan(
        self, domain: Domain | Mapping[str, int], records: int, workload: Any = None, *, quick: bool = False
    ) -> RehearsedPlan:
        """Return what the budget can achieve on a table of a given size, before any data is seen; print the result.

        The plan is a rehearsal on made-up records (`pgmest.mechanisms.rehearsal`), which takes as long as some runs.
        It spends no budget.

        >>> plan = LAMP(epsilon=1.0, delta=1e-9).plan({"age": 85, "sex": 2, "income": 2}, records=5000, quick=True)
        >>> [table.clique for table in plan.columns]
        [('age',), ('sex',), ('income',)]

        Args:
            domain: The attributes.
            records: An assumed number of records, from public knowledge.
            workload: The workload, as for `fit`.
            quick: Whether to rehearse once, for some seconds, and to look for no changes that would help.

        Raises:
            ArgumentError, UnknownAttributeError: An argument is invalid.
        """
        return rehearse(self, as_domain(domain), records, workload, quick=quick)

    @property
    def graphical(self) -> bool:
        return False

    @property
    def holds_invariants(self) -> bool:
        return True

    def conclude(self, curator: Curator) -> Any:
        """Return the model of what was measured before an interruption."""
        if not curator.measurements and not curator.invariants:
            return None
        order = TreeOrder.of(curator.domain)
        seen = order.curator(curator)
        possible = PossibleCells.of(seen.domain, seen.structural_zeros, self.max_megabytes)
        public = order.tables(PublicTables.of(self.prior, curator.domain))
        evidence = evidence_of(seen, public, possible=possible)
        return with_known(self._model(seen, evidence, np.random.default_rng(0)), curator, {})

    def _model(self, curator: Curator | OrderedCurator, evidence: Evidence, rng: np.random.Generator) -> SupportModel:
        stage("fitting the model")
        with ending_in(time_left() / 2):
            model = self._fitted(evidence)
        most = min(MOST_RECORDS, MOST_CODES // max(1, len(curator.domain)))
        count = max(self.records, min(most, round(model.evidence.total)))
        stage("weighting records")
        with ending_in(time_left() / 2):
            weighted = weighted_records(model, count, rng)
        stage("refining records")
        records = refined_records(weighted, model, curator.structural_zeros, rng)
        if isinstance(curator, OrderedCurator):
            records, curator = curator.order.restored(records), curator.curator
        return model_with_invariants(records, model.evidence.total, curator, rng)

    def _fitted(self, evidence: Evidence) -> GroupedModel:
        """Return the model of the cross-fitted evidence; without cross-fitting if there is no time for it."""
        if math.isfinite(time_left()):
            started = time.perf_counter()
            model = GroupedModel.of(evidence, self.max_megabytes)
            if time_left() < MODELS * (time.perf_counter() - started):
                return model
        return GroupedModel.of(cross_fitted(evidence, self.max_megabytes), self.max_megabytes)


def not_distinguished(evidence: Evidence, order: TreeOrder) -> dict[str, tuple[str, ...]]:
    """Return, for each attribute with a tree, the branches of the lowest level whose codes have even shares.

    Noise hides the differences between their codes, or those from the public table, whose shares they then have.
    """
    found = {}
    for name, distinguished in evidence.distinguished().items():
        tree = order.domain.hierarchies[name]
        lowest = tree.inner[-1]
        groups = tree.groups(lowest)[order.order(name)]
        first = np.unique(order.ordered.hierarchies[name].groups(lowest), return_index=True)[1][~distinguished]
        found[name] = tuple(tree.label(lowest, int(group)) for group in groups[first])
    return found


def with_known(model: SupportModel, curator: Curator, dependence: Mapping[Clique, float]) -> SupportModel:
    """Note the answers behind a model, and the estimated dependence of tables that were not measured, for intervals."""
    _, stddev = total_of(curator)
    error = stddev if math.isfinite(stddev) else model.total
    answers, records = (*known_tables(curator), *curator.measurements), max(model.total, 1.0)
    impossible = excluded_cells(curator.structural_zeros, curator.domain)
    return model.knows(KnownErrors(answers, error, dependence, records, impossible=impossible))
