"""Posterior: draws of models that the answers allow, and what they say about any question."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pgmest._base.errors import ArgumentError, OptionalDependencyError, at_least, plural
from pgmest._base.memory import check_room
from pgmest.data.dataset import Dataset
from pgmest.models.intervals import Interval, check_level
from pgmest.models.posterior.common_error import CommonError
from pgmest.models.posterior.density import PosteriorDensity
from pgmest.models.posterior.dependence import UnmeasuredDependence, scattered
from pgmest.models.posterior.lost_selections import LostSelections
from pgmest.models.posterior.prior import InteractionPrior, NormalPrior
from pgmest.models.posterior.report import PosteriorReport
from pgmest.models.posterior.strength import Strengths
from pgmest.models.posterior.table_query import answer_table, attributes_of, is_names, weights_of
from pgmest.models.posterior.unbiased import UnbiasedAnswers
from pgmest.models.uncertainty import ask
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.evidence import checked_evidence
from pgmest.tables.factor import Factor

if TYPE_CHECKING:
    from pgmest.inference.exact.plan import Plan
    from pgmest.measurements.selection import PaidSelection
    from pgmest.models.exact import Model

About = Literal["table", "population"]
MakeModel = Callable[[CliqueVector, float, "Plan"], "Model"]

CELLS_AT_ONCE = 2**21
"""Tables of draws are raked together as far as they have at most this number of cells."""

CLOSE = 1e-6
"""Ends of intervals of whole numbers are rounded outwards, but not for a rounding error."""


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    r"""Draws from $P(\theta, N \mid y)$: log-linear models of the measured cliques, each with its number of records.

    The likelihood is that of each measurement's own noise, the prior an `InteractionPrior`. `Model.posterior` makes it.

    What an interval is about:

    - `about="table"`: the table that was measured. For what lies inside a measured clique the only doubt is the noise,
      and a draw's marginals are what the table may have.
    - `about="population"`: what tables of that many records from the same population would have on average: as far from
      the table as one sample from it is.

    For attributes that no measured clique holds together a draw's own table is not all there is to know: pairs of them
    may depend on each other in ways that were not measured. They are given interactions as strong as those of the
    measured cliques turned out to be (`strengths`), and counts of N records around them are drawn; where a mechanism
    compared them with its models and measured others, such that would hardly have lost are rare (`selections`). That
    rests on the unmeasured pairs being no more dependent than the measured ones; `Model.bounds` has what holds without
    any model.

    Args:
        points: theta minus base, the prior's log scales and the log total, shape (chains, draws, density.size).
        density: what they were drawn from.
        report: the diagnostics.
        make_model: a model of potentials, a total and the plan that runs them.
        seed: of the records and tables drawn around the models.
        learn: says how strongly measured cliques depend, when it is first asked for.
        selections: which marginals a mechanism compared with its models and did not choose. Tables drawn for
            attributes that were not measured together are weighted by how likely they would have lost.
    """

    points: np.ndarray
    density: PosteriorDensity
    report: PosteriorReport
    make_model: MakeModel
    seed: int = 0
    learn: Callable[[], Strengths] | None = None
    selections: tuple[PaidSelection, ...] = ()
    _answers: dict[Any, np.ndarray] = field(default_factory=dict, init=False)

    @cached_property
    def strengths(self) -> Strengths | None:
        """How strong dependence is, by the measured cliques; None: unmeasured pairs are as the models have them."""
        return None if self.learn is None else self.learn()

    @property
    def domain(self) -> Domain:
        """All the attributes."""
        return self.density.layout.domain

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The measured cliques."""
        return self.density.likelihood.cliques

    @property
    def prior(self) -> NormalPrior | InteractionPrior:
        """What was thought before the answers."""
        return self.density.prior

    def __len__(self) -> int:
        return self.points.shape[0] * self.points.shape[1]

    @cached_property
    def totals(self) -> np.ndarray:
        """The numbers of records of the draws, shape (draws,)."""
        return np.exp(self.points[:, :, -1]).reshape(-1)

    @property
    def total(self) -> float:
        """The posterior mean of the number of records."""
        return float(self.totals.mean())

    def models(self) -> Iterator[Model]:
        """The draws, chain after chain, as ordinary models."""
        refit = self.density.refit
        for point, total in zip(self.points.reshape(len(self), -1), self.totals, strict=True):
            yield self.make_model(
                refit.potentials(self.density.base + point[: self.density.cells]), float(total), refit.plan
            )

    # -- questions --------------------------------------------------------------------------------------------------

    def draws(
        self,
        query: Any,
        clique: Iterable[str] | str | None = None,
        given: Mapping[str, int] | None = None,
        *,
        about: About = "table",
    ) -> tuple[Domain, np.ndarray]:
        """The answer of every draw: its axes, and an array of shape (draws, *axes), in counts.

        These are the posterior's own. Of sums of many small cells `interval` knows more: what they may have in common.

        Args:
            query: as for `Model.answer`, but one query only; or attributes, for their marginal; or, with `clique=`, a
                function that makes a Factor or a number of a table of counts, a Factor over that clique: a mean, a
                ratio, a coefficient. Without `clique=` a function of a Model, which knows of no unmeasured dependence.
            clique, given: as for `Model.answer` and `Model.project`.
            about: "table" or "population"; see the class. For a function of a model "population" is refused: name its
                attributes by `clique=`.

        Raises:
            ArgumentError: `about` is neither, or cannot be answered.
            QueryError, UnknownAttributeError, ...: as for `Model.answer` and `Model.project`.
        """
        if about not in ("table", "population"):
            raise ArgumentError.of("about", about, ("table", "population"))
        names = attributes_of(query, clique, self.domain)
        if names is None:
            if about == "population":
                raise ArgumentError(
                    "intervals of a function of a model are about the table: name the attributes that it reads by "
                    "clique=, and make it a function of their table, for the population, too."
                )
            answers = [ask(model, query, clique, given) for model in self.models()]
        elif not given and self.measured(names):
            domain, tables = self._tables(names)
            answers = self._answered(tables, domain, query, clique, about == "population")
        else:
            tables = self._drawn(names, given or {}, about, np.random.default_rng(self.seed))
            answers = [answer_table(table, query, clique) for table in tables]
        return answers[0].domain, np.stack([answer.values for answer in answers])

    def project(self, attributes: Iterable[str] | str, given: Mapping[str, int] | None = None) -> Factor:
        """The posterior mean of the marginal on any attributes, in counts; as `Model.project`."""
        return self.answer(self.domain.clique(attributes), given=given)

    def answer(
        self, query: Any, clique: Iterable[str] | str | None = None, given: Mapping[str, int] | None = None
    ) -> Factor:
        """The posterior mean of an answer; arguments and errors as for `draws`."""
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
        """Equal-tailed credible intervals, in counts.

        For attributes inside a measured clique they know, besides what the draws do, of errors that cells may have in
        common, as far as unbiased answers leave room for these: `pgmest.models.posterior.common_error`. So sums of many
        small cells are as certain as the noise allows, and not more.

        Marginals of the table itself are whole numbers, and ends are rounded outwards to these.

        Args:
            level: the posterior probability inside.
            query, clique, given, about: as for `draws`.

        Raises:
            ArgumentError: `level` is not between 0 and 1.
            QueryError, UnknownAttributeError, ...: as for `draws`.
        """
        check_level(level)
        domain, values = self.draws(query, clique, given, about=about)
        basis = self._basis(query, clique, given)
        if basis == "measured":
            values = self._with_common_error(values, query, clique, given or {}, about)
        low, high = np.quantile(values, (0.5 - 0.5 * level, 0.5 + 0.5 * level), axis=0)
        if about == "table" and clique is None and is_names(query):
            low, high = np.floor(low + CLOSE), np.ceil(high - CLOSE)
        return Interval(Factor(domain, low), Factor(domain, high), level, "posterior", about, basis)

    # -- records ----------------------------------------------------------------------------------------------------

    def sample_tables(
        self,
        m: int,
        n: int | None = None,
        *,
        attributes: Iterable[str] | str | None = None,
        about: About = "population",
        seed: int | np.random.Generator | None = None,
    ) -> list[Dataset]:
        """m synthetic tables, each of another draw, for analyses whose results `pgmest.inference.combine` joins.

        Args:
            m: how many, at most as many as there are draws; taken evenly from all chains.
            n: the records of each; by default the draw's own number.
            attributes: those that the analysis reads. Where they were not all measured together, their tables then
                depend on each other in ways that were not measured, too, each in its own way, so that the combined
                standard error of a coefficient knows of it. By default all, as the draws' models have them.
            about: "population": independent records, as the combining rules for populations need them; "table": records
                as close to the draw as whole numbers are, so that tables differ by noise alone.
            seed: the same seed gives the same tables.

        Raises:
            ArgumentError: `m` is not such a number, or `about` is neither.
        """
        if at_least("m", m, 1) > len(self):
            raise ArgumentError.of("m", m, f"at most {len(self):,}, the number of draws; raise draws= of posterior()")
        if about not in ("table", "population"):
            raise ArgumentError.of("about", about, ("table", "population"))
        generator = np.random.default_rng(seed)
        chosen = set(np.linspace(0, len(self) - 1, m).round().astype(int).tolist())
        if attributes is not None:
            names = self.domain.clique(attributes)
            tables = self._drawn(names, {}, "table", generator, chosen)
            return [_records(table, n, about, generator) for table in tables]
        method = "round" if about == "table" else "multinomial"
        models = (model for index, model in enumerate(self.models()) if index in chosen)
        return [model.sample(n, method, generator) for model in models]

    def to_inference_data(self) -> Any:
        """The draws of totals and of the measured marginals as ArviZ's InferenceData (DataTree from ArviZ 1 on).

        Raises:
            OptionalDependencyError: ArviZ is not installed.
        """
        try:
            import arviz  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise OptionalDependencyError.of("arviz", "InferenceData") from None
        shape = self.points.shape[:2]
        found: dict[str, np.ndarray] = {"total": self.totals.reshape(shape)}
        dims: dict[str, list[str]] = {}
        for clique in self.cliques:
            domain, values = self._tables(clique)
            name = ",".join(clique) or "records"
            found[name] = values.reshape(*shape, *domain.shape)
            dims[name] = list(clique)
        coords = {attribute: np.arange(size) for attribute, size in self.domain.items()}
        if hasattr(arviz, "InferenceData"):  # before ArviZ 1
            return arviz.from_dict(posterior=found, dims=dims, coords=coords)
        return arviz.from_dict({"posterior": found}, dims=dims, coords=coords)

    # -- how ---------------------------------------------------------------------------------------------------------

    def measured(self, names: Iterable[str]) -> bool:
        """Whether one measured clique holds all these attributes, so that only noise makes them uncertain."""
        wanted = set(names)
        return any(wanted <= set(clique) for clique in self.cliques)

    def _basis(self, query: Any, clique: Any, given: Mapping[str, int] | None) -> str:
        names = attributes_of(query, clique, self.domain)
        if names is None:
            return "model"
        if self.measured({*names, *(given or ())}):
            return "measured"
        return "dependence" if self.strengths is not None and self.strengths.evidence else "model"

    def _with_common_error(
        self, values: np.ndarray, query: Any, clique: Any, given: Mapping[str, int], about: About
    ) -> np.ndarray:
        """Draws of an answer about a measured clique with the error that cells may have in common, in their shape."""
        names = attributes_of(query, clique, self.domain)
        assert names is not None
        evidence = checked_evidence(self.domain, given, names)
        asked, wanted = (*names, *evidence), self.domain.project(names)
        holding = [index for index, one in enumerate(self.density.layout.cliques) if set(asked) <= set(one)]
        function = clique is not None and callable(query)
        if is_names(query) and not function and all(len(self.density.layout.cliques[i]) == len(asked) for i in holding):
            return values  # single cells
        known = float(np.exp(self.density.log_total)) if self.density.total_known else None
        domain, tables = self._tables(asked)
        error = CommonError(
            asked,
            domain,
            tables.reshape(len(self), -1),
            [self._spread(index, asked) for index in holding],
            UnbiasedAnswers(self.density.measurements, self.domain, known),
        )
        generator = np.random.default_rng(self.seed)
        cells = np.arange(domain.size()).reshape(domain.shape)[(..., *evidence.values())].reshape(-1)
        if function:

            def answer(table: np.ndarray) -> np.ndarray:
                whole = table.reshape(-1)[cells].reshape(wanted.shape)
                return answer_table(Factor(wanted, whole), query, clique).datavector()

            def drawn(table: np.ndarray) -> np.ndarray:
                return answer(scattered(table, generator) if about == "population" else table)

            return error.function(answer, generator, drawn).reshape(values.shape)

        def weights(rows: range) -> np.ndarray:
            found = np.zeros((len(rows), domain.size()))
            found[:, cells] = weights_of(query, clique, wanted, rows)
            return found

        return error.linear(weights, values.reshape(len(self), -1), generator).reshape(values.shape)

    @cached_property
    def _spreads(self) -> np.ndarray:
        """The standard deviations of all cells of the layout, in counts."""
        mean, squares = np.zeros(self.density.cells), np.zeros(self.density.cells)
        for count, point in enumerate(self.points.reshape(len(self), -1), start=1):
            away = self.density.marginals(point) - mean
            mean += away / count
            squares += away**2 * (count - 1) / count
        return np.sqrt(squares / len(self))

    def _spread(self, index: int, names: Clique) -> np.ndarray:
        """The standard deviations of one clique's cells, summed over those that make up a cell of these attributes."""
        start, stop = (int(end) for end in self.density.layout.offsets[index : index + 2])
        domain = self.density.layout.domains[index]
        return Factor(domain, self._spreads[start:stop].reshape(domain.shape)).project(names).datavector()

    def _tables(self, names: Clique) -> tuple[Domain, np.ndarray]:
        """The marginals of all draws on attributes inside a measured clique, shape (draws, *shape); kept."""
        holding = min((c for c in self.cliques if set(names) <= set(c)), key=self.domain.size)
        domain = self.domain.project(names)
        if names not in self._answers:
            position, _ = self.density.layout.find(holding)
            start, stop = (int(end) for end in self.density.layout.offsets[position : position + 2])
            table = self.density.layout.domains[position]
            check_room("the marginals of all draws", len(self) * domain.size())
            found = np.empty((len(self), *domain.shape))
            for row, point in enumerate(self.points.reshape(len(self), -1)):
                values = self.density.marginals(point)[start:stop].reshape(table.shape)
                found[row] = Factor(table, values).project(names).values
            self._answers[names] = found
        return domain, self._answers[names]

    def _answered(self, tables: np.ndarray, domain: Domain, query: Any, clique: Any, scatters: bool) -> list[Factor]:
        """A query about attributes whose marginals are at hand."""
        generator = np.random.default_rng(self.seed)
        return [
            answer_table(Factor(domain, scattered(table, generator) if scatters else table), query, clique)
            for table in tables
        ]

    def _drawn(
        self,
        names: Clique,
        given: Mapping[str, int],
        about: About,
        generator: np.random.Generator,
        chosen: Container[int] | None = None,
    ) -> Iterator[Factor]:
        """Tables of counts on these attributes, around all draws or some, of records with certain codes of others."""
        evidence = checked_evidence(self.domain, given, names)
        dependence = UnmeasuredDependence(self.cliques, self.strengths)
        known = self.measured((*names, *evidence))
        asked = (*names, *evidence)
        wanted = self.domain.project(asked if known else dependence.linked(asked, self.domain))
        check_room("the table asked about", wanted.size())
        links = tuple(range(len(asked), len(wanted)))
        lost = LostSelections.about(() if known else self.selections, wanted.attributes, self.measured, self._tables)
        models = ((index, one) for index, one in enumerate(self.models()) if chosen is None or index in chosen)
        while chunk := list(itertools.islice(models, max(1, CELLS_AT_ONCE // wanted.size()))):
            expected = np.stack([model.project(wanted.attributes).values for _, model in chunk])
            if known:
                found = expected
            elif lost:
                draws = np.array([index for index, _ in chunk])
                found = dependence.likely(expected, wanted, generator, lost, draws, scatters=about == "table")
            else:
                found = dependence.tables(expected, wanted, generator, scatters=about == "table")
            if about == "population":
                found = np.stack([scattered(table, generator) for table in found])
            for whole in found:
                table = whole.sum(axis=links)
                yield Factor(self.domain.project(names), table[(..., *evidence.values())] if evidence else table)

    def __repr__(self) -> str:
        lines = [
            f"Posterior: {plural(len(self), 'draw')} of models on {plural(len(self.cliques), 'measured clique')}, "
            f"{self.total:,.1f} records (standard deviation {self.totals.std():,.3g})",
            f"  prior        {self.prior}",
        ]
        return "\n".join([*lines, *(f"  {line}" for line in str(self.report).splitlines())])


def _records(table: Factor, n: int | None, about: About, generator: np.random.Generator) -> Dataset:
    """Records of a table: independent ones, or as close to it as whole numbers are."""
    expected = np.maximum(table.datavector(), 0.0)
    total = max(1, round(float(expected.sum()))) if n is None else at_least("n", n, 1)
    shares = expected / expected.sum()
    if about == "population":
        counts = generator.multinomial(total, shares)
    else:  # systematic sampling: each count is the one below or above
        ends = np.floor(total * np.cumsum(shares) + generator.random())
        ends[-1] = max(ends[-1], 0.0)
        counts = np.diff(np.concatenate([[0.0], ends])).astype(np.int64)
        counts[np.argmax(counts)] += total - counts.sum()
    codes = np.indices(table.domain.shape).reshape(len(table.domain), -1).T
    return Dataset.from_codes(np.repeat(codes, counts, axis=0), table.domain)
