"""A single table in a Synthesizer: the fit of a mechanism, and what is asked of its model in terms of the schema."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pgmest.analyses.sampled_tables import SampledTables
from pgmest.data.dataset import Dataset
from pgmest.data.names import are_numbers, other_names, public_numbers, renamed
from pgmest.errors import ArgumentError, DomainError, FileFormatError
from pgmest.mechanisms.kept_pairs import MATTERS, KeptPairs
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.mechanisms.registry import check_weighing
from pgmest.mechanisms.result import Result
from pgmest.models.base import ModelBase
from pgmest.privacy.statement import PrivacyStatement
from pgmest.queries.levels import ordered_levels
from pgmest.schema import Schema
from pgmest.schema.type_check import check_types
from pgmest.surveys.weighted import WeightedTable
from pgmest.synthesizer.completion import completed, drawn
from pgmest.synthesizer.drafting import check_workload, drafting_of
from pgmest.synthesizer.expansion import expanded_table, weight_of
from pgmest.synthesizer.raw_table import RawTable
from pgmest.synthesizer.schema_checks import check_bounded, with_schema
from pgmest.synthesizer.selected_counts import labeled_counts
from pgmest.workloads import emphasized


@dataclass(frozen=True, eq=False)
class TableFit:
    """The model of a single table, with the schema that decodes it.

    Attributes:
        schema: the schema, completed with what was bought, with the types of the fitted table.
        model: the model.
        names: the names of the table's columns that are no texts, by their texts.
        result: the `Result` of the mechanism; None for the model of a file.
        bought: a description in words of what was bought, for each such column.
    """

    schema: Schema
    model: Any
    names: dict[str, Any]
    result: Any = None
    bought: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(
        cls,
        mechanism: Mechanism,
        schema: Schema,
        table: Any,
        workload: Any,
        matters: Any,
        *,
        seed: Any,
        key: bytes | None,
        buy_share: float | None,
        options: Mapping[str, Any],
    ) -> TableFit:
        """Run a mechanism on a table; see `Synthesizer.fit`.

        Args:
            mechanism: the mechanism.
            schema: the schema, which is public.
            table: the raw table, or a Dataset that the schema encoded.
            workload, seed, buy_share: as for `Synthesizer.fit`.
            matters: the marginals that matter most, or None.
            key: the key of `Schema.encode`.
            options: further arguments of `Mechanism.fit`.
        """
        if not isinstance(table, Dataset):
            schema = schema.typed(table)
            check_types(schema, table)
        matters = list(matters) if isinstance(matters, Iterator) else matters
        workload = _with_matters(mechanism, schema, workload, matters)
        if schema.bought:
            schema, result = _fit_bought(mechanism, schema, table, workload, seed, key, buy_share, options)
        else:
            if buy_share is not None:
                raise ArgumentError(
                    f"buy_share= pays for bounds to be bought, but {schema.source} has none: leave buy_share= out."
                )
            data = table if isinstance(table, Dataset) else schema.encode(table, key=key)
            check_bounded(schema, data)
            if data.domain != schema.domain:
                raise DomainError(f"the data are over {data.domain}, but the schema describes {schema.domain}.")
            result = with_schema(mechanism, schema).fit(data, workload, seed, **options)
        if matters is not None:
            named = tuple(ordered_levels(schema.domain, one) for one in matters)
            details = {**result.details, MATTERS: named}
            result = dataclasses.replace(result, details=details)
        fit = cls(schema, result.model, other_names(table), result, result.details.get("bought", {}))
        fit._describe(result)
        return fit

    def _describe(self, result: Result) -> None:
        """Attach the schema and the privacy statement to the model, which saves them in its file."""
        if not isinstance(self.model, ModelBase):
            return
        unit = self.schema.unit
        statement = PrivacyStatement.of(
            result.mechanism,
            result.ledger,
            schema=Path(self.schema.source).name,
            drafted=self.schema.drafted,
            person=unit.column if unit else None,
        )
        schema = {**self.schema.description, **({"drafted_from_private_data": True} if statement.drafted else {})}
        frame = self.schema.frame
        numbers = public_numbers(self.names, () if frame is None else frame.columns)
        named = {"names": numbers} if numbers else {}
        self.model.describe(schema=schema, privacy=statement.to_json(), **named)

    @classmethod
    def load(cls, model: Any, path: str | Path) -> TableFit:
        """Return the model of a file, with its schema; see `Synthesizer.load`.

        Args:
            model: what the file holds.
            path: the file.
        """
        if "schema" not in model.about:
            remedy = "pgmest.load reads a model alone; Synthesizer.save writes one with its schema."
            raise FileFormatError.of(path, "a model without a schema.", remedy)
        schema = dataclasses.replace(Schema.from_dict(model.about["schema"]), source=str(path))
        names = model.about.get("names", {})
        if not are_numbers(names):
            raise FileFormatError.of(path, "wrong names of columns.", "Write it again with save(...).")
        return cls(schema, model, names)

    def save(self, path: str | Path) -> None:
        """Write the model with its schema to a file; see `Synthesizer.save`."""
        if not isinstance(self.model, ModelBase):
            raise ArgumentError(f"a {type(self.model).__name__} has no file format.")
        self.model.save(path)

    @property
    def columns(self) -> np.ndarray:
        """The names of the schema's columns."""
        return np.array([one.name for one in self.schema.described], dtype=object)

    @property
    def privacy(self) -> Mapping[str, Any]:
        """The privacy statement, as JSON values."""
        return self.model.about.get("privacy", {})

    def kept_pairs(self, result: Result) -> KeptPairs | None:
        """Return what the release holds of each pair of columns; see `Synthesizer.kept_`."""
        return KeptPairs.of(result)

    def sample(self, n: int | None, generator: np.random.Generator, written: Any, given: Any, expanded: bool) -> Any:
        """Return synthetic rows; see `Synthesizer.sample`."""
        model, schema, names, written = self.model, self.schema, self.names, bool(written)
        if expanded:
            table = expanded_table(model, schema, n, generator, written, given)
        elif isinstance(given, Mapping):
            texts = {str(name): value for name, value in given.items()}
            table = drawn(model, schema, texts, n, generator, schema.library, written)
        elif given is not None:
            names = {**names, **other_names(given)}
            table = completed(model, schema, given, n, generator, written)
        else:
            table = schema.decode(model.sample(n, seed=generator), generator, schema.library, written=written)
        return renamed(table, names)

    def interval(
        self, attributes: Any, given: Mapping[Any, Any], table: str | None, measure: str, options: Mapping[str, Any]
    ) -> Any:
        """Return the counts of a table and their intervals, with labels; see `Synthesizer.interval`."""
        if table is not None:
            raise ArgumentError.of("table", table, "None for a single table")
        if measure != "count" or callable(attributes):
            wrong = ("measure", measure, "count") if measure != "count" else ("attributes", attributes, "names")
            raise ArgumentError.of(*wrong[:2], f"{wrong[2]} for a single table; model_.interval takes functions of it")
        conditions = {str(name): value for name, value in given.items()}
        return renamed(labeled_counts(self.model, self.schema, attributes, conditions, options), self.names)

    def project(self, attributes: Iterable[str] | str, given: Mapping[str, Any]) -> Any:
        """Return the counts of a table, with labels; see `Synthesizer.project`."""
        return renamed(labeled_counts(self.model, self.schema, attributes, given), self.names)

    def weighted(self, attributes: Iterable[str] | str) -> WeightedTable:
        """Return the weighted table of some attributes; see `Synthesizer.weighted`."""
        return weight_of(self.schema).attribute.table(self.model, attributes)

    def sample_tables(
        self,
        m: int,
        n: int | None,
        attributes: Iterable[str] | str | None,
        about: Literal["table", "population"] | None,
        generator: np.random.Generator,
        written: bool,
    ) -> SampledTables[Any]:
        """Return m synthetic tables for analyses; see `Synthesizer.sample_tables`."""
        if not isinstance(self.model, ModelBase):
            raise ArgumentError(f"a {type(self.model).__name__} has no sample_tables; sample() works.")
        names = None if attributes is None else self.schema.domain.clique(attributes)
        schema = self.schema if names is None else self.schema.select(names)
        found = self.model.sample_tables(m, n, attributes=names, about=about, seed=generator)
        decoded = (schema.decode(table, generator, self.schema.library, written=written) for table in found)
        return found.changed(renamed(table, self.names) for table in decoded)

    def report(self, out: str | Path) -> Path:
        """Write a page that may be published; see `Synthesizer.report`."""
        from pgmest.evaluation import report

        return report(None, self.result, out=out, schema=self.schema)

    def owner_report(self, table: Any, out: str | Path, check: Any) -> Path:
        """Write a page that compares with the private table; see `Synthesizer.owner_report`."""
        from pgmest.evaluation import report

        if not isinstance(table, Dataset):
            check = self.schema.check(table) if check is None else check
            table = self.schema.encode(table)
        return report(table, self.result, out=out, schema=self.schema, check=check)


def _fit_bought(
    stated: Mechanism,
    schema: Schema,
    table: Any,
    workload: Any,
    seed: Any,
    key: bytes | None,
    share: float | None,
    options: Mapping[str, Any],
) -> tuple[Schema, Result]:
    """Buy what the schema leaves open, then fit, both under one curator; return the completed schema and the result."""
    if isinstance(table, Dataset):
        expected = "the raw table, since its columns have no codes before their bounds are bought"
        raise ArgumentError.of("table", type(table).__name__, expected)
    mechanism, drafting = drafting_of(with_schema(stated, schema), schema, share)
    check_workload(schema, workload)
    raw = RawTable.of(schema.table_file(table), schema, key)
    result = mechanism.fit(raw, workload, seed, **options, drafting=drafting)
    stated = stated.with_neighbors(result.mechanism.neighbors)
    details = {**result.details, "bought": dict(drafting.bought.found)}
    return drafting.bought.schema.typed(table), dataclasses.replace(result, mechanism=stated, details=details)


def _with_matters(mechanism: Mechanism, schema: Schema, workload: Any, matters: Any) -> Any:
    """Return the workload with more weight on the marginals that matter.

    Raises:
        ArgumentError: if `matters` is no list of tuples of names, or the mechanism treats all marginals alike.
        UnknownAttributeError: if the schema has no such column.
    """
    if matters is None:
        return workload
    check_weighing(mechanism)
    return emphasized(schema.stand_in().domain, workload, matters)
