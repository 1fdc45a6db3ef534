"""LinkedModel: synthetic linked tables with the noisy answers behind them, which have intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.data.linked import LinkedDataset
from pgmest.data.linked_names import PAIRS
from pgmest.data.linked_rules import CountRule
from pgmest.errors import ArgumentError, at_least
from pgmest.mechanisms.linked.one_code import layout_with_constants, seen_by_runs
from pgmest.mechanisms.linked.questions import Question, check_known, table_of
from pgmest.models.one_code import with_constants
from pgmest.privacy.statement import rows_counted

if TYPE_CHECKING:
    from pgmest.mechanisms.linked.family_model import FamilyModel
    from pgmest.mechanisms.linked.unit_answers import UnitAnswers
    from pgmest.mechanisms.linked.unit_errors import UnitErrors
    from pgmest.mechanisms.linked.unit_weights import UnitWeights
    from pgmest.models.intervals import Interval
    from pgmest.models.support import SupportModel
    from pgmest.models.uncertainty import Uncertainty
    from pgmest.tables.domain import Domain
    from pgmest.tables.factor import Factor


@dataclass(frozen=True, eq=False)
class LinkedModel:
    """Synthetic linked tables and the noisy answers behind them, as a file keeps them. All of it may be published.

    Attributes:
        model: the synthetic linked tables, with as many units as the data is estimated to have.
        runs: for each child table, the families of the run on it and its parent table, with the noisy answers.
        about: the facts that its file keeps, such as the schema; they are public, and JSON values.
    """

    model: LinkedDataset
    runs: Mapping[str, FamilyModel]
    about: dict[str, Any] = field(default_factory=dict, kw_only=True)
    _models: dict[str, SupportModel] = field(default_factory=dict, init=False)

    def model_of(self, table: str) -> SupportModel:
        """Return the model of one table with the attributes of its parent and the numbers of rows, as the run saw it.

        Its attributes are called "persons.age", "households.region" and "number of persons". It counts rows of the
        table, and has the answers and intervals of any model. If several child tables hang on the root, the model of
        the root is that of the first one's run.

        The model of "pairs of persons" counts ordered pairs of different persons of one household, so each couple
        twice. The second person's attributes are called "another of persons.age".

        Raises:
            ArgumentError: there is no such table.
        """
        run, kind = self._run_on(table)
        if table not in self._models:
            self._models[table] = with_constants(getattr(run, kind), self.domain_of(table))
        model = self._models[table]
        model.describe(rows_counted=self.rows_counted)
        return model

    @property
    def limits(self) -> str:
        """The largest numbers of rows that are counted, in words."""
        runs = self.runs.items()
        limits = [f"at most {run.layout.at_most} of '{name}' for each of '{run.layout.names[0]}'" for name, run in runs]
        return "; ".join(limits)

    @property
    def rows_counted(self) -> str:
        """A sentence on the rows that are counted: those beyond a limit are in no interval."""
        return rows_counted(self.limits)

    def domain_of(self, table: str) -> Domain:
        """Return the attributes of the model of a table.

        Raises:
            ArgumentError: there is no such table.
        """
        run, kind = self._run_on(table)
        layout = layout_with_constants(run.layout, self.model.tables)
        return {"parents": layout.parent_domain, "children": layout.child_domain, "pairs": layout.pair_domain}[kind]

    @property
    def counted(self) -> tuple[str, ...]:
        """The names of what answers may count: rows of each table, and pairs of rows of one parent."""
        several = [name for name, run in self.runs.items() if run.layout.at_most > 1]
        return (*self.model.order, *(f"{PAIRS}{name}" for name in several))

    @cached_property
    def _ruled(self) -> dict[str, FamilyModel]:
        """The runs, with the rules about numbers of rows that hold in each row above."""
        rules = [rule for rule in self.model.rules if isinstance(rule, CountRule)]
        return {
            name: replace(run, rules=tuple(rule for rule in rules if rule.table == name))
            for name, run in self.runs.items()
        }

    def _run_on(self, table: str) -> tuple[FamilyModel, str]:
        """Return the model of the run on a table, and whether it is about its parents, children or pairs of them."""
        if table in self._ruled:
            return self._ruled[table], "children"
        for name, run in self._ruled.items():
            if table == f"{PAIRS}{name}" and table in self.counted:
                return run, "pairs"
            if run.layout.names[0] == table:
                return run, "parents"
        raise ArgumentError.of("table", table, self.counted)

    def interval(
        self,
        query: Any,
        clique: Iterable[str] | str | None = None,
        given: Mapping[str, int] | None = None,
        *,
        table: str | None = None,
        **options: Any,
    ) -> Interval:
        """Return the ends of an answer, in counts of rows of one table, as `pgmest.interval`.

        `result.interval(("households.region", "number of persons"))` is about households,
        `result.interval(("age", "region"))` about persons, if only persons have an age, and
        `result.interval(("persons.work", "another of persons.work"))` about ordered pairs of persons of one household.

        Args:
            query, clique, given: as for `pgmest.interval`; attributes may be named without their table where only one
                table has them.
            table: the table whose rows are counted; by default the lowest one of which an attribute is named, or that
                of the root.
            options: as for `pgmest.interval`.

        Raises:
            ArgumentError: there is no such table, or no model of all the attributes; more than `MOST_OF_PAIRS` of them
                are asked of pairs of rows; or as for `pgmest.interval`.
            QueryError, UnknownAttributeError, ...: as for `Model.answer` and `Model.project`.
        """
        asked = Question.of(query, clique, given)
        counted = table_of(self, asked.attributes, table)
        check_known(counted, asked.attributes)
        model = self.model_of(counted)
        return model.interval(*asked.named(model.domain), **options)

    def uncertainty(
        self,
        query: Any,
        clique: Iterable[str] | str | None = None,
        given: Mapping[str, int] | None = None,
        *,
        table: str | None = None,
    ) -> Uncertainty:
        """Return the standard errors of an answer; arguments and errors as for `interval`."""
        asked = Question.of(query, clique, given)
        counted = table_of(self, asked.attributes, table)
        check_known(counted, asked.attributes)
        model = self.model_of(counted)
        return model.uncertainty(*asked.named(model.domain))

    def project(self, attributes: Iterable[str] | str, *, table: str | None = None) -> Factor:
        """Return the estimated table of some attributes, in counts; arguments and errors as for `interval`."""
        names = (attributes,) if isinstance(attributes, str) else tuple(attributes)
        asked = Question.of(names, None, None)
        model = self.model_of(table_of(self, asked.attributes, table))
        return model.project(asked.named(model.domain)[0])

    @cached_property
    def unit_errors(self) -> UnitErrors:
        """The errors of totals over units, which are found at the first use."""
        from pgmest.mechanisms.linked.unit_errors import UnitErrors

        return UnitErrors.of(seen_by_runs(self.model, [run.layout for run in self.runs.values()]), self.runs)

    def unit_interval(
        self, values: Any, among: Any = None, *, level: float = 0.95, counted: bool = False
    ) -> UnitAnswers:
        """Return totals of values over units, or ratios of such totals, with the ends of their intervals.

        With `elderly` the number of persons over 75 in each synthetic household (a row of `model`),
        `result.unit_interval(elderly > 0)` is about the number of households with someone over 75, and
        `result.unit_interval(elderly > 0, among=np.ones(len(elderly)))` about their share. The private tables are not
        read, so nothing is spent.

        Args:
            values: a number for each unit of `model`, shape (units,) or (units, answers).
            among: what the totals are divided by the total of, of the same shape or shape (units,); None for totals.
            level: the probability that an interval contains the truth.
            counted: whether the values follow from attributes of units and from how many rows of a unit have given
                codes, as those of a `pgmest.HowMany`. Other values, such as differences between rows, may rest on how
                rows depend on each other beyond what was measured: their intervals are then wider, and `basis` is
                "dependence".

        Raises:
            ArgumentError: there are no synthetic units, or `level` is not between 0 and 1.
            ShapeError: the values are not one for each unit.
            DataError: the values are not finite numbers.
        """
        from pgmest.mechanisms.linked.unit_answers import unit_answers

        answers = unit_answers(self.unit_errors, values, among, level, counted=counted)
        return replace(answers, rows_counted=self.rows_counted)

    def unit_weights(self, m: int, *, seed: int | np.random.Generator | None = None) -> UnitWeights:
        """Return sets of weights of the units of `model`, whose statistics vary as much as these may be off.

        The variance of a smooth statistic of the weighted tables between sets, times the square of `spread`, is that of
        its error.

        Args:
            m: the number of sets, at least 2.
            seed: the seed of the draws.

        Raises:
            ArgumentError: there are no synthetic units, or fewer than two sets are asked for.
        """
        from pgmest.mechanisms.linked.unit_weights import UnitWeights

        return UnitWeights.drawn(self.unit_errors, at_least("m", m, 2), np.random.default_rng(seed))

    def sample(self, units: int | None = None, *, seed: int | np.random.Generator | None = None) -> LinkedDataset:
        """Return synthetic linked tables.

        Args:
            units: the number of units, each with all that hangs on it; by default all of the model's, which are as
                many as the data is estimated to have. Units are drawn without replacement, and each as often as
                any other up to 1 if more are asked for than there are.
            seed: the seed of the draw.

        Raises:
            ArgumentError: `units` is not a positive integer.
        """
        have = len(self.model)
        if units is None or have == 0:
            return self.model
        units = at_least("units", units, 1)
        generator = np.random.default_rng(seed)
        parts = [self.model] * (units // have)
        if units % have:
            parts.append(self.model.take(np.sort(generator.permutation(have)[: units % have])))
        return joined(parts)

    def describe(self, **facts: Any) -> None:
        """Add facts to `about`; they must be public, and JSON values."""
        self.about.update(facts)

    def save(self, path: str | Path) -> None:
        """Write the tables and the noisy answers to an npz file, which may be published; `pgmest.load` reads it.

        Neither the private tables nor the ledger nor the running time are in it.

        Raises:
            ArgumentError: an answer cannot be written to a file.
            FileFormatError: the file cannot be written. An earlier file is left unchanged.
        """
        from pgmest.models.files import save

        save(path, self)

    def saved(self) -> dict[str, Any]:
        """Return the entries of the tables and the noisy answers in a file: JSON values and arrays."""
        from pgmest.mechanisms.linked.files import linked_tree

        return linked_tree(self.model, self.runs)

    @classmethod
    def of_saved(cls, tree: Mapping[str, Any]) -> LinkedModel:
        """Return the tables and the noisy answers that `saved` described.

        Raises:
            Unreadable, PgmestError, KeyError, TypeError, ...: the description is wrong.
        """
        from pgmest.mechanisms.linked.files import read_linked

        return cls(*read_linked(tree), about=dict(tree["about"]))

    def __repr__(self) -> str:
        return f"LinkedModel({self.model!r})"


def joined(parts: list[LinkedDataset]) -> LinkedDataset:
    """Return the rows of several linked datasets with the same tables, one after the other."""
    if len(parts) == 1:
        return parts[0]
    tables = {}
    for name, table in parts[0].tables.items():
        data = Dataset.concat([part.tables[name].dataset for part in parts])
        if table.parent is None:
            tables[name] = replace(table, dataset=data)
            continue
        ends = np.cumsum([0, *(part.tables[table.parent].rows for part in parts)])
        links = [part.link(name)[1] + end for part, end in zip(parts, ends[:-1], strict=True)]
        tables[name] = replace(table, dataset=data, parent_rows=np.concatenate(links))
    return replace(parts[0], tables=tables)
