"""Synthesizer: from a raw table to a synthetic one of the same kind, in the manner of estimators: fit, then sample."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest._base.errors import ArgumentError, DomainError, FileFormatError, SchemaError, listed, plural
from pgmest.data.dataset import Dataset
from pgmest.inference.exact.structural_zeros import zero_rules
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.mechanisms.registry import named_mechanism
from pgmest.mechanisms.result import Result
from pgmest.models.base import ModelBase
from pgmest.privacy.dataset_ledger import DatasetLedger
from pgmest.privacy.ledger import Statement
from pgmest.privacy.raw_table import RawTable
from pgmest.privacy.statement import PrivacyStatement
from pgmest.synthesizer.completion import completed
from pgmest.synthesizer.drafting import check_workload, drafting_of

if TYPE_CHECKING:
    from pgmest.data.schema import Schema
    from pgmest.data.schema.check import TableCheck


class Synthesizer:
    """A mechanism, and the way from a raw table to its codes and back.

    >>> import pandas as pd
    >>> people = pd.DataFrame({"age": [23, 41, 67, 35] * 50, "sex": ["F", "M", "F", None] * 50})
    >>> schema = {"columns": {
    ...     "age": {"type": "integer", "min": 0, "max": 99, "width": 10},
    ...     "sex": {"type": "categorical", "values": ["F", "M"], "missing": True},
    ... }}
    >>> synthesizer = Synthesizer("mst", epsilon=1.0, backend="simulation").fit(people, schema, seed=0)
    >>> synthetic = synthesizer.sample(100, seed=0)
    >>> type(synthetic).__name__, synthetic.shape, set(synthetic["sex"].dropna()) <= {"F", "M"}
    ('DataFrame', (100, 2), True)

    Args:
        mechanism: a name, such as "pgm" or "aim" (`pgmest.mechanisms.registry.mechanism_names()`), or a mechanism.
        epsilon, delta, rho: the budget, as for the mechanism. With epsilon alone delta is 1e-9 where one is needed.
        parameters: more parameters of the mechanism, such as `backend="simulation"` for experiments.

    Attributes (after `fit`):
        schema_: the schema, with what was bought of it.
        bought_: for each column of which something was bought, what was found, in words.
        result_: what the mechanism returned; everything in it but `owner_only` may be published.
        model_: its model.
        ledger_: what was spent, on what.

    Raises:
        ArgumentError: no such mechanism or parameter, or a budget that it cannot spend.
    """

    schema_: Schema
    bought_: Mapping[str, str]
    result_: Result
    _loaded: Any

    def __init__(
        self,
        mechanism: str | Mechanism = "pgm",
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        **parameters: Any,
    ):
        if isinstance(mechanism, str):
            budget = {"epsilon": epsilon, "delta": delta, "rho": rho}
            self.mechanism: Mechanism = named_mechanism(mechanism, **budget, **parameters)
        elif not isinstance(mechanism, Mechanism) or parameters or (epsilon, delta, rho) != (None, None, None):
            raise ArgumentError.of("mechanism", mechanism, "a name, or a mechanism that has all parameters already")
        else:
            self.mechanism = mechanism

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
        unit_key: bytes | None = None,
        time_limit: float | None = None,
        buy_share: float | None = None,
    ) -> Synthesizer:
        """Spend the budget on the records of a table.

        What is protected is one record, or, where the schema has a `unit`, one person with all rows: at most
        `unit.at_most` of them are counted, and the noise is made for as many.

        The mechanism knows the combinations that the schema calls impossible, and its model gives them no weight.
        `result_.details["structural_zeros"]` says where it cannot do that.

        Bounds, bins and values that the schema says are to be bought are bought first, with a share of the budget,
        under the same ledger (`pgmest.privacy.purchase`); `schema_` has them then.

        Args:
            table: a dataframe of any library, the path of a `.csv`, `.csv.gz` or `.parquet` file, or a Dataset that the
                schema encoded already.
            schema: a `pgmest.data.schema.Schema`, the path of its file, or a dict of the same form. It must be public.
            workload: the marginals that matter, in terms of the schema's columns: None for the mechanism's default,
                cliques, or a `pgmest.workloads` one.
            seed, progress, checkpoint, ledger, time_limit: as for `Mechanism.fit`. The secure noise never depends on a
                seed.
            allow_draft: whether a schema is accepted that still says `drafted_from_private_data: true`, or has lines
                marked as read from the private data. What is made with it is not private.
            unit_key: as `key` of `Schema.encode`: which rows of a person are counted; by default a new one.
            buy_share: of the budget, for what the schema says is to be bought; 0.1 by default.

        Returns:
            itself.

        Raises:
            SchemaError: the schema cannot be used, or is a draft.
            DataError, FileFormatError, ArgumentError: the table cannot be read; nothing was spent.
            ImpossibleModelError: by the schema no record is possible; nothing was spent.
        """
        known = _as_schema(schema)
        check_public(known, allow_draft)
        options = {"progress": progress, "checkpoint": checkpoint, "ledger": ledger, "time_limit": time_limit}
        if known.bought:
            self._fit_bought(known, table, workload, seed, unit_key, buy_share, options)
        else:
            if buy_share is not None:
                raise ArgumentError(f"buy_share= says what bounds may cost, but {known.source} has none to be bought.")
            data = table if isinstance(table, Dataset) else known.encode(table, key=unit_key)
            _check_bounded(known, data)
            if data.domain != known.domain:
                raise DomainError(f"the data are over {data.domain}, but the schema describes {known.domain}.")
            self.result_ = with_schema(self.mechanism, known).fit(data, workload, seed, **options)
            self.schema_, self.bought_ = known, {}
        self._like = _library(table)
        self._describe()
        return self

    def _fit_bought(
        self,
        schema: Schema,
        table: Any,
        workload: Any,
        seed: Any,
        unit_key: bytes | None,
        share: float | None,
        options: dict[str, Any],
    ) -> None:
        """Buy what the schema lacks, then fit, both under one curator."""
        if isinstance(table, Dataset):
            raise ArgumentError.of(
                "table", type(table).__name__, "the raw table, as nothing has codes before it is bought"
            )
        mechanism, drafting = drafting_of(with_schema(self.mechanism, schema), schema, share)
        check_workload(schema, workload)
        raw = RawTable.of(schema.table_file(table), schema, unit_key)
        result = mechanism.fit(raw, workload, seed, **options, drafting=drafting)
        stated = dataclasses.replace(self.mechanism, neighbors=result.mechanism.neighbors)
        self.schema_, self.bought_ = drafting.bought.schema, drafting.bought.found
        self.result_ = dataclasses.replace(
            result, mechanism=stated, details={**result.details, "bought": dict(self.bought_)}
        )

    def _describe(self) -> None:
        """Let the model say, in its file, too, what its codes stand for and what is promised of it."""
        if isinstance(self.model_, ModelBase):
            source = Path(self.schema_.source).name
            statement = PrivacyStatement.of(
                self.result_.mechanism, self.result_.ledger, schema=source, drafted=self.schema_.drafted
            )
            schema = {**self.schema_.description, **({"drafted_from_private_data": True} if statement.drafted else {})}
            self.model_.describe(schema=schema, privacy=statement.to_json())

    @property
    def model_(self) -> Any:
        """The model of the result."""
        return self._loaded if hasattr(self, "_loaded") else self._fitted().model

    @property
    def privacy_(self) -> Mapping[str, Any]:
        """What is promised of the model, in words and numbers (`pgmest.privacy.PrivacyStatement`)."""
        return self.model_.about.get("privacy", {})

    def save(self, path: str | Path) -> None:
        """Write the model with the schema and the privacy statement to an npz file; all in it may be published.

        `load` reads it, and so does `pgmest.load`, for the model alone. Result and ledger are not in it.

        Raises:
            ArgumentError: not fitted yet, or a model without a file format.
            FileFormatError: the file cannot be written.
        """
        if not isinstance(self.model_, ModelBase):
            raise ArgumentError(f"a {type(self.model_).__name__} has no file format.")
        self.model_.save(path)

    @classmethod
    def load(cls, path: str | Path) -> Synthesizer:
        """A synthesizer that `save` wrote: it samples, and has `model_`, `schema_` and `privacy_`.

        Raises:
            FileFormatError: the file cannot be read, or has no schema.
        """
        from pgmest.data.schema import Schema
        from pgmest.models.files import load

        model = load(path)
        if "schema" not in model.about:
            remedy = "pgmest.load reads a model alone; Synthesizer.save writes one with its schema."
            raise FileFormatError.of(path, "a model without a schema.", remedy)
        loaded = cls.__new__(cls)
        loaded._loaded, loaded._like = model, "pandas"
        loaded.schema_ = dataclasses.replace(Schema.from_dict(model.about["schema"]), source=str(path))
        return loaded

    @property
    def ledger_(self) -> Statement:
        """What was spent, on what, in order."""
        return self._fitted().ledger

    def sample(
        self,
        n: int | None = None,
        seed: int | np.random.Generator | None = None,
        *,
        written: bool = False,
        given: Any = None,
    ) -> Any:
        """A synthetic table of the kind that `fit` got: polars, pyarrow, and pandas for all others.

        Args:
            n: how many rows; by default the model's estimated total, never the true number.
            seed: the same seed gives the same rows.
            written: whether dates are texts in their column's `format`, as in a CSV file.
            given: a dataframe with some of the columns. Each of its rows is completed: the other columns are drawn
                given what it says, and its own columns stay as they are. `n` is then left out.

        Raises:
            ImpossibleModelError: a row of `given` has probability 0.
            DataError: `given` has a column that the schema does not have, or none.
            ArgumentError: not fitted yet, or n is not an integer of at least 0.
        """
        model, generator = self.model_, np.random.default_rng(seed)
        if given is not None:
            return completed(model, self.schema_, given, n, generator, written)
        return self.schema_.decode(model.sample(n, seed=generator), generator, self._like, written=written)

    def report(self, out: str | Path = "report.html") -> Path:
        """Write the page that may be published with the synthetic table; `owner_report` is the other one.

        Raises:
            ArgumentError: not fitted yet.
            OptionalDependencyError: matplotlib is not installed.
            FileFormatError: the file cannot be written.
        """
        from pgmest.evaluation import report

        result = self._fitted()
        return report(None, result, out=out, schema=self.schema_)

    def owner_report(
        self, table: Any, out: str | Path = "PRIVATE-report.html", check: TableCheck | None = None
    ) -> Path:
        """Write the page that compares with the private table, without noise: **it must not be published.**

        It begins with what the schema made of the raw table (`Schema.check`), as everything below it compares codes.

        Args:
            table: what `fit` got.
            out: the file.
            check: what `Schema.check` made of the raw table, where `table` is what the schema encoded.

        Raises:
            as `report`; and as `fit` for the table.
        """
        from pgmest.evaluation import report

        result = self._fitted()
        if isinstance(table, Dataset):
            return report(table, result, out=out, schema=self.schema_, check=check)
        check = self.schema_.check(table) if check is None else check
        return report(self.schema_.encode(table), result, out=out, schema=self.schema_, check=check)

    def _fitted(self) -> Result:
        if hasattr(self, "_loaded"):
            raise ArgumentError("this Synthesizer was loaded from a file, which has no result and no ledger.")
        if not hasattr(self, "result_"):
            raise ArgumentError("this Synthesizer has not seen a table yet: call fit(table, schema) first.")
        return self.result_

    def __repr__(self) -> str:
        if hasattr(self, "_loaded"):
            return f"Synthesizer(loaded, {self._loaded!r})"
        return f"Synthesizer({self.mechanism!r}{', fitted' if hasattr(self, 'result_') else ''})"


def with_schema(mechanism: Mechanism, schema: Schema) -> Mechanism:
    """The mechanism, knowing what the schema calls impossible."""
    rules = [*zero_rules(mechanism.structural_zeros), *zero_rules(schema.structural_zeros)]
    return dataclasses.replace(mechanism, structural_zeros=rules)


def check_public(schema: Schema, allow_draft: bool = False) -> None:
    """See that a schema does not say that it was read from private data.

    Raises:
        SchemaError: it does, and that is not allowed.
    """
    if not schema.drafted or allow_draft:
        return
    remedy = "or say allow_draft (--allow-draft) for a trial that is NOT private."
    if not schema.marked_lines:
        raise SchemaError(
            f"{schema.source} still says drafted_from_private_data: true. Replace what is marked in it by public "
            f"knowledge, and delete that line; {remedy}"
        )
    lines = listed(list(map(str, schema.marked_lines)), 8)
    raise SchemaError(
        f"{schema.source} still says READ FROM THE PRIVATE DATA (line {lines}). Replace what stands there by public "
        f"knowledge, then delete the mark, and the line drafted_from_private_data: true; {remedy}"
    )


def _check_bounded(schema: Schema, data: Dataset) -> None:
    """See that persons have as few records as the schema's unit says."""
    if schema.unit and (data.records_per_person or math.inf) > schema.unit.at_most:
        raise ArgumentError(
            f"{schema.source} has a unit, but the data were not bounded to {plural(schema.unit.at_most, 'record')} of "
            "a person: give the raw table, or what this schema's encode made of it."
        )


def _as_schema(schema: Any) -> Schema:
    from pgmest.data.schema import Schema

    if isinstance(schema, Schema):
        return schema
    if isinstance(schema, str | Path):
        return Schema.load(schema)
    if isinstance(schema, Mapping):
        return Schema.from_dict(schema)
    raise ArgumentError.of("schema", schema, "a pgmest.data.schema.Schema, the path of its file, or a dict")


def _library(table: Any) -> str:
    library = type(table).__module__.partition(".")[0]
    return library if library in ("polars", "pyarrow") else "pandas"
