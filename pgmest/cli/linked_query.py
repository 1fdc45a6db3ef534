"""`pgmest query` of linked tables: counts of the rows of each table, and questions about whole households."""

from __future__ import annotations

import argparse
import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.cli.answers import number_texts, write_answers
from pgmest.cli.cliques import clique_of
from pgmest.cli.command import Add, count
from pgmest.cli.given import read_conditions
from pgmest.errors import ArgumentError, SchemaError, UnknownAttributeError, listed

if TYPE_CHECKING:
    from pgmest.mechanisms.linked.linked_model import LinkedModel
    from pgmest.synthesizer.linked import LinkedFit

MEASURES = ("count", "share", "mean")
"""The choices of --measure."""
INTERVALS = ("auto", "errors", "none")
"""The choices of --interval for linked tables."""
UNITS = ("how_many", "most", "having")
"""The options for questions about whole rows of the root."""

HELP = """\
Of linked tables, such as persons in households (pgmest synthesize writes synthetic/model.npz), TABLE:ATTRIBUTES counts
rows of a table; without TABLE:, of the highest one that has the attributes itself or in the row above. TABLE alone is
the number of its rows, and --given takes columns of the table and of the row above:

  pgmest query synthetic/model.npz persons:age,sex households:region,size
  pgmest query synthetic/model.npz persons:region --given age=75..
  pgmest query synthetic/model.npz "persons.work,another of persons.work"        (two persons of one household)

--how-many TABLE NAME=VALUE ... asks how many rows with these values each household has; --most 3 counts 3 and more as
one, so that --most 1 asks whether there is someone. --having TABLE NAME=VALUE ... restricts the question to households
with such a row. --measure says what is wanted of the households: their number (count), their share of all or of those
given (share), or the mean number of such rows in each (mean):

  pgmest query synthetic/model.npz households --how-many persons role=child --most 3     (with 0, 1, 2, 3+ children)
  pgmest query synthetic/model.npz region --how-many persons age=75.. --most 1 --measure share   (someone of 75 or more)
  pgmest query synthetic/model.npz region --how-many persons role=child --measure mean    (children for each household)
  pgmest query synthetic/model.npz region --having persons age=75.. work=True

Values are shown as the schema has them. If a table has a colon in its name, or an attribute has the name of a table,
write the attributes as a JSON list: persons:'["age"]'. Names with blanks need quotes for the shell.
"""


@dataclass(frozen=True)
class LinkedAnswer:
    """An answer about linked tables.

    Attributes:
        labels: attribute -> the values that its cells have, in order.
        measure: "count", "share" or "mean".
        values: the answers, shape (cells,), row-major; NaN for a mean of nothing.
        ends: the ends of their intervals; None without intervals.
        level: the probability that an interval contains the truth.
    """

    labels: Mapping[str, Sequence[Any]]
    measure: str
    values: np.ndarray
    ends: tuple[np.ndarray, np.ndarray] | None
    level: float

    @classmethod
    def of(cls, frame: Any, measure: str, level: float, intervals: bool) -> LinkedAnswer:
        """Return the answer in a dataframe of `Synthesizer.interval`, whose last columns are the numbers."""
        import narwhals as nw

        columns = nw.from_native(frame, eager_only=True)
        numbers = [columns[name].to_numpy().astype(np.float64) for name in columns.columns[-3:]]
        labels = {name: list(dict.fromkeys(columns[name].to_list())) for name in columns.columns[:-3]}
        return cls(labels, measure, numbers[0], (numbers[1], numbers[2]) if intervals else None, level)

    @property
    def margin(self) -> np.ndarray:
        """The margin of error of each answer: the truth is within this distance."""
        assert self.ends is not None
        return np.maximum(self.ends[1] - self.values, self.values - self.ends[0])

    def rows(self, rounded: bool = False) -> Iterator[Sequence[Any]]:
        """Yield the heading, and a row for each cell; numbers as for `number_texts`."""
        yield [*self.labels, self.measure, *([] if self.ends is None else ["+-", "low", "high"])]
        shape = [len(texts) for texts in self.labels.values()]
        columns = [self.values, *([] if self.ends is None else [self.margin, *self.ends])]
        for place, cell in enumerate(np.ndindex(*shape)):
            named = [texts[code] for texts, code in zip(self.labels.values(), cell, strict=True)]
            yield [*named, *number_texts([float(column[place]) for column in columns], rounded)]

    def to_json(self) -> dict[str, Any]:
        """Return the answer as JSON values; numbers are nested lists with an axis per attribute."""
        shape = [len(texts) for texts in self.labels.values()]

        def nested(values: np.ndarray) -> Any:
            plain = [value if math.isfinite(value) else None for value in values.tolist()]
            return np.array(plain, dtype=object).reshape(shape).tolist()

        entry = {"attributes": list(self.labels), f"{self.measure}s": nested(self.values)}
        if self.ends is not None:
            low, high = self.ends
            entry |= {"margin": nested(self.margin), "low": nested(low), "high": nested(high), "level": self.level}
        return entry | {"labels": {name: [str(text) for text in texts] for name, texts in self.labels.items()}}


def linked_options(add: Add) -> None:
    """Add the options for linked tables."""
    linked = add.to("linked tables")
    text = "count households by their number of rows of a table with these values; may be repeated"
    linked("--how-many", nargs="+", action="append", default=[], metavar=("TABLE", "NAME=VALUE"), help=text)
    text = "larger numbers of --how-many count as this one; one for all, or one for each --how-many, in order"
    linked("--most", type=count, action="append", default=[], metavar="N", help=text)
    text = "of households with a row of a table with these values only; may be repeated"
    linked("--having", nargs="+", action="append", default=[], metavar=("TABLE", "NAME=VALUE"), help=text)
    text = "the number of whole households, their share, or a mean over them (default: %(default)s)"
    linked("--measure", choices=MEASURES, default="count", help=text)


def check_flat(options: argparse.Namespace) -> None:
    """Raise ArgumentError if an option was given that is for linked tables."""
    used = [f"--{name.replace('_', '-')}" for name in UNITS if getattr(options, name)]
    used += ["--measure"] if options.measure != "count" else []
    if used:
        raise ArgumentError(f"{options.model} is the model of a single table, and {listed(used)} is for linked tables.")


def query_linked(options: argparse.Namespace, model: LinkedModel) -> None:
    """Run `pgmest query` on a file of linked tables."""
    for name in ("codes", "weighted"):
        if getattr(options, name):
            raise ArgumentError(f"--{name} is for the model of a single table: leave it out.")
    if options.about == "population":
        raise ArgumentError.of(
            "--about", options.about, "table for linked tables, whose intervals are about nothing else"
        )
    if options.interval not in INTERVALS:
        raise ArgumentError.of("--interval", options.interval, f"one of {listed(INTERVALS)} for linked tables")
    fit = _fit(options, model)
    given = given_of(fit, options.given)
    for words in options.having:
        given[_how_many("--having", words, None)] = (1, None)
    numbers = [
        _how_many("--how-many", words, most) for words, most in zip(options.how_many, _largest(options), strict=True)
    ]
    intervals = options.interval != "none"
    answers = []
    for text in options.cliques:
        table, names = _table_and_names(text, model.counted)
        asked: list[Any] = [*numbers, *names] if options.measure == "mean" else [*names, *numbers]
        if not asked and table is None:
            raise ArgumentError.of("CLIQUE", text, "attributes, or a table whose rows are counted")
        if not asked and options.measure == "share":
            raise ArgumentError(f"'{text}' is all of what is given, so its share is 1: name attributes, or --how-many.")
        kind = {"level": options.level, "kind": options.interval if intervals else "auto", "about": "table"}
        try:
            frame = fit.interval(asked, given, table, options.measure, kind)
        except UnknownAttributeError as error:
            _explain(error, fit, text, table)
            raise
        answers.append(LinkedAnswer.of(frame, options.measure, options.level, intervals))
    write_answers(answers, options.json, options.out, model.rows_counted)


def given_of(fit: LinkedFit, texts: Sequence[str] | None) -> dict[Any, Any]:
    """Return the conditions of --given on linked tables, those on numbers of rows as numbers."""
    given = read_conditions("--given", texts or ())
    return {name: _number_given(value, name) if fit.is_number(name) else value for name, value in given.items()}


def _largest(options: argparse.Namespace) -> list[int | None]:
    """Return the largest number that each --how-many tells apart; None for all of them."""
    asked, most = len(options.how_many), list[int | None](options.most)
    if not most:
        return [None] * asked
    if len(most) == 1 and asked:
        return most * asked
    if len(most) != asked:
        raise ArgumentError.of("--most", most, "one number, or one for each --how-many")
    return most


def _explain(error: UnknownAttributeError, fit: LinkedFit, text: str, table: str | None) -> None:
    """Raise ArgumentError if what is no attribute was meant as a table, or is part of the name of one."""
    start, colon, _ = text.partition(":")
    if table is None and colon and not text.lstrip().startswith("[") and not {",", "."} & set(start):
        raise ArgumentError.of(
            "TABLE", start, f"one of {listed(fit.made.counted)}, or part of an attribute's name"
        ) from None
    near = difflib.get_close_matches(start, fit.schema.tables, n=1)
    if near and near[0] not in text:
        raise ArgumentError(f"{error} '{near[0]}' is a table, whose rows '{near[0]}' counts.") from None


def _fit(options: argparse.Namespace, model: LinkedModel) -> LinkedFit:
    """Return the tables of a file with their schema: that of --schema, or the file's own."""
    from pgmest.schema import LinkedSchema, Schema
    from pgmest.schema.linked.decoding import check_fits
    from pgmest.synthesizer.linked import LinkedFit

    if options.schema is not None:
        schema = Schema.load(options.schema)
        if not isinstance(schema, LinkedSchema):
            raise ArgumentError.of("--schema", options.schema, "the schema of the linked tables, with tables:")
        try:
            check_fits(schema, model.model)
        except SchemaError as error:
            raise ArgumentError(
                f"--schema: {options.schema} is not the schema of {options.model}, as {error}"
            ) from None
        model.describe(schema=dict(schema.description))
    elif "schema" not in model.about:
        raise ArgumentError(f"{options.model} has no schema, so that no value has a name: give --schema FILE.")
    return LinkedFit.load(model, options.model)


def _table_and_names(text: str, tables: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
    """Return the table that TABLE:ATTRIBUTES counts rows of, None if it does not say so, and the attributes."""
    if text.strip() in tables:
        return text.strip(), ()
    found = [name for name in tables if text.startswith(f"{name}:")]
    table = max(found, key=len, default=None)
    rest = text if table is None else text[len(table) + 1 :]
    return table, clique_of(rest) if rest.strip() else ()


def _how_many(option: str, words: Sequence[str], most: int | None) -> Any:
    from pgmest.synthesizer.how_many import HowMany

    if "=" in words[0]:
        raise ArgumentError.of(option, words[0], f"a table first, such as {option} persons {words[0]}")
    name = f"number of {words[0]}" + (f" with {', '.join(words[1:])}" if words[1:] else "")
    return HowMany(words[0], read_conditions(option, words[1:]), most, name)


def _number_given(value: Any, name: str) -> Any:
    """Return a condition on a number of rows, which is read as texts, as numbers."""
    try:
        if isinstance(value, tuple):
            return tuple(None if end is None else int(end) for end in value)
        return [int(one) for one in value] if isinstance(value, list) else int(value)
    except (TypeError, ValueError):
        raise ArgumentError.of(
            "--given", f"{name}={value}", "a whole number, several, or a range such as 2..4"
        ) from None
