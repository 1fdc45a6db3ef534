"""`within:` of a linked table: what holds among the rows of one parent row, such as the persons of a household.

within:
  - exactly: {relationship: reference person, count: 1}
  - at_most: {relationship: [spouse, partner], count: 1}
  - at_least: {age: {min: 18}, count: 1}
  - older: {relationship: reference person, than: {relationship: child}, by: 12, column: age}
  - impossible: {households.size: 1, relationship: child}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pgmest.data.linked_rules import AtLeast, AtMost, CountRule, Exactly, Impossible, Older, Rule
from pgmest.errors import PgmestError, listed
from pgmest.schema.column import SchemaColumn
from pgmest.schema.constraints import codes_named
from pgmest.schema.grid import Grid
from pgmest.schema.kinds import whole_column
from pgmest.schema.notation import SchemaNode
from pgmest.schema.schema import Schema

if TYPE_CHECKING:
    from pgmest.schema.linked.schema import TableSchema

COUNTS: dict[str, type[CountRule]] = {"exactly": Exactly, "at_most": AtMost, "at_least": AtLeast}
FORMS = (*COUNTS, "older", "impossible")


@dataclass(frozen=True)
class Places:
    """The columns that the rules of a table may name.

    Attributes:
        table: the name of the table.
        schema: its columns.
        at_most: how many rows of one parent row count.
        parent: the name of its parent.
        above: the columns of its parent.
        counts: the columns of its parent that count its rows.
    """

    table: str
    schema: Schema
    at_most: int
    parent: str
    above: Mapping[str, SchemaColumn]
    counts: Mapping[str, SchemaColumn]

    @classmethod
    def of(cls, table: str, schema: Schema, at_most: int, above: TableSchema | None) -> Places:
        """Return what rules may name, given the schema of the parent."""
        if above is None:
            return cls(table, schema, at_most, "", {}, {})
        counts = {column: counted(column, at_most, above.place) for column, of in above.computed.items() if of == table}
        return cls(table, schema, at_most, above.name, {n: above.schema.column(n) for n in above.schema.domain}, counts)

    def found(self, node: SchemaNode, name: str) -> tuple[str, str]:
        """Return whose column a name is ("row", "parent" or "count"), and its name there."""
        tables = {"row": (self.table, self.schema.domain), "parent": (self.parent, self.above)}
        tables["count"] = self.parent, self.counts
        places = [
            (kind, column)
            for kind, (table, columns) in tables.items()
            for column in columns
            if name == f"{table}.{column}" or name == column
        ]
        if len(places) == 1:
            return places[0]
        names = [f"{table}.{column}" for table, columns in tables.values() for column in columns]
        if places:
            node.fail(f"names '{name}', which both tables have: write {self.table}.{name} or {self.parent}.{name}.")
        node.fail(
            f"names '{name}', which is no attribute of the table or of its parent ({listed(names)}). Rules are about "
            "a row and its parent row, not about rows further above."
        )


def read_rules(node: SchemaNode, places: Places) -> tuple[Rule, ...]:
    """Return the rules of one table.

    Args:
        node: the list of rules.
        places: the table, and what its rules may name.

    Raises:
        SchemaError: a rule is invalid, names a value that no column has, or contradicts another one.
    """
    rules, table, schema = [], places.table, places.schema
    for item in node.called(f"table '{table}': within").items():
        fields = item.fields(FORMS)
        if len(fields) != 1:
            item.fail(f"must be a list of rules, each with one key, of {', '.join(FORMS)}.")
        form, body = next(iter(fields.items()))
        body = body.called(f"the rule '{form}' of table '{table}'")
        text = f"{form}: {_text(body.plain())}"
        if form == "impossible":
            rule: Rule = _impossible(body, places, text)
        elif form == "older":
            rule = _older(body, table, schema, text)
        else:
            rule = _counted(body, form, table, schema, text)
        try:
            rule.check_domain(schema.domain)
        except PgmestError as error:
            body.fail(f"is not valid: {error}")
        rules.append(rule)
        _check_together(body, rules, places.at_most, schema)
    return tuple(rules)


def _counted(node: SchemaNode, form: str, table: str, schema: Schema, text: str) -> CountRule:
    name, codes = _condition(node, schema, ("count",))
    return COUNTS[form](table, name, codes, node.fields((name, "count"), ("count",))["count"].integer(0), text=text)


def _impossible(node: SchemaNode, places: Places, text: str) -> Impossible:
    """Return the rule that no row has a combination with its parent row."""
    found: dict[str, list[tuple[str, tuple[int, ...]]]] = {"row": [], "parent": [], "count": []}
    for name, values in node.mapping().items():
        kind, column = places.found(node, name)
        if column in [known for known, _ in found[kind]]:
            node.fail(f"names '{column}' twice.")
        held = places.schema.column(column) if kind == "row" else {**places.above, **places.counts}[column]
        found[kind].append((column, tuple(codes_named(values.called(f"{node.name}: {name}"), held))))
    if not found["row"]:
        node.fail(
            f"must name a column of '{places.table}'; what cannot occur in a row of '{places.parent}' alone is a "
            f"constraint of that table, under constraints:."
        )
    (attribute, codes), *beside = found["row"]
    sizes = found["count"][0][1] if found["count"] else None
    return Impossible(places.table, attribute, codes, tuple(beside), tuple(found["parent"]), sizes, text=text)


def counted(name: str, most: int, place: str) -> Grid:
    """Return a column that counts rows, or numbers them, as whole numbers."""
    return whole_column(name, range(most + 1), most, place)


def _older(node: SchemaNode, table: str, schema: Schema, text: str) -> Older:
    name, codes = _condition(node, schema, ("than", "by", "column"))
    fields = node.fields((name, "than", "by", "column"), ("than", "by", "column"))
    lower, than = _condition(fields["than"], schema, ())
    if lower != name:
        fields["than"].fail(f"must name '{name}', as the rule does, not '{lower}'.")
    if both := sorted(set(codes) & set(than)):
        fields["than"].fail(f"names {listed([schema.labels(name)[code] for code in both])} on both sides.")
    column = _numbers(fields["column"], schema)
    scale = column.units_of_one
    least, greatest = ([*(ends / scale).tolist(), *([np.nan] * column.missing)] for ends in column.points)
    by = float(fields["by"].number())
    return Older(table, name, codes, than, by, column.name, tuple(least), tuple(greatest), text=text)


def _condition(node: SchemaNode, schema: Schema, others: Sequence[str]) -> tuple[str, tuple[int, ...]]:
    """Return the column that a mapping names besides other keys, and the codes of the values that it lists."""
    named = {name: inner for name, inner in node.mapping().items() if name not in others}
    if len(named) != 1:
        node.fail(
            f"must name one column with its values, as in {{relationship: child}}, not {listed(named) or 'none'}."
        )
    name, values = next(iter(named.items()))
    column = _column(values.called(node.name), name, schema)
    return name, tuple(codes_named(values.called(f"{node.name}: {name}"), column))


def _column(node: SchemaNode, name: str, schema: Schema) -> SchemaColumn:
    if name not in schema.domain:
        node.fail(f"names '{name}', which is no attribute of the table ({listed(schema.domain) or 'it has none'}).")
    return schema.column(name)


def _numbers(node: SchemaNode, schema: Schema) -> Grid:
    """Return the column of numbers that a rule compares."""
    name = node.text()
    column = _column(node, name, schema)
    if not isinstance(column, Grid) or not column.numeric:
        node.fail(f"must name a column of type integer or real, but '{name}' is none.")
    if schema.order.before.get(name):
        node.fail(f"names '{name}', which comes after other columns in an order: its values are drawn with theirs.")
    if name in schema.summed:
        node.fail(f"names '{name}', which is part of a sum: its values are drawn with the others of the sum.")
    return column


def _text(plain: object) -> str:
    """Return plain data as YAML on one line, without quotes where none are needed."""
    if isinstance(plain, dict):
        return "{" + ", ".join(f"{name}: {_text(value)}" for name, value in plain.items()) + "}"
    if isinstance(plain, list):
        return "[" + ", ".join(map(_text, plain)) + "]"
    return plain if isinstance(plain, str) else json.dumps(plain)


# -- rules together ---------------------------------------------------------------------------------------------------


def _check_together(node: SchemaNode, rules: Sequence[Rule], at_most: int, schema: Schema) -> None:
    """Raise SchemaError if the last rule cannot hold together with the others."""
    last = rules[-1]
    if isinstance(last, Impossible):
        return
    if isinstance(last, Older):
        _check_chains(node, [rule for rule in rules if isinstance(rule, Older)], schema)
        return
    assert isinstance(last, CountRule)
    if last.least > at_most:
        node.fail(f"needs {last.least} rows, but at_most: {at_most} are counted.")
    for other in rules[:-1]:
        if isinstance(other, CountRule) and other.attribute == last.attribute:
            for inner, outer in ((last, other), (other, last)):
                if set(inner.codes) <= set(outer.codes) and outer.most is not None and inner.least > outer.most:
                    node.fail(f"contradicts another one: {other.text}")
    apart: list[CountRule] = []  # whose rows are different ones
    for rule in [rule for rule in rules if isinstance(rule, CountRule) and rule.attribute == last.attribute]:
        if all(set(rule.codes).isdisjoint(other.codes) for other in apart):
            apart.append(rule)
    if sum(rule.least for rule in apart) > at_most:
        node.fail(f"needs more rows, with the other rules, than at_most: {at_most}.")


def _check_chains(node: SchemaNode, chain: Sequence[Older], schema: Schema) -> None:
    """Raise SchemaError if rules about one column lead in a circle, or need more distance than the column has."""
    chain = [rule for rule in chain if rule.column == chain[-1].column]
    if chain[0].attribute != chain[-1].attribute:
        node.fail(f"must name '{chain[0].attribute}', as the other rules about '{chain[0].column}' do.")
    lowest = dict.fromkeys({code for rule in chain for code in (*rule.codes, *rule.than)}, 0.0)
    for _ in range(len(lowest) + 1):
        raised = dict(lowest)
        for rule in chain:
            least = max(raised[code] for code in rule.than) + rule.by
            raised |= {code: max(raised[code], least) for code in rule.codes}
        if raised == lowest:
            break
        lowest = raised
    else:
        node.fail("leads in a circle with other rules: nobody can be older than everybody else.")
    column = schema.column(chain[0].column)
    assert isinstance(column, Grid)
    if max(lowest.values()) > column.high - column.low:
        node.fail(f"asks for {max(lowest.values()):g} in all, more than '{column.name}' has ({column.expected()}).")
