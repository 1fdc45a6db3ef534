"""PGM: the mechanism that decides from its own answers what to ask next, and how finely."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pgmest._base.errors import ArgumentError, at_least
from pgmest.inference.support.support import Support
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.mechanisms.parameters import COUNT, MEGABYTES, SHARE, Check, number, parameter
from pgmest.mechanisms.pgm.evidence import Evidence
from pgmest.mechanisms.pgm.first import FirstQuestions
from pgmest.mechanisms.pgm.grouped_model import GroupedModel, with_guesses
from pgmest.mechanisms.pgm.interest import Interest
from pgmest.mechanisms.pgm.offers import Prices
from pgmest.mechanisms.pgm.plan import Plan, planned, report_of
from pgmest.mechanisms.pgm.public import PublicTables, checked_prior
from pgmest.mechanisms.pgm.refinement import refined_records
from pgmest.mechanisms.pgm.rounds import Rounds, evidence_of
from pgmest.mechanisms.pgm.scorer import COARSE_LEVEL
from pgmest.mechanisms.pgm.scores import scores_stddev
from pgmest.mechanisms.pgm.weighting import weighted_records
from pgmest.mechanisms.result import Outcome
from pgmest.models.support import SupportModel
from pgmest.privacy.curator import Curator
from pgmest.privacy.neighbors import AddRemove
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Domain, as_domain

PART = number("a number from 0 to 1", lambda value: 0 <= value <= 1)

MOST_RECORDS, MOST_CODES = 1_000_000, 300_000_000
"""There is a weighted record for each private one, but no more than this, and no fewer than asked for: pairs that were
not measured have the error of so many draws."""


@dataclass(frozen=True, kw_only=True)
class PGM(Mechanism):
    r"""Buys what lowers the expected error most, in a few rounds, and fits records to all of it.

    1. The share `first` of the budget goes to one-way marginals and the number of records. They are estimated by
       empirical Bayes, of all codes and of neighboring ones, and tell how finely an attribute can be measured: its
       codes are grouped into ranges of about equal mass, in nested levels.
    2. In each of `rounds` rounds, for `scoring` of the budget in all, noisy scores tell how far the model so far is
       from each pair of attributes that was not measured, over coarse groups and over all codes. With scores of earlier
       rounds, less what errors and chance explain, they say how much dependence is likely, by empirical Bayes.
    3. From scores, one-way marginals and noise follows the error that each marginal would have at each price; pairs are
       measured over groups as fine as the price can bear. The budget is shared so that the sum of the expected errors
       of all pairs is least. A pair is bought only if at least the part `worth` of its error goes away. In the first
       round, of these, those along a tree; in the middle ones the stronger half; in the last all that pay, and what was
       bought before gets as much again as it should have had.
       Where measuring all pairs costs no more than scores do, as with binary attributes, that is done instead.
    4. Each noisy table is shrunk as far as its noise demands (a mixture of priors, weighted by their risk), towards
       independence or what a model of other pairs expects, whichever has the smaller risk. Those with most dependence
       are fitted by a junction tree within `base_megabytes`; `records` records of it get weights that bring them close
       to all tables. As many records as the table has are drawn of them, and changed code by code until they have all
       tables, whether a junction tree could hold them or not. These records are the model.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["age", "sex", "income>50K", "relationship"])
    >>> result = PGM(epsilon=1.0, delta=1e-9, backend="simulation").fit(data, seed=0)
    >>> result.ledger.remaining / result.ledger.budget < 1e-9
    True

    With a workload the pairs inside its cliques matter, each as often as it occurs, times the clique's weight;
    attributes that it does not name are uniform.

    Args:
        first: the share of the budget for the first one-way marginals.
        scoring: the share for the scores of all rounds.
        rounds: how many.
        worth: see above, between 0 and 1.
        base_megabytes: the largest junction tree, 8 bytes a cell.
        records: the least number of weighted records; of larger tables as many as they have, up to a million.
        prior: a public table over the same attributes, a model of one (`pgmest.Model`, a `Support`), or log-potentials.
            Its one-way marginals and the dependence in its pairs are taken where the paid answers say that they are
            nearer to the private ones than what is assumed otherwise; `Result.details["believed"]` has these pairs.

    Raises:
        ArgumentError: a parameter out of its range.
    """

    first: float = parameter(0.12, SHARE)
    scoring: float = parameter(0.04, SHARE)
    rounds: int = parameter(3, COUNT)
    worth: float = parameter(0.4, PART)
    base_megabytes: float = parameter(8.0, MEGABYTES)
    records: int = parameter(50_000, COUNT)
    prior: Any = parameter(
        None, Check("a public Dataset, a model of one, a CliqueVector of log-potentials, or None", checked_prior)
    )

    definition: ClassVar[str] = "either"
    gaussian_only: ClassVar[bool] = True
    delta_by_name: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.first + self.scoring < 1:
            raise ArgumentError.of("scoring", self.scoring, f"less than the {1 - self.first:g} that first= leaves")

    def run(self, curator: Curator, workload: Any, rng: np.random.Generator) -> Outcome:
        rounds = Rounds.start(self, curator, workload)
        rounds.spend_all()
        purchases = tuple(rounds.purchases)
        details = {
            "purchases": purchases,
            "believed": rounds.believed,
            "report": report_of(purchases, len(rounds.believed) if self.prior is not None else None),
        }
        return Outcome(self._model(curator, rounds.evidence, rng), details)

    def plan(self, domain: Domain | Mapping[str, int], records: int, workload: Any = None) -> Plan:
        """What the budget can carry on a table of so many records: print it. It spends nothing and sees no data.

        >>> plan = PGM(epsilon=1.0, delta=1e-9).plan({"age": 85, "sex": 2, "income": 2}, records=48_842)
        >>> plan.independent_only, round(plan.one_way_errors["age"], 3)
        (False, 0.004)

        Args:
            domain: the attributes.
            records: how many records there may be, from public knowledge.
            workload: as for `fit`.

        Raises:
            ArgumentError, UnknownAttributeError: an argument that cannot be used.
        """
        known = as_domain(domain)
        count = at_least("records", records, 1)
        interest = Interest.of(known, workload)
        pairs, prices = interest.pairs, Prices.of(self.budget(), self.neighbors)
        whole = self.first if pairs or interest.about_ranges else 1.0
        first = FirstQuestions.of(known, interest, prices, whole, total_known=not isinstance(self.neighbors, AddRemove))
        spend = self.budget() * (self.scoring / (self.rounds + bool(interest.triples)))
        stddev = scores_stddev(2 * max(1, len(pairs)), spend, self.neighbors)
        return planned(count, [*pairs, *interest.triples], first, stddev, self.worth, COARSE_LEVEL)

    def conclude(self, curator: Curator) -> Any:
        """The model of what was measured."""
        if not curator.measurements:
            raise KeyboardInterrupt
        evidence = evidence_of(curator, PublicTables.of(self.prior, curator.domain))
        return self._model(curator, evidence, np.random.default_rng(0))

    def _model(self, curator: Curator, evidence: Evidence, rng: np.random.Generator) -> SupportModel:
        evidence = with_guesses(evidence, self.base_megabytes)
        model = GroupedModel.of(evidence, self.base_megabytes)
        most = min(MOST_RECORDS, MOST_CODES // max(1, len(curator.domain)))
        count = max(self.records, min(most, round(model.evidence.total)))
        rules = curator.structural_zeros
        weighted = weighted_records(model, count, rules, rng)
        records = refined_records(weighted, model, rules, rng)
        return SupportModel(Support(records), CliqueVector.zeros(records.domain, []), model.evidence.total)
