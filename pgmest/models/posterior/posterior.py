"""Posterior: draws of the models that the answers allow, and the answers of these draws to any query."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.analyses.sampled_tables import SampledTables, pairs_outside
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, at_least, plural
from pgmest.models.intervals import WHOLE, Interval, check_level
from pgmest.models.posterior.common_error import CommonError
from pgmest.models.posterior.density import PosteriorDensity
from pgmest.models.posterior.dependence import UnmeasuredDependence, multinomial_counts
from pgmest.models.posterior.diagnostics import r_hat
from pgmest.models.posterior.drawn_records import MOST_CELLS, records_of, table_records, weighted_records
from pgmest.models.posterior.drawn_tables import About, DrawnTables
from pgmest.models.posterior.prior import InteractionPrior, NormalPrior
from pgmest.models.posterior.report import BAD_R_HAT, GOOD_R_HAT, PosteriorReport, PosteriorWarning
from pgmest.models.posterior.strength import Strengths
from pgmest.models.posterior.unbiased import UnbiasedAnswers
from pgmest.models.refittable import AnsweringModel, MakeModel
from pgmest.models.table_query import (
    answer_table,
    attributes_of,
    has_whole_coefficients,
    is_names,
    on_attributes,
    weights_of,
)
from pgmest.models.uncertainty import ask
from pgmest.queries.levels import with_given_levels
from pgmest.sampling.facts import exact_facts
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.evidence import checked_evidence
from pgmest.tables.factor import Factor

if TYPE_CHECKING:
    from pgmest.measurements.selection import PaidSelection

SAMPLING: dict[About, str] = {"table": "round", "population": "multinomial"}
"""The methods of sampling."""
CERTAIN = 1e-10
"""Ends that are within this share of the number of records are those of an answer that exact answers determine."""


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    r"""Draws from $P(\theta, N \mid y)$: log-linear models of the measured cliques, each with its number of records.

    The likelihood is that of each measurement's own noise, the prior an `InteractionPrior`. `Model.posterior` makes it.

    An interval is about one of two things:

    - `about="table"`: the table that was measured. Inside a measured clique, only the noise makes its cells uncertain,
      and a draw's marginals are possible marginals of the table.
    - `about="population"`: the expected counts of tables of that many records from the same population, which are as
      far from the table as a sample is.

    For attributes that no measured clique contains together, a draw's own table is not enough: pairs of them may depend
    on each other in ways that were not measured. Such pairs are given interactions as strong as those of the measured
    cliques (`strengths`), and counts of N records are drawn around them. If a mechanism compared such pairs with its
    models and chose others, interactions that would rarely have lost become rare (`selections`). This assumes that
    unmeasured pairs are no more dependent than measured ones; `Model.bounds` assumes nothing.

    Args:
        points: theta minus base, the prior's log scales and the log total, shape (chains, draws, density.size).
        density: the density from which they were drawn.
        report: the diagnostics.
        make_model: builds a model from potentials, a total and a propagation plan.
        seed: the seed of the records and tables that are drawn around the models.
        learn: computes the strengths of the measured cliques' dependence, at the first use.
        selections: the marginals that a mechanism compared with its models and did not choose. Tables drawn for
            attributes that were not measured together are weighted by the probability that they would have lost.
    """

    points: np.ndarray
    density: PosteriorDensity
    report: PosteriorReport
    make_model: MakeModel
    seed: int = 0
    learn: Callable[[], Strengths] | None = None
    selections: tuple[PaidSelection, ...] = ()

    @cached_property
    def _draws(self) -> DrawnTables:
        flat = self.points.reshape(len(self), -1)
        return DrawnTables(flat, self.density, self.make_model, self.learn, self.selections)

    @property
    def strengths(self) -> Strengths | None:
        """The strengths of the measured cliques' dependence; None leaves unmeasured pairs as the models have them."""
        return self._draws.strengths

    @property
    def domain(self) -> Domain:
        """All attributes."""
        return self._draws.domain

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The measured cliques."""
        return self._draws.cliques

    @property
    def prior(self) -> NormalPrior | InteractionPrior:
        """The prior of potentials and total."""
        return self.density.prior

    def __len__(self) -> int:
        return self.points.shape[0] * self.points.shape[1]

    @property
    def totals(self) -> np.ndarray:
        """The numbers of records of the draws, shape (draws,)."""
        return self._draws.totals

    @property
    def total(self) -> float:
        """The posterior mean of the number of records."""
        return float(self.totals.mean())

    def models(self) -> Iterator[AnsweringModel]:
        """Yield the draws, chain after chain, as ordinary models."""
        return self._draws.models()

    # -- questions --------------------------------------------------------------------------------------------------

    def draws(
        self,
        query: Any,
        clique: Iterable[str] | str | None = None,
        given: Mapping[str, int] | None = None,
        *,
        about: About = "table",
    ) -> tuple[Domain, np.ndarray]:
        """Return the answer of every draw: its axes, and an array of shape (draws, *axes), in counts.

        Sums of many small cells are too certain here: `interval` adds the error that these cells may have in common.

        Args:
            query: as for `Model.answer`, but one query only; or attributes, for their marginal; or, with `clique=`, a
                function that makes a Factor or a number of a table of counts, a Factor over that clique, such as a
                mean, a ratio or a coefficient. Without `clique=`, a function of a Model, which lacks unmeasured
                dependence.
            clique, given: as for `Model.answer` and `Model.project`.
            about: "table" or "population"; see the class. A function of a model cannot be about the population: name
                its attributes by `clique=`.

        Raises:
            ArgumentError: `about` is neither, or cannot be answered.
            QueryError, UnknownAttributeError, ...: as for `Model.answer` and `Model.project`.
        """
        if about not in ("table", "population"):
            raise ArgumentError.of("about", about, ("table", "population"))
        if given and self.domain.names_levels(given):
            query, evidence, axes = with_given_levels(self.domain, query, clique, given)
            return axes, self.draws(query, None, evidence, about=about)[1].reshape(-1, *axes.shape)
        query, clique = on_attributes(self.domain, query, clique)
        names = attributes_of(query, clique, self.domain)
        if names is None:
            if about == "population":
                raise ArgumentError(
                    "a function of a model can only be about the table: for the population, name the attributes by "
                    "clique=, and make it a function of their table."
                )
            answers = [ask(model, query, clique, given) for model in self.models()]
        elif not given and self._draws.measured(names):
            domain, tables = self._draws.marginals(names)
            answers = self._answered(tables, domain, query, clique, about == "population")
        else:
            ordered = self.domain.ordered(names)  # so that the draws do not depend on the order
            tables = self._draws.around(ordered, given or {}, about, np.random.default_rng(self.seed))
            answers = [answer_table(table.project(names), query, clique) for table in tables]
        return answers[0].domain, np.stack([answer.values for answer in answers])

    def project(self, attributes: Iterable[str] | str, given: Mapping[str, int] | None = None) -> Factor:
        """Return the posterior mean of the marginal on any attributes, in counts; arguments as for `Model.project`."""
        return self.answer((attributes,) if isinstance(attributes, str) else tuple(attributes), given=given)

    def answer(
        self, query: Any, clique: Iterable[str] | str | None = None, given: Mapping[str, int] | None = None
    ) -> Factor:
        """Return the posterior mean of an answer; arguments and errors as for `draws`."""
        domain, values = self.draws(query, clique, given)
        return Factor(domain, values.mean(axis=0))

    def interval(
        self,
        query: Any,
        clique: Iterable[str] | str | None = None,
        given: Mapping[str, int] | None = None,
        *,
        level: float = 0.95,
        about: About = "table",
    ) -> Interval:
        """Return equal-tailed credible intervals, in counts.

        For attributes inside a measured clique, the intervals also cover errors that cells may have in common, as far
        as unbiased answers leave room for such errors (`pgmest.models.posterior.common_error`). Therefore sums of many
        small cells are as certain as the noise allows, and no more.

        Counts of the table itself, their sums and their differences are whole numbers, so that ends of marginals and
        of linear queries with whole coefficients are rounded outwards. Answers that exact measurements determine have
        ends of distance zero.

        Args:
            level: the posterior probability inside.
            query, clique, given, about: as for `draws`.

        Raises:
            ArgumentError: `level` is not between 0 and 1.
            QueryError, UnknownAttributeError, ...: as for `draws`.
        """
        check_level(level)
        if given and self.domain.names_levels(given):
            query, evidence, axes = with_given_levels(self.domain, query, clique, given)
            return self.interval(query, None, evidence, level=level, about=about).reshaped(axes)
        query, clique = on_attributes(self.domain, query, clique)
        domain, values = self.draws(query, clique, given, about=about)
        self._warn_of_disagreement(values)
        basis = self._basis(query, clique, given)
        if basis == "measured":
            values = self._with_common_error(values, query, clique, given or {}, about)
        low, high = np.quantile(values, (0.5 - 0.5 * level, 0.5 + 0.5 * level), axis=0)
        if about == "table" and has_whole_coefficients(query, clique):
            low, high = _whole_ends(low, high, CERTAIN * self.total)
        return Interval(Factor(domain, low), Factor(domain, high), level, "posterior", about, basis)

    def _warn_of_disagreement(self, values: np.ndarray) -> None:
        """Warn if the chains disagree about an answer, given for each draw."""
        if self.report.method != "hmc":  # independent draws
            return
        chains, each = self.points.shape[:2]
        ratio = float(np.quantile(r_hat(values.reshape(chains, each, -1)), 0.95)) if values.size else 1.0
        if not ratio <= BAD_R_HAT:
            self._warn(
                f"the chains of the posterior disagree about this answer (R-hat {ratio:.3g}, at most {GOOD_R_HAT} "
                "would do), so its interval is too narrow: raise warm_up= or draws= of posterior()."
            )

    @staticmethod
    def _warn(text: str) -> None:
        warnings.warn(text, PosteriorWarning, stacklevel=4)

    # -- records ----------------------------------------------------------------------------------------------------

    def sample_tables(
        self,
        m: int,
        n: int | None = None,
        *,
        attributes: Iterable[str] | str | None = None,
        about: About | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> SampledTables[Dataset]:
        """Draw m synthetic tables, each from another draw, for analyses whose results `pgmest.inference.combine` joins.

        Args:
            m: the number of tables, at most the number of draws; they are taken evenly from all chains.
            n: the number of records of each table; by default the draw's own number.
            attributes: the attributes that the analysis reads. If they were not all measured together, each table then
                has other unmeasured dependence, so that the combined standard error of a coefficient covers it. By
                default all attributes, as the draws' models have them.
            about: "population": independent records, as the combining rules for populations need them; "table": records
                as close to the draw as whole numbers can be, so that the tables differ by the noise alone. The default
                is "population", or "table" if there are exact answers, which independent records would not have; the
                combining rule for tables of kind "table" is "multiple_imputation".
            seed: the same seed gives the same tables.

        Raises:
            ArgumentError: `m` is not such a number, or `about` is neither; or the posterior is not reliable, by more
                than chains that disagree a little (R-hat up to 1.1).
        """
        if at_least("m", m, 1) > len(self):
            raise ArgumentError.of("m", m, f"at most {len(self):,}, the number of draws; raise draws= of posterior()")
        if about is None:
            about = "population" if self.density.facts is None else "table"
        if about not in ("table", "population"):
            raise ArgumentError.of("about", about, ("table", "population"))
        if not (self.report.reliable or self.report.nearly_reliable):
            raise ArgumentError(
                f"the posterior is not reliable yet, as {self.report.trouble}: what its tables say has no valid "
                "standard error. Raise warm_up= or draws= of posterior()."
            )
        if not self.report.reliable:
            self._warn(
                f"the posterior is nearly reliable only, as {self.report.trouble}: give combine() tables=, which "
                "widens the standard errors, or raise warm_up= or draws= of posterior()."
            )
        elif self.report.bulk_ess < m:
            self._warn(
                f"the draws are worth only {self.report.bulk_ess:.3g} independent ones where they mix worst, fewer "
                f"than the {m:,} tables: raise draws= of posterior(), or give combine() tables=."
            )
        generator, method = np.random.default_rng(seed), SAMPLING[about]
        chosen = set(np.linspace(0, len(self) - 1, m).round().astype(int).tolist())
        models = (model for index, model in enumerate(self.models()) if index in chosen)
        if attributes is None:
            tables = [model.sample(n, method, generator) for model in models]
            return SampledTables(tables, self.report, pairs_outside(self.domain.attributes, self.cliques), about=about)
        names = self.domain.clique(attributes)
        facts = [one for each in exact_facts(self.density.measurements) if (one := each.margin(self.domain, names))]
        if self.domain.size(names) > MOST_CELLS:
            dependence = UnmeasuredDependence(self.cliques, self.strengths)
            weighted = (weighted_records(model, names, dependence, generator) for model in models)
        else:
            weighted = map(table_records, self._draws.around(names, {}, "table", generator, chosen))
        drawn = [records_of(records, n, method, facts, generator) for records in weighted]
        return SampledTables(drawn, self.report, pairs_outside(names, self.cliques), about=about)

    def to_inference_data(self) -> Any:
        """Return the draws of totals and of measured marginals as ArviZ's InferenceData (a DataTree from ArviZ 1 on).

        Raises:
            OptionalDependencyError: ArviZ is not installed.
        """
        from pgmest.models.posterior.inference_data import inference_data

        return inference_data(self._draws, self.points.shape[:2])

    # -- parts of an interval -----------------------------------------------------------------------------------------

    def _basis(self, query: Any, clique: Any, given: Mapping[str, int] | None) -> str:
        """Return the `basis` of an interval about a query."""
        names = attributes_of(query, clique, self.domain)
        if names is None:
            return "model"
        if self._draws.measured({*names, *(given or ())}):
            return "measured"
        return "dependence" if self.strengths is not None and self.strengths.evidence else "model"

    def _with_common_error(
        self, values: np.ndarray, query: Any, clique: Any, given: Mapping[str, int], about: About
    ) -> np.ndarray:
        """Return draws of an answer about a measured clique, with the error that its cells may have in common."""
        names = attributes_of(query, clique, self.domain)
        assert names is not None
        evidence = checked_evidence(self.domain, given, names)
        asked, wanted = (*names, *evidence), self.domain.project(names)
        holding = [index for index, one in enumerate(self.density.layout.cliques) if set(asked) <= set(one)]
        function = clique is not None and callable(query)
        if is_names(query) and not function and all(len(self.density.layout.cliques[i]) == len(asked) for i in holding):
            return values  # the answers are single cells, which have no error in common
        known = float(np.exp(self.density.log_total)) if self.density.total_known else None
        domain, tables = self._draws.marginals(asked)
        error = CommonError(
            asked,
            domain,
            tables.reshape(len(self), -1),
            [self._draws.spread(index, asked) for index in holding],
            UnbiasedAnswers(self.density.measurements, self.domain, known),
        )
        generator = np.random.default_rng(self.seed)
        cells = np.arange(domain.size()).reshape(domain.shape)[(..., *evidence.values())].reshape(-1)
        if function:

            def answer(table: np.ndarray) -> np.ndarray:
                whole = table.reshape(-1)[cells].reshape(wanted.shape)
                return answer_table(Factor(wanted, whole), query, clique).datavector()

            def drawn(table: np.ndarray) -> np.ndarray:
                return answer(multinomial_counts(table, generator) if about == "population" else table)

            return error.function(answer, generator, drawn).reshape(values.shape)

        def weights(rows: range) -> np.ndarray:
            found = np.zeros((len(rows), domain.size()))
            found[:, cells] = weights_of(query, clique, wanted, rows)
            return found

        return error.linear(weights, values.reshape(len(self), -1), generator).reshape(values.shape)

    def _answered(self, tables: np.ndarray, domain: Domain, query: Any, clique: Any, scatters: bool) -> list[Factor]:
        """Answer a query from the marginals of all draws."""
        generator = np.random.default_rng(self.seed)
        return [
            answer_table(Factor(domain, multinomial_counts(table, generator) if scatters else table), query, clique)
            for table in tables
        ]

    def __repr__(self) -> str:
        lines = [
            f"Posterior: {plural(len(self), 'draw')} of models on {plural(len(self.cliques), 'measured clique')}, "
            f"{self.total:,.1f} records (standard deviation {self.totals.std():,.3g})",
            f"  prior        {self.prior}",
        ]
        return "\n".join([*lines, *(f"  {line}" for line in str(self.report).splitlines())])


def _whole_ends(low: np.ndarray, high: np.ndarray, rounding: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends rounded outwards to whole numbers, except for answers that are certain up to rounding errors."""
    certain, nearest = high - low <= rounding, np.rint(low)
    value = np.where(np.abs(low - nearest) <= max(WHOLE, rounding), nearest, low)
    return np.where(certain, value, np.floor(low + WHOLE)), np.where(certain, value, np.ceil(high - WHOLE))
