"""Synthesizer: from a raw table to a synthetic table of the same kind, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.mechanisms.files import load
from pgmest.mechanisms.kept_pairs import KeptPairs
from pgmest.mechanisms.linked.linked_model import LinkedModel
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.mechanisms.registry import named_mechanism
from pgmest.mechanisms.result import Result
from pgmest.privacy.budgets import DEFAULT_DELTA
from pgmest.privacy.dataset_ledger import DatasetLedger
from pgmest.privacy.journal import journal_key
from pgmest.privacy.ledger import Statement
from pgmest.schema.linked.schema import LinkedSchema
from pgmest.surveys.weighted import WeightedTable
from pgmest.synthesizer.linked import LinkedFit, LinkedMechanism, check_linked_options, linked_mechanism
from pgmest.synthesizer.schema_checks import as_schema, check_public
from pgmest.synthesizer.selected_counts import check_question
from pgmest.synthesizer.table_fit import TableFit

if TYPE_CHECKING:
    from pgmest.analyses.sampled_tables import SampledTables
    from pgmest.schema import Schema


CONSTRUCTOR = ("mechanism", "epsilon", "delta", "rho", "matters")
"""The named arguments of a Synthesizer; all others are parameters of its mechanism."""


class Synthesizer:
    """A mechanism with the coding of raw tables: `fit` a private table, then `sample` synthetic ones.

    It follows scikit-learn's conventions: the constructor keeps its arguments as they are, `fit` checks them before
    anything is paid and returns the synthesizer, fitted attributes end in an underscore, and `get_params`,
    `set_params` and `sklearn.base.clone` work.

    >>> import pandas as pd
    >>> people = pd.DataFrame({"age": [23, 41, 67, 35] * 50, "sex": ["F", "M", "F", None] * 50})
    >>> schema = {"columns": {
    ...     "age": {"type": "integer", "min": 0, "max": 99, "width": 10},
    ...     "sex": {"type": "categorical", "values": ["F", "M"], "missing": True},
    ... }}
    >>> synthesizer = Synthesizer("mst", epsilon=1.0, backend="simulation").fit(people, schema, seed=0)
    >>> synthesizer
    Synthesizer(mechanism='mst', epsilon=1.0, delta=1e-09, backend='simulation', fitted)
    >>> synthetic = synthesizer.sample(100, seed=0)
    >>> type(synthetic).__name__, synthetic.shape, set(synthetic["sex"].dropna()) <= {"F", "M"}
    ('DataFrame', (100, 2), True)

    Args:
        mechanism: a name, such as "lamp" or "aim" (`pgmest.mechanisms.registry.mechanism_names()`), or a mechanism. For
            linked tables "lamp", or a mechanism for them.
        epsilon, delta, rho: the budget, as for the mechanism.
        matters: the marginals that matter most, such as `[("age", "readmitted")]` or, by level,
            `[("diagnosis@chapter", "sex")]`: the mechanism spends on them first
            (`pgmest.workloads.emphasized`), as far as the budget can carry them. `kept_` says whether it could.
        parameters: further parameters of the mechanism, such as `backend="simulation"` for experiments.

    Attributes (after `fit`):
        schema_: the schema, completed with the bounds and values that were bought.
        bought_: a description in words of what was bought, for each such column.
        feature_names_in_, n_features_in_: the names and the number of the schema's columns.
        result_: the result of the mechanism; everything in it but `owner_only` may be published.
        model_: the model of the result.
        ledger_: the ledger of the result.
    """

    schema_: Schema
    bought_: Mapping[str, str]
    result_: Result
    feature_names_in_: np.ndarray
    n_features_in_: int
    _fit: TableFit | LinkedFit | None = None

    def __init__(
        self,
        mechanism: str | Mechanism | LinkedMechanism = "lamp",
        epsilon: float | None = None,
        delta: float | None = DEFAULT_DELTA,
        rho: float | None = None,
        matters: Iterable[Iterable[str]] | None = None,
        **parameters: Any,
    ):
        self.mechanism = mechanism
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.matters = matters
        self._parameters = parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of the constructor by name; `deep` makes no difference."""
        return {**{name: getattr(self, name) for name in CONSTRUCTOR}, **self._parameters}

    def set_params(self, **params: Any) -> Synthesizer:
        """Replace arguments of the constructor, and return the synthesizer; `fit` checks them."""
        for name, value in params.items():
            if name in CONSTRUCTOR:
                setattr(self, name, value)
            else:
                self._parameters[name] = value
        return self

    def _configured(self) -> Mechanism:
        """Return the mechanism with its budget and parameters.

        Raises:
            ArgumentError: if there is no such mechanism or parameter, or the mechanism cannot spend the budget.
        """
        budget = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}
        if isinstance(self.mechanism, str):
            return named_mechanism(self.mechanism, **budget, **self._parameters)
        unstated = budget == {"epsilon": None, "delta": DEFAULT_DELTA, "rho": None}
        if not isinstance(self.mechanism, Mechanism) or self._parameters or not unstated:
            raise ArgumentError.of(
                "mechanism", self.mechanism, "a name, or a mechanism that has all parameters already"
            )
        return self.mechanism

    def fit(
        self,
        table: Any,
        schema: Schema | Mapping[str, Any] | str | Path,
        workload: Any = None,
        *,
        seed: int | np.random.Generator | None = None,
        progress: Any = None,
        checkpoint: str | Path | None = None,
        ledger: str | Path | DatasetLedger | None = None,
        allow_draft: bool = False,
        time_limit: float | None = None,
        buy_share: float | None = None,
    ) -> Synthesizer:
        """Spend the budget on the records of a table, and return the synthesizer.

        The promise protects one record or, if the schema has a `unit`, all rows of one person. At most `unit.at_most`
        rows of a person are counted, and the noise is calibrated for this number.

        The model gives no weight to the combinations that the schema calls impossible. If a mechanism cannot do that,
        `result_.details["structural_zeros"]` says so.

        A share of the budget first buys the bounds and values that the schema leaves open, under the same ledger
        (`pgmest.synthesizer.purchase`). `schema_` then contains them.

        Linked tables, such as households and persons, are a mapping of names to tables: see
        docs/guides/households.md. What is protected is then a row of the root with everything that hangs on it, or what
        the schema's `unit` says; `workload`, `matters` and `buy_share` are for single tables.

        Args:
            table: a dataframe of any library, the path of a `.csv`, `.csv.gz` or `.parquet` file, or a Dataset that the
                schema encoded already; for linked tables a mapping of them, or a LinkedDataset.
            schema: a `pgmest.schema.Schema`, the path of its file, or a dict of the same form. It must be public.
            workload: the marginals that matter, in terms of the schema's columns: None for the mechanism's default,
                cliques, or a `pgmest.workloads.Workload`.
            seed, progress, checkpoint, ledger, time_limit: as for `Mechanism.fit`. The secure noise never depends on a
                seed.
            allow_draft: whether to accept a schema that still says `drafted_from_private_data: true`, or has lines
                marked as read from the private data. A release made with such a schema is not private.
            buy_share: the share of the budget that buys what the schema leaves open; 0.1 by default.

        Raises:
            ArgumentError: if there is no such mechanism or parameter, or the mechanism cannot spend the budget; nothing
                was spent.
            SchemaError: if the schema is not valid, or is a draft; or if no value of the type of some column can be one
                that the schema lists; nothing was spent.
            DataError, FileFormatError, ArgumentError: if the table cannot be read; nothing was spent.
            ImpossibleModelError: if no record is possible by the schema; nothing was spent.
        """
        known = as_schema(schema)
        check_public(known, allow_draft)
        key = None
        if checkpoint is not None and (isinstance(known, LinkedSchema) or known.unit):
            key = journal_key(checkpoint)
        options = {"progress": progress, "checkpoint": checkpoint, "ledger": ledger, "time_limit": time_limit}
        fit: TableFit | LinkedFit
        if isinstance(known, LinkedSchema):
            check_linked_options(self.matters, workload, buy_share)
            budget = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}
            linked = linked_mechanism(self.mechanism, budget, self._parameters)
            fit = LinkedFit.of(linked, known, table, seed, key, options)
        else:
            further = {"seed": seed, "key": key, "buy_share": buy_share, "options": options}
            fit = TableFit.of(self._configured(), known, table, workload, self.matters, **further)
        self._fit = fit
        self.result_, self.schema_, self.bought_ = fit.result, fit.schema, fit.bought
        self.feature_names_in_, self.n_features_in_ = fit.columns, len(fit.columns)
        return self

    @property
    def model_(self) -> Any:
        """The model of the result, or of the file that was loaded."""
        return self._fitted().model

    @property
    def privacy_(self) -> Mapping[str, Any]:
        """The privacy statement of the model or the linked tables, as JSON values (`privacy.PrivacyStatement`)."""
        return self._fitted().privacy

    def save(self, path: str | Path) -> None:
        """Write the model, the schema and the privacy statement to an npz file, which may be published.

        `Synthesizer.load` reads the file; `pgmest.load` reads its model only. Result and ledger are not saved. Of
        linked tables, the synthetic tables and the noisy answers behind them are written.

        Raises:
            ArgumentError: if the synthesizer is not fitted, or the model has no file format.
            FileFormatError: if the file cannot be written.
        """
        self._fitted().save(path)

    @classmethod
    def load(cls, path: str | Path) -> Synthesizer:
        """Return a synthesizer from a file of `save`: it samples, and has `model_`, `schema_` and `privacy_`.

        Raises:
            FileFormatError: if the file cannot be read, or has no schema.
        """
        model, loaded = load(path), cls()
        loaded._fit = LinkedFit.load(model, path) if isinstance(model, LinkedModel) else TableFit.load(model, path)
        loaded.schema_ = loaded._fit.schema
        return loaded

    @property
    def kept_(self) -> KeptPairs | None:
        """The pairs of columns that were measured, that follow from others, and that are independent in the release.

        It is None for a mechanism without measurements of marginals, and for linked tables.
        """
        return self._fitted().kept_pairs(self._result())

    @property
    def ledger_(self) -> Statement:
        """The ledger of the run: the charges, in order."""
        return self._result().ledger

    def sample(
        self,
        n: int | None = None,
        seed: int | np.random.Generator | None = None,
        *,
        written: bool | Collection[str] = False,
        given: Any = None,
        expanded: bool = False,
    ) -> Any:
        """Return a synthetic table of the library of the fitted table: polars, pyarrow, or else pandas.

        Its columns have the types of the fitted table's, in their order, as far as these hold the values of the schema
        (`Schema.decode` with `like=`). Linked tables are returned as a mapping of names to tables, with keys that join.

        Args:
            n: the number of rows, for linked tables of the root; by default the model's estimated total, never the true
                number.
            seed: the seed of the rows; the same seed gives the same rows.
            written: whether values are in the notation of text files, as for `Schema.decode`; of linked tables the
                names of those whose values are, or all or none of them.
            given: the values that all rows have, `{"sex": "F", "age": (30, 40), "city": {"Rome", "Oslo"}}`: a value, a
                set or list of values, or for numbers and dates a range (low, high), of which None leaves an end open;
                None alone is a missing value. Or a dataframe with some of the columns, whose rows are completed: the
                other columns are drawn conditionally on the row, whose values are kept; `n` must be None then. Of
                linked tables, values of columns of the root, numbers of rows, or of a `HowMany`: the rows of the root
                that have them are drawn, with all that hangs on them.
            expanded: whether each row is one member of the population, without the column of weights. Rows are then
                drawn in proportion to their weights (`weight:` of the schema), and n is their sum by default.

        Raises:
            ImpossibleModelError: if `given` or a row of it has probability 0, or no synthetic row of a root has it.
            UnknownAttributeError, QueryError: if `given` names an unknown column, or a value that its column lacks; the
                error suggests the nearest one.
            DataError: if the dataframe `given` has no columns, or a column that the schema does not have.
            ArgumentError: if the synthesizer is not fitted, or n is not an integer of at least 0.
        """
        return self._fitted().sample(n, np.random.default_rng(seed), written, given, expanded)

    def interval(
        self,
        attributes: Any,
        given: Mapping[Any, Any] | None = None,
        *,
        level: float = 0.95,
        kind: Any = "auto",
        about: Any = "table",
        table: str | None = None,
        measure: Literal["count", "share", "mean"] = "count",
    ) -> Any:
        """Return the counts of a table and the ends of their intervals, with the labels of the schema.

        The result has a row for each cell, and the library of the fitted table: the attributes, "count", "low" and
        "high". `model_.interval` answers any other query, in codes; for linked tables `result_.interval`.

        Args:
            attributes: the attributes of the table, or levels ("diagnosis@chapter"); () for the number of records. Of
                linked tables, an attribute that several tables have is named with its table, as "persons.age". For
                questions about whole rows of the root, such as households, also a `pgmest.HowMany`, or a function of
                the tables that returns a value for each row of the root; alone, it may also return other numbers. The
                answers of functions have a column "basis": "measured", or "dependence" if they rest on how rows depend
                on one another in ways that were not measured. The interval is then as wide as such dependence can be.
            given: count only records with these values, as for `sample`: `{"sex": "F", "age": (30, 40)}`. A `HowMany`
                or a function may take the place of a name.
            level, kind, about: as for `pgmest.interval`.
            table: of linked tables, the one whose rows are counted; by default the highest one that has the attributes
                itself or in its parent row.
            measure: of whole rows of the root, "count" for their number in each cell, "share" for their share of those
                with the given values, "mean" for the mean of the first attribute in each cell of the others.

        Raises:
            ArgumentError: if the synthesizer is not fitted, the model has no intervals, no linked table has all the
                attributes, the attributes are a query, or `given` is no mapping.
            UnknownAttributeError, QueryError: if there is no such attribute or value, or a function has not one finite
                value for each row of the root that follows from this row alone.
        """
        check_question(attributes, given)
        options = {"level": level, "kind": kind, "about": about}
        return self._fitted().interval(attributes, given or {}, table, measure, options)

    def project(self, attributes: Iterable[str] | str, given: Mapping[str, Any] | None = None) -> Any:
        """Return the counts of a table, with the labels of the schema, as `interval` does but without intervals.

        Args:
            attributes: the attributes of the table, or levels ("diagnosis@chapter"); () for the number of records.
            given: count only records with these values, as for `sample`.

        Raises:
            ArgumentError: if the synthesizer is not fitted or has linked tables, or as for `interval`.
            UnknownAttributeError, QueryError: if there is no such attribute, level or value.
        """
        check_question(attributes, given)
        conditions = {str(name): value for name, value in (given or {}).items()}
        return self._fitted().project(attributes, conditions)

    def weighted(self, attributes: Iterable[str] | str) -> WeightedTable:
        """Return the weighted table of some attributes, with `totals`, `shares` and `interval`.

        Args:
            attributes: the attributes; () for the sum of all weights.

        Raises:
            SchemaError: if the schema has no weight.
            UnknownAttributeError: if the schema lacks an attribute.
            QueryError: if the weight is among the attributes.
        """
        return self._fitted().weighted(attributes)

    def sample_tables(
        self,
        m: int,
        n: int | None = None,
        *,
        attributes: Iterable[str] | str | None = None,
        about: Literal["table", "population"] | None = None,
        seed: int | np.random.Generator | None = None,
        written: bool = False,
    ) -> SampledTables[Any]:
        """Return m synthetic tables for analyses whose results `pg.combine` joins.

        They are tables as `sample` returns them, each from another draw of what the answers allow; see
        `Model.sample_tables` for the arguments. With `attributes`, the tables have these columns alone.

        Of linked tables, m sets are returned, each a mapping of names to tables. They differ in a column of weights,
        `weight` of the result, by which analyses must weight each row: `combine(results, tables=...)` needs the sets,
        which know how far draws are apart. `n` and `attributes` must be left out.

        Raises:
            ArgumentError: if the synthesizer is not fitted; or as for `Model.sample_tables`; or of linked tables, if
                an argument is given that they do not have, or there are no synthetic units.
            SchemaError: if the codes of a column mean nothing without another one that `attributes` lacks.
        """
        return self._fitted().sample_tables(m, n, attributes, about, np.random.default_rng(seed), written)

    def report(self, out: str | Path = "report.html") -> Path:
        """Write a page about the result that may be published with the synthetic table, and return its path.

        Raises:
            ArgumentError: if the synthesizer is not fitted.
            OptionalDependencyError: if matplotlib is not installed.
            FileFormatError: if the file cannot be written.
        """
        self._result()
        return self._fitted().report(out)

    def owner_report(self, table: Any, out: str | Path = "PRIVATE-report.html", check: Any = None) -> Path:
        """Write a page that compares the result with the private table, without noise: **it must not be published.**

        The page begins with the report of `Schema.check` on the raw table, since all comparisons below it are of codes.

        Args:
            table: the table that was given to `fit`.
            out: the file.
            check: the report of `Schema.check` on the raw table, if `table` is a Dataset that the schema encoded.

        Raises:
            as `report`; and as `fit` for the table.
        """
        self._result()
        return self._fitted().owner_report(table, out, check)

    def _fitted(self) -> TableFit | LinkedFit:
        if self._fit is None:
            raise ArgumentError("this Synthesizer has not seen a table yet: call fit(table, schema) first.")
        return self._fit

    def _result(self) -> Result:
        result = self._fitted().result
        if result is None:
            raise ArgumentError("this Synthesizer was loaded from a file, which has no result and no ledger.")
        return result

    def __repr__(self) -> str:
        if self._fit is not None and self._fit.result is None:
            return f"Synthesizer(loaded, {self._fit.model!r})"
        unstated = {
            "delta": DEFAULT_DELTA if self.epsilon is None else None,
            "epsilon": None,
            "rho": None,
            "matters": None,
        }
        given = [f"{name}={value!r}" for name, value in self.get_params().items() if unstated.get(name, self) != value]
        return f"Synthesizer({', '.join(given)}{', fitted' if self._fit is not None else ''})"

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's description of the estimator; only scikit-learn calls this."""
        from sklearn.utils import InputTags, Tags, TargetTags

        table = InputTags(categorical=True, string=True, allow_nan=True)
        return Tags(estimator_type=None, target_tags=TargetTags(required=True), input_tags=table)
