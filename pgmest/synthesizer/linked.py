"""Linked tables in a Synthesizer: persons in households, visits of patients."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np

from pgmest.analyses.sampled_tables import SampledTables
from pgmest.data.linked import LinkedDataset
from pgmest.data.linked_names import ANOTHER, NEXT, number_of
from pgmest.data.names import are_numbers, other_names, public_numbers, renamed
from pgmest.errors import ArgumentError, FileFormatError, ImpossibleModelError, QueryError, SchemaError, excerpt, listed
from pgmest.mechanisms.linked import LinkedLAMP
from pgmest.mechanisms.linked.linked_model import LinkedModel
from pgmest.mechanisms.linked.questions import check_known, full_name, table_of
from pgmest.models.files import REMEDY
from pgmest.queries.levels import named_levels
from pgmest.schema import Schema
from pgmest.schema.given import read_given
from pgmest.schema.linked.check import LinkedCheck
from pgmest.schema.linked.decoding import check_fits, decode
from pgmest.schema.linked.schema import LinkedSchema, TableSchema
from pgmest.schema.type_check import check_types
from pgmest.synthesizer.how_many import HowMany
from pgmest.synthesizer.selected_counts import counts_table
from pgmest.synthesizer.unit_values import allowed
from pgmest.synthesizer.weighted_tables import weighted_tables
from pgmest.synthesizer.whole_units import WholeUnits


class LinkedMechanism(Protocol):
    """A mechanism for linked tables, which keeps their rules and the structural zeros of each."""

    def fit(self, linked: LinkedDataset, /, *, seed: Any = None, **options: Any) -> Any:
        """Spend the budget on linked tables, and return a result with `sample(units, *, seed) -> LinkedDataset`."""
        ...


@dataclass(frozen=True, eq=False)
class LinkedFit:
    """The synthetic tables of a mechanism, or of a file, with the schema that decodes them.

    Attributes:
        schema: the schema, with the types of the fitted tables.
        made: the result of the mechanism, or the `LinkedModel` of a file.
        names: table -> the names of its columns that are no texts, by their texts.
        result: the result of the mechanism; None for the tables of a file.
    """

    schema: LinkedSchema
    made: Any
    names: Mapping[str, dict[str, Any]]
    result: Any = None

    @classmethod
    def of(
        cls,
        mechanism: LinkedMechanism,
        schema: LinkedSchema,
        tables: Any,
        seed: Any,
        key: bytes | None,
        options: Mapping[str, Any],
    ) -> LinkedFit:
        """Run a mechanism on linked tables; see `Synthesizer.fit`.

        Args:
            mechanism: the mechanism, whose `fit` takes a LinkedDataset.
            schema: the schema.
            tables: the raw tables by name, or a LinkedDataset that the schema encoded.
            seed: as for `Mechanism.fit`.
            key: the key of `LinkedSchema.encode`.
            options: further arguments of `fit`; those that are None are left out.
        """
        given = {name: value for name, value in options.items() if value is not None}
        names: dict[str, dict[str, Any]] = {}
        if isinstance(tables, LinkedDataset):
            check_fits(schema, tables)
            if tables.unit != schema.protected:
                raise SchemaError(
                    f"the data protect rows of '{tables.unit}', but {schema.source} those of '{schema.protected}' "
                    "(unit:): encode the tables with this schema."
                )
            linked = tables
        else:
            schema = schema.typed(tables)
            for name, given_table in schema.given(tables).items():
                check_types(schema.parts[name].schema, given_table)
            linked = schema.encode(tables, key=key)
            names = {name: other_names(table) for name, table in tables.items()}
        result = mechanism.fit(linked, seed=seed, **given)
        fit = cls(schema, result, names, result)
        fit._describe()
        return fit

    def _describe(self) -> None:
        """Attach the schema and the privacy statement to the tables, which save them in their file."""
        if not isinstance(self.made, LinkedModel):
            return
        drafted = {"drafted_from_private_data": True} if self.schema.drafted else {}
        frames = {name: part.schema.frame for name, part in self.schema.parts.items()}
        described = {name: () if frame is None else frame.columns for name, frame in frames.items()}
        numbers = {name: public_numbers(own, described[name]) for name, own in self.names.items()}
        named = {"names": numbers} if any(numbers.values()) else {}
        self.made.describe(schema={**self.schema.description, **drafted}, privacy=self.privacy, **named)

    @classmethod
    def load(cls, model: LinkedModel, path: str | Path) -> LinkedFit:
        """Return the tables of a file; see `Synthesizer.load`.

        Args:
            model: what the file holds.
            path: the file.

        Raises:
            FileFormatError: the file has no schema, or that of other tables.
        """
        if "schema" not in model.about:
            remedy = "pgmest.load reads the tables alone; Synthesizer.save writes them with their schema."
            raise FileFormatError.of(path, "linked tables without a schema.", remedy)
        try:
            schema = Schema.from_dict(model.about["schema"])
            if not isinstance(schema, LinkedSchema):
                raise SchemaError("it describes a single table.")
            check_fits(schema, model.model)
        except (SchemaError, ArgumentError) as error:
            raise FileFormatError.of(
                path, f"its schema does not fit its tables ({error})", REMEDY.format("save(...)")
            ) from None
        names = model.about.get("names", {})
        if not isinstance(names, dict) or not all(map(are_numbers, names.values())):
            raise FileFormatError.of(path, "wrong names of columns.", REMEDY.format("save(...)"))
        with_rules = replace(model, model=replace(model.model, rules=schema.rules))
        return cls(replace(schema, source=str(path)), with_rules, names)

    @property
    def columns(self) -> np.ndarray:
        """The names of the attributes, each after its table: "persons.age"."""
        parts = self.schema.parts.items()
        return np.array([f"{name}.{column}" for name, part in parts for column in part.schema.domain], dtype=object)

    @property
    def model(self) -> Any:
        """The synthetic linked tables, in codes."""
        return self.made.model

    @property
    def bought(self) -> Mapping[str, str]:
        """Nothing, as the schema of linked tables leaves nothing open."""
        return {}

    @property
    def privacy(self) -> dict[str, Any]:
        """The privacy statement, as JSON values."""
        if self.result is None:
            return self.made.about.get("privacy", {})
        from pgmest.evaluation.reports.linked import statement_of

        return statement_of(self.result, self.schema).to_json()

    def kept_pairs(self, result: Any) -> None:
        """Return None, since the pairs of linked tables are not listed; see `Synthesizer.kept_`."""

    def save(self, path: str | Path) -> None:
        """Write the tables, the noisy answers behind them and the schema to a file; see `Synthesizer.save`."""
        self._with_answers.save(path)

    @property
    def _with_answers(self) -> LinkedModel:
        """The synthetic tables with the noisy answers behind them.

        Raises:
            ArgumentError: the mechanism does not tell its answers.
        """
        if not isinstance(self.made, LinkedModel):
            raise ArgumentError(f"a {type(self.made).__name__} has no intervals and no file; that of LinkedLAMP has.")
        return self.made

    def sample(
        self, units: int | None, generator: np.random.Generator, written: Any, given: Any, expanded: bool
    ) -> dict[str, Any]:
        """Return synthetic tables by name; see `Synthesizer.sample`."""
        if expanded:
            raise ArgumentError.of("expanded", expanded, "False for linked tables, whose schema has no weight")
        if given is not None:
            return self._sample_given(units, generator, written, given)
        return self.decoded(self.made.sample(units, seed=generator), generator, written)

    def _sample_given(self, n: int | None, generator: np.random.Generator, written: Any, given: Any) -> dict[str, Any]:
        """Return n synthetic rows of the root with given values, and what hangs on them; by default all of these.

        Raises:
            ArgumentError: the conditions are about anything but columns of the root and numbers of rows.
            ImpossibleModelError: no synthetic row of the root has the values.
        """
        root, units = self.schema.root, self._whole_units
        if not isinstance(given, Mapping) or not all(isinstance(name, str | HowMany) for name in given):
            expected = f"a mapping of columns of '{root}', numbers of rows or pgmest.HowMany to values"
            raise ArgumentError.of("given", excerpt(given), f"{expected}, as linked tables are drawn as a whole")
        weights, own = np.ones(len(units.linked)), {}
        for name, value in given.items():
            if isinstance(name, HowMany):
                self._check_whole_bins(str(name), name.table, name.given)
            elif (column := name.removeprefix(f"{root}.")) in self._bound_columns:
                self._check_whole_bins(f"'{column}'", root, {column: value})
            elif column in self.schema.parts[root].schema.domain:
                own[column] = value
            weights = weights * units.attribute(name).weights(value)
        kept = np.flatnonzero(generator.random(len(weights)) < weights)  # a part of a bin is a part of its rows
        kept = kept if len(kept) else np.flatnonzero(weights)
        if not len(kept):
            shown = ", ".join(f"{name}={excerpt(value)}" for name, value in given.items())
            raise ImpossibleModelError(f"no synthetic row of '{root}' has {shown}.")
        linked = replace(self._with_answers, model=units.linked.take(kept)).sample(n, seed=generator)
        values = read_given(self.schema.parts[root].schema, own).values(linked.tables[root].dataset, generator)
        return self.decoded(linked, generator, written, values)

    @property
    def _bound_columns(self) -> set[str]:
        """The columns of the root whose values depend on the rows that hang on it, by `ordered`."""
        root = self.schema.root
        found = {one.above for name in self.schema.children(root) for one in self.schema.parts[name].orders_above}
        ordered = set(self.schema.parts[root].schema.order.columns)
        return found | ordered if found & ordered else found

    def _check_whole_bins(self, asked: str, table: str, given: Mapping[str, Any]) -> None:
        """Raise ArgumentError if a condition takes a part of a bin, whose values are drawn later."""
        part = self.schema.parts.get(table)
        conditions = read_given(part.schema, given) if part else None
        for column, weights in conditions.weights.items() if conditions else ():
            bins = conditions.bins.get(column) if conditions else None
            points = bins is not None and bins.points is not None and bins.points.dtype.kind == "f"
            if points or not np.isin(weights, (0.0, 1.0)).all():
                raise ArgumentError(
                    f"given= with {asked} takes a part of a bin of '{column}': state a range that begins and ends "
                    f"with bins, which are {listed(part.schema.labels(column)) if part else ''}."
                )

    def decoded(
        self,
        linked: LinkedDataset,
        generator: np.random.Generator,
        written: Any = False,
        known: Mapping[str, np.ndarray] | None = None,
    ) -> dict[str, Any]:
        """Return tables of linked codes by name, with the names of columns that the fitted tables have.

        Args:
            linked: the codes.
            generator: of the values within bins.
            written: as for `Synthesizer.sample`.
            known: numbers of columns of the root that are drawn already, in units of `Grid.points`.
        """
        tables = decode(self.schema, linked, generator, self.schema.library, written, known or {})
        return {name: renamed(table, self.names.get(name, {})) for name, table in tables.items()}

    def interval(
        self, attributes: Any, given: Mapping[Any, Any], table: str | None, measure: str, options: Mapping[str, Any]
    ) -> Any:
        """Return the counts of a table and their intervals, with labels; see `Synthesizer.interval`."""
        made = self._with_answers
        asked: list[Any] = [attributes]
        if not isinstance(attributes, str | HowMany) and not callable(attributes):
            asked = list(attributes)
        if measure != "count" or not all(isinstance(one, str) for one in (*asked, *given)):
            return self._of_units(asked, given, table, measure, options)
        own = [self.computed(name) for name in (*asked, *given)]
        counted = table_of(made, tuple(own), table)
        check_known(counted, tuple(own))
        domain = made.domain_of(counted)
        full = [full_name(name, domain) for name in own]
        levels = named_levels(domain, full[: len(asked)])
        clique = tuple(one.name for one in levels)
        sizes = [one.size or domain[one.attribute] for one in levels]
        labels = {name: self.labels(one, size) for name, one, size in zip(asked, clique, sizes, strict=True)}
        conditions = zip(named_levels(domain, full[len(asked) :]), given.values(), strict=True)
        weights = {one.attribute: self.weights(one.name, value, domain[one.attribute]) for one, value in conditions}
        return counts_table(made.model_of(counted), domain, labels, clique, weights, self.schema.library, options)

    def _of_units(
        self, asked: list[Any], given: Mapping[Any, Any], table: str | None, measure: str, options: Mapping[str, Any]
    ) -> Any:
        """Return counts, shares or means of rows of the root, with labels; see `Synthesizer.interval`."""
        root = self.schema.root
        if table not in (None, root):
            raise ArgumentError.of(
                "table", table, f"'{root}', as HowMany, functions, shares and means are about its rows"
            )
        if options["kind"] not in ("auto", "errors") or options["about"] != "table":
            shown = {name: options[name] for name in ("kind", "about")}
            raise ArgumentError.of(
                "kind and about", shown, '"auto" and "table" for questions about whole rows of the root'
            )
        return self._whole_units.table(asked, given, measure, options["level"])

    @cached_property
    def _whole_units(self) -> WholeUnits:
        """The synthetic rows of the root with what hangs on them, for questions about them."""
        return WholeUnits(self._with_answers, self.schema, self)

    def project(self, attributes: Any, given: Any) -> NoReturn:
        """Raise ArgumentError; see `Synthesizer.project`."""
        raise ArgumentError("linked tables have `interval`, which returns their counts with intervals.")

    def weighted(self, attributes: Any) -> NoReturn:
        """Raise ArgumentError; see `Synthesizer.weighted`."""
        raise ArgumentError("linked tables have no weighted tables, since their schema has no weight.")

    def sample_tables(
        self, m: int, n: int | None, attributes: Any, about: Any, generator: np.random.Generator, written: Any
    ) -> SampledTables[dict[str, Any]]:
        """Return m sets of tables that differ in a column of weights alone; see `Synthesizer.sample_tables`."""
        made = self._with_answers
        for name, value in {"n": n, "attributes": attributes}.items():
            if value is not None:
                raise ArgumentError.of(name, value, "left out for linked tables, all of whose units have weights")
        if about not in (None, "table"):
            raise ArgumentError.of("about", about, '"table" for linked tables; combine adds the error of sampling')
        drawn = made.unit_weights(m, seed=generator)
        linked = made.model.in_order()
        return weighted_tables(linked, self.decoded(linked, generator, written), drawn)

    def computed(self, name: str) -> str:
        """Return what the model calls an attribute: columns that count rows are a number of rows there.

        Raises:
            ArgumentError: a column of another table has the name, too.
        """
        counts = {
            f"{table}.{column}": of
            for table, part in self.schema.parts.items()
            for column, of in part.computed.items()
            if of is not None and name in (column, f"{table}.{column}")
        }
        others = [f"{table}.{name}" for table, part in self.schema.parts.items() if name in part.schema.domain]
        if counts and len(counts) + len(others) > 1:
            raise ArgumentError(f"'{name}' may be {listed([*counts, *others])}: name the table, too.")
        return number_of(next(iter(counts.values()))) if counts else name

    def is_number(self, name: str) -> bool:
        """Return whether an attribute is a number of rows, such as a column that counts persons."""
        computed = self.computed(name)
        return computed != name or any(computed == one.layout.number for one in self._with_answers.runs.values())

    def labels(self, name: str, size: int) -> list[str]:
        """Return what the codes of an attribute of a model mean."""
        part, column = self._described(name)
        return [str(code) for code in range(size)] if part is None else part.schema.labels(column)

    def _described(self, name: str) -> tuple[TableSchema | None, str]:
        """Return the table that describes an attribute of a model and the column; None for a number of rows."""
        table, _, column = name.removeprefix(ANOTHER).removeprefix(NEXT).partition(".")
        part = self.schema.parts.get(table)
        known = part is not None and (column in part.schema.domain or part.schema.domain.names_levels(column))
        return (part, column) if known else (None, name)

    def weights(self, name: str, value: Any, size: int) -> np.ndarray:
        """Return the weight of each code of an attribute under a condition; of a number of rows, the numbers."""
        part, column = self._described(name)
        if part is not None:
            return next(iter(read_given(part.schema, {column: value}).weights.values()))
        found = allowed(np.arange(size), value, name)
        if not found.any():
            raise QueryError(f"given= leaves '{name}' no value: {excerpt(value)}, and it is 0 to {size - 1}.")
        return found

    def report(self, out: str | Path) -> Path:
        """Write a page that may be published; see `Synthesizer.report`."""
        from pgmest.evaluation.reports.linked import linked_report

        return linked_report(self.result, self.schema, out=out)

    def owner_report(self, tables: Any, out: str | Path, check: LinkedCheck | None = None) -> Path:
        """Write a page that compares with the private tables; see `Synthesizer.owner_report`."""
        from pgmest.evaluation.reports.linked import linked_report

        if isinstance(tables, LinkedDataset):
            return linked_report(self.result, self.schema, tables, check, out=out)
        check = self.schema.check(tables) if check is None else check
        return linked_report(self.result, self.schema, self.schema.encode(tables), check, out=out)


def linked_mechanism(mechanism: Any, budget: Mapping[str, Any], parameters: Mapping[str, Any]) -> Any:
    """Return the mechanism for linked tables.

    Args:
        mechanism: "lamp", or a mechanism whose `fit` takes a LinkedDataset.
        budget: epsilon, delta and rho.
        parameters: further parameters of the mechanism.

    Raises:
        ArgumentError: there is no mechanism of that name for linked tables; or as for the mechanism.
    """
    if not isinstance(mechanism, str):
        return mechanism
    if mechanism.lower() != "lamp":
        raise ArgumentError.of("mechanism", mechanism, "lamp, the mechanism for linked tables")
    known = [field.name for field in dataclasses.fields(LinkedLAMP)]
    for name in parameters:
        if name not in known:
            raise ArgumentError(f"'{name}' is not a parameter of LinkedLAMP ({listed(known)}).")
    return LinkedLAMP(**budget, **parameters)


def check_linked_options(matters: Any, workload: Any, buy_share: Any) -> None:
    """Raise ArgumentError if an argument was given that is for a single table."""
    for name, value in {"matters": matters, "workload": workload, "buy_share": buy_share}.items():
        if value is not None:
            raise ArgumentError(f"{name}= is for a single table; the mechanism for linked tables does not take it.")
