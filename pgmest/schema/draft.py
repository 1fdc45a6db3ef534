"""A first schema, guessed from a table, with a marked line for each thing that its owner has to decide."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest._base.printable import on_one_line
from pgmest.data.beginning import extent_of
from pgmest.data.chunked_reader import read_pieces
from pgmest.data.frames import ReadingWarning
from pgmest.data.names import index_note
from pgmest.data.table_file import TableFile, is_file, table_file
from pgmest.data.values import Values, read_values
from pgmest.errors import DataError, SchemaError, listed, plural
from pgmest.schema.categorical import Categorical
from pgmest.schema.column import SchemaColumn
from pgmest.schema.draft_codes import chains_of, prefix_lines
from pgmest.schema.draft_levels import declared_levels, with_levels
from pgmest.schema.draft_rows import NAMED, PRIVATE_MARK, rows_decided, weight_lines, weights_in
from pgmest.schema.grid import Grid
from pgmest.schema.guess import Guess, guess
from pgmest.schema.identifiers import named_after_persons, named_as_identifier
from pgmest.schema.notation import quoted
from pgmest.schema.numerals import numbers_or_nan
from pgmest.schema.proposals import Coded, dependencies_in, orders_in, sums_in
from pgmest.schema.schema import DRAFT_MARK, Schema
from pgmest.schema.tally import Tally

DRAFT_OF_TABLES: list[Callable[[Mapping[str, Any], bool], str]] = []
"""The function that drafts a schema of linked tables; linked/draft.py imports this file and adds it."""

ROWS_READ = 1_000_000
"""At most this many rows are looked at, the first ones."""
MOST_UNITS, MOST_DEPENDENCIES = 3, 30
"""The largest numbers of proposals of each kind."""
ROWS_OF_UNIT = 1.5
"""The least number of rows, on average, of a unit that is not called an identifier."""

HEADER = f"""\
# A DRAFT, GUESSED FROM THE RECORDS. IT IS NOT SAFE TO PUBLISH, AND NEITHER IS ANYTHING MADE WITH IT.
# EACH LINE '{DRAFT_MARK}' IS A DECISION THAT NEEDS PUBLIC KNOWLEDGE: A CODE BOOK, A LAW, COMMON SENSE.
# CORRECT WHAT IT NAMES, THEN DELETE THE LINE; AT LAST DELETE THESE LINES AND THE NEXT ONE.
# AS LONG AS ONE SUCH LINE IS LEFT, THE SCHEMA IS REFUSED.
drafted_from_private_data: true
"""

DECISIONS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "THE RANGES": (
        ("min", "max", "bins", "edges", "points", "decimals", "unit"),
        "#   State the bounds that are public, and bins that suit them; a value in points has a bin alone.\n",
    ),
    "THE VALUES": (
        ("values", "labels", "other"),
        "#   List all that can occur, also what nobody has here. With outside: clip any other value counts as the\n"
        "#   nearest listed number, or as the first listed text; other: LABEL keeps such values apart.\n",
    ),
    "MISSING VALUES": (("missing",), "#   Say where a value can be missing, and what is written then.\n"),
    "THE NOTATION": (
        ("format", "ignore", "decimal", "written", "ignore_case"),
        "#   Say how values are written.\n",
    ),
}
"""The decisions that concern several columns: what they are about, the keys of a schema, and what is to be done."""

RELATIONS = """\
# These hold in all rows. Uncomment what must hold by its meaning, with the line constraints:, and delete the others.
# constraints:
"""


def draft(table: Any, *, bought: bool = False) -> str:
    """Return a draft of a schema for a raw table, in YAML: **its bounds and values are those of the records**.

    Few distinct numbers are codes, which are listed; the bounds of others are rounded outwards, and a value that many
    rows have is a bin alone. Of text the most frequent values are listed, rare ones never. Identifiers and free text
    are left out, with a comment; identifiers that have several rows are proposed as `unit:`, and columns called like
    survey weights, with numbers above 0 only, as `weight:`. Currency signs, thousands separators, formats of dates (day
    first where both are possible), capital and small letters, top bins such as 85+, and numbers that mean missing
    values, such as -99, are proposed; a few odd values do not change what a column is.
    Orders, sums and functional dependencies that hold in all rows stand at the end, as comments. Of a file, the
    delimiter, the encoding, titles above the header, a header of several rows, a missing one, and totals and notes
    below the table are guessed on strong evidence; a warning says so, and `file:` in the draft has the result.

    >>> import pandas as pd
    >>> text = draft(pd.DataFrame({"age": [23, 58, 41], "sex": ["F", "M", "F"]}))
    >>> print(text[text.index("columns:") :])
    columns:
      age:
        type: integer
        min: 0
        max: 59
      sex:
        type: categorical
        values: [F, M]
        outside: clip
    <BLANKLINE>

    Args:
        table: as for `Schema.encode`. The first 1,000,000 rows are read; if there are more, each line with a count or
            a value says so. A mapping of names to tables gives a draft of linked tables: columns whose values join are
            keys.
        bought: whether bounds and values are to be bought when the schema is used (`pgmest.synthesizer.purchase`)
            instead of being read here. Types, formats and markers of missing values are read nevertheless, and marked.

    Raises:
        DataError: the table has no rows or no columns.
        FileFormatError, ArgumentError: as for `Schema.encode`.
    """
    if isinstance(table, Mapping):
        return DRAFT_OF_TABLES[0](table, bought)
    table, notes, columns, mark = located(table)
    parts = drafted(table, notes, columns, len(next(iter(columns.values()))), bought=bought)
    text = "".join(parts.decisions) + parts.file + "columns:\n" + "".join(f"{line}\n" for line in parts.columns)
    text += "".join((*parts.units, *weight_lines(parts.weights)))
    text += (RELATIONS if parts.relations else "") + "".join(parts.relations)
    return HEADER + text.replace(PRIVATE_MARK, mark)


@dataclass(frozen=True)
class DraftParts:
    """The lines of a draft of one table.

    Attributes:
        decisions: what its owner has to decide, as comments.
        file: how the file is read.
        columns: the lines that describe the columns, indented by two blanks.
        units: identifiers that may be the unit of privacy, as comments.
        relations: constraints that hold in all rows, as comments.
        described: the columns as they are described.
        weights: columns that may be survey weights, with their greatest numbers.
    """

    decisions: Sequence[str]
    file: str
    columns: Sequence[str]
    units: Sequence[str]
    relations: Sequence[str]
    described: Sequence[SchemaColumn]
    weights: Mapping[str, float]


def drafted(
    table: Any, notes: Sequence[str], columns: Mapping[str, np.ndarray], rows: int, *, bought: bool = False
) -> DraftParts:
    """Return the lines of a draft of one table, or of some of its columns; see `draft`.

    Args:
        table: the table, as `located` returns it.
        notes: the notes of `located` on the table.
        columns: the values of its columns that the draft is about.
        rows: the number of rows that were read.
        bought: as for `draft`.
    """
    tallies = {name: Tally.of(values) for name, values in columns.items()}
    levels = {} if is_file(table) else declared_levels(table)
    guesses = {
        name: with_levels(guess(name, tally, amounts=bought), levels.get(name, ())) for name, tally in tallies.items()
    }
    described = _described(guesses)
    numbers = _numbers(described, guesses, columns)
    sums = {} if bought else sums_in(numbers)
    amounts = {name for total, parts in sums.items() for name in (total, *parts) if guesses[name].codes}
    if amounts:  # codes do not add up
        guesses |= {name: guess(name, tallies[name], amounts=True) for name in amounts}
        described = _described(guesses)
    relations = [] if bought else _that_fit(guesses, list(_relations(described, numbers, sums, columns)))
    known = {column.name: column for column in described}
    lines = []
    for name, one in guesses.items():
        lines += _entry(name, one, bought)
        if name in known:
            lines += [f"    {line}" for line in prefix_lines(known[name], PRIVATE_MARK)]
    if guesses and not described:
        text = "every column is left out of the draft: describe those that are to be kept (columns:)"
        warnings.warn(text, ReadingWarning, stacklevel=3)
    decisions = [*_decisions(guesses, rows, bought), *rows_decided(table, numbers)]
    file, units, weights = _file_lines(table, notes), list(_units(guesses)), weights_in(columns, numbers)
    return DraftParts(decisions, file, lines, units, relations, described, weights)


def located(table: Any) -> tuple[Any, Sequence[str], dict[str, np.ndarray], str]:
    """Return a table, what was decided about a file, which is also a warning, the columns with values, and a mark.

    A file is returned with the place where its table begins. The mark of lines that were read from the records says how
    many rows were read if there are more.

    Raises:
        DataError: the table has no rows or no columns.
        FileFormatError, ArgumentError: as for `Schema.encode`.
    """
    table, notes = _begun(table)
    columns = _columns(table)
    more = any(len(values) > ROWS_READ for values in columns.values())
    mark = f"{PRIVATE_MARK}, ITS FIRST {ROWS_READ:,} ROWS ALONE" if more else PRIVATE_MARK
    columns = {name: values[:ROWS_READ] for name, values in columns.items()}
    if not columns or not len(next(iter(columns.values()))):
        named = table if is_file(table) else "the table"
        raise DataError(
            f"{named} has no rows below its header, so there is nothing to guess from. Is it the right file?"
        )
    return table, notes, columns, mark


def _begun(table: Any) -> tuple[Any, Sequence[str]]:
    """Return a file with the place where its table begins, and what was decided about it, which is also a warning."""
    found = extent_of(table_file(table)) if is_file(table) else None
    note = index_note(table) if found is None else ""
    notes = (*([note] if note else []), *(found.notes if found else ()))
    for text in notes:
        warnings.warn(text, ReadingWarning, stacklevel=4)
    return (found.file, (*found.decided, *found.doubts)) if found else (table, notes)


def _file_lines(table: Any, notes: Sequence[str]) -> str:
    """Return the lines that say how the file is read, if the caller said so or it was guessed."""
    said = table.said if isinstance(table, TableFile) else {}
    options = ", ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in said.items())
    comments = "".join(f"# THE TABLE: {on_one_line(note)}.\n" for note in notes)
    return comments + (f"file: {{{options}}}\n" if options else "")


def _columns(table: Any) -> dict[str, np.ndarray]:
    """Return the values of each column, of more than `ROWS_READ` rows if there are more."""
    if not is_file(table):
        return {name: values.with_nulls() for name, values in read_values(table, rows=ROWS_READ + 1).items()}
    pieces: list[dict[str, Values]] = []
    for piece in read_pieces(table):
        pieces.append(piece)
        if sum(len(next(iter(piece.values()), ())) for piece in pieces) > ROWS_READ:
            break
    names = pieces[0] if pieces else ()
    return {name: np.concatenate([piece[name].with_nulls() for piece in pieces]) for name in names}


# -- columns ----------------------------------------------------------------------------------------------------------


def _decisions(guesses: Mapping[str, Guess], rows: int, bought: bool) -> Iterator[str]:
    """Yield the lines about decisions that concern several columns of a table with this many rows."""
    yield f"{PRIVATE_MARK}: THE TYPES of all columns, and which are left out.\n"
    verb = "was" if rows == 1 else "were"
    yield f"#   They were chosen by the values of the {plural(rows, 'row')} that {verb} read.\n"
    for what, (keys, advice) in DECISIONS.items():
        names = []
        for name, one in guesses.items():
            lines = [] if one.left_out else list(_lines(one, bought))
            said = {line.partition(":")[0] for line in lines if "bought" not in line}
            if said & set(keys) or (what == "THE VALUES" and "type: boolean" in lines):
                names.append(on_one_line(name))
        if names:
            yield f"{PRIVATE_MARK}: {what} of {listed(names, NAMED)}.\n{advice}"


def _entry(name: str, one: Guess, bought: bool = False) -> Iterator[str]:
    """Yield the lines that describe one column."""
    if one.left_out:
        yield f"  {PRIVATE_MARK}: {on_one_line(name)} IS LEFT OUT: {on_one_line(one.left_out)}."
        return
    yield f"  {quoted(name)}:"
    yield from (f"    {line}" for line in _lines(one, bought))
    if not bought:
        yield from (f"    {PRIVATE_MARK}: {on_one_line(note)}" for note in one.notes)


def _lines(one: Guess, bought: bool) -> Iterator[str]:
    """Yield the lines of a column; those of bounds and values say that they are to be bought, if they are."""
    replaced = {"min": "bounds: bought", "edges": "bounds: bought", "values": "values: bought"}
    lines = one.described()
    bought = bought and lines[0] not in ("type: time", "type: duration")  # of which nothing can be bought
    for line in lines:
        key = line.partition(":")[0]
        if not bought:
            yield line
        elif key in replaced:
            yield replaced[key]
            yield from ["other: other"] if key == "values" else []
        elif key not in ("max", "bins", "points", "other", "outside") and line != "unit: hour":
            yield line


def _described(guesses: Mapping[str, Guess]) -> Sequence[SchemaColumn]:
    """Return the columns of a draft; none if all were left out."""
    lines = _column_lines(guesses)
    return Schema.parse("columns:\n" + lines).described if lines else ()


def _column_lines(guesses: Mapping[str, Guess]) -> str:
    lines = (line for name, one in guesses.items() if not one.left_out for line in _entry(name, one))
    return "".join(f"{line}\n" for line in lines)


# -- what holds between columns ---------------------------------------------------------------------------------------


def _that_fit(guesses: Mapping[str, Guess], relations: Sequence[str]) -> Sequence[str]:
    """Return the relations that a schema can state together; of those that it cannot, the first ones."""
    columns = f"columns:\n{_column_lines(guesses)}constraints:\n"

    def fit(chosen: Sequence[str]) -> bool:
        with contextlib.suppress(SchemaError):
            Schema.parse(columns + "".join(line.removeprefix("#") for line in chosen))
            return True
        return False

    if not relations or fit(relations):
        return relations
    kept: list[str] = []
    for relation in relations:
        kept += [relation] if fit([*kept, relation]) else []
    return kept


def _numbers(
    described: Sequence[SchemaColumn], guesses: Mapping[str, Guess], columns: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the numbers of the rows, NaN for none, of the columns that hold amounts or few distinct numbers."""
    numbers = {}
    for column in described:
        if isinstance(column, Grid) and column.numeric:
            numbers[column.name] = numbers_of(column, columns[column.name])
        elif guesses[column.name].codes:
            numbers[column.name] = listed_numbers(column, columns[column.name])
    return numbers


def listed_numbers(column: SchemaColumn, array: np.ndarray) -> np.ndarray:
    """Return the number of each row of a column that lists numbers, NaN for none; rare numbers are not listed."""
    values = Values.of(array)
    known = column.judged(values)[0] != column.gap_code if column.missing else None
    return numbers_or_nan(values, known)


def numbers_of(column: Grid, array: np.ndarray) -> np.ndarray:
    """Return the number of each row, NaN for none and for an infinite one."""
    found, read = column.raw_numbers(Values.of(array))
    numbers = found.astype(np.float64)
    return np.where(read & np.isfinite(numbers), numbers, np.nan)


def _relations(
    described: Sequence[SchemaColumn],
    numbers: Mapping[str, np.ndarray],
    sums: Mapping[str, Sequence[str]],
    columns: Mapping[str, np.ndarray],
) -> Iterator[str]:
    """Yield the orders, sums and functional dependencies that hold between described columns, as comments."""
    kinds = {column.name: column for column in described}
    times: dict[str, dict[str, np.ndarray]] = {}  # dates, times of day and durations
    for name, one in kinds.items():
        if isinstance(one, Grid) and name not in numbers:
            times.setdefault(one.kind, {})[name] = numbers_of(one, columns[name])
    amounts = {name: found for name, found in numbers.items() if isinstance(kinds[name], Grid) and name not in sums}
    chains = [chain for dates in times.values() for chain in orders_in(dates, shared=0.0)]
    for total, parts in sums.items():
        yield _relation(f"sum: {{{quoted(total)}: [{', '.join(map(quoted, parts))}]}}")
    chains += [chain for alike in _alike(amounts, kinds) for chain in orders_in(alike)]
    for chain in chains:
        yield _relation(f"ordered: [{', '.join(map(quoted, chain))}]")
    lists = {name: column for name, column in kinds.items() if isinstance(column, Categorical)}
    coded = {name: _coded(column, columns[name]) for name, column in lists.items()}
    dependencies = dependencies_in(coded)[:MOST_DEPENDENCIES]
    merging = [one for one in dependencies if len(set(one[2].values())) < len(one[2]) >= len(lists[one[0]].values)]
    levels = chains_of([(source, target) for source, target, _ in merging])
    for source, target, table in dependencies:
        rows = (f"{label_of(lists[source], a)}: {label_of(lists[target], b)}" for a, b in table.items())
        named = f"from: {quoted(source)}, to: {quoted(target)}"
        line = _relation(f"determines: {{{named}, table: {{{', '.join(rows)}}}}}")
        chain = ", ".join(map(quoted, levels.pop(source, ())))
        may = f"{on_one_line(quoted(source))} may say hierarchy: {{columns: [{chain}]}}"
        yield line + (f"#     # with these constraints, {may}  {PRIVATE_MARK}\n" if chain else "")


def _alike(amounts: Mapping[str, np.ndarray], kinds: Mapping[str, SchemaColumn]) -> Sequence[Mapping[str, np.ndarray]]:
    """Return the amounts by what they must have in common to be ordered: their type, and their decimals."""
    found: dict[Any, dict[str, np.ndarray]] = {}
    for name, numbers in amounts.items():
        one = kinds[name]
        found.setdefault((one.kind, one.decimals), {})[name] = numbers
    return list(found.values())


def _relation(line: str) -> str:
    return f"#   - {line}  {PRIVATE_MARK}\n"


def _coded(column: Categorical, array: np.ndarray) -> Coded:
    codes = column.judged(Values.of(array))[0].astype(np.int64)
    gaps = codes == column.gap_code if column.missing else np.zeros(len(codes), dtype=bool)
    return Coded(np.where(gaps, -1, codes), column.size, None if column.other is None else len(column.values))


def label_of(column: Categorical, code: int) -> str:
    """Return the value of a code as YAML."""
    label = column.labels()[code]
    number = code < len(column.values) and isinstance(column.values[code], int | float)
    return label if number else quoted(label)


def _units(guesses: Mapping[str, Guess]) -> Iterator[str]:
    """Yield comments that propose the columns of repeated identifiers as the unit of privacy."""
    found = {name: one.identifier.rows for name, one in guesses.items() if one.identifier}
    named = {name: named_as_identifier(name) + named_after_persons(name) for name in found}
    several = {name: rows for name, rows in found.items() if rows and rows[-1] > 1}
    likely = [name for name, rows in several.items() if named[name] or sum(rows) >= ROWS_OF_UNIT * len(rows)]
    for name in sorted(likely, key=lambda name: (-named[name], -len(found[name])))[:MOST_UNITS]:
        rows = found[name]
        yield (
            f"{PRIVATE_MARK}: {on_one_line(name)} HAS {len(rows):,} VALUES WITH UP TO {rows[-1]:,} ROWS EACH, HALF OF "
            f"THEM WITH AT MOST {rows[len(rows) // 2]:,}.\n"
            "# If it tells persons or households apart, uncomment this, and say how many rows of each are counted:\n"
            f"# unit: {{column: {quoted(name)}, at_most: {rows[-1]}}}\n"
        )
