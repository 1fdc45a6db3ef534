"""The schema of linked tables, read from `tables:` of a file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from pgmest.data.linked import tree_order
from pgmest.data.linked_names import name_problem, number_of
from pgmest.data.linked_rules import Older, Rule
from pgmest.data.smallest_family import FamilyLimits, contradiction
from pgmest.errors import ArgumentError, DataError, listed
from pgmest.privacy.linked_unit import LinkedUnit
from pgmest.schema.frame_types import FrameTypes
from pgmest.schema.grid import Grid
from pgmest.schema.linked.orders_above import OrderAbove, read_orders_above, split_orders
from pgmest.schema.linked.schema import LinkedSchema, TableSchema
from pgmest.schema.linked.within import Places, read_rules
from pgmest.schema.notation import SchemaNode
from pgmest.schema.schema import SCHEMA_OF_TABLES, Schema
from pgmest.schema.schema_parts import file_options

MOST_ROWS = 10_000
"""The largest `at_most` of a table: numbers of rows are codes of an attribute, of which tables are measured."""
FIELDS = ("key", "parent", "at_most", "order", "columns", "constraints", "within", "file", "frame")


def read_linked(node: SchemaNode) -> LinkedSchema:
    """Return the schema of linked tables in a node with `tables:`.

    Raises:
        SchemaError: it is no such schema.
    """
    fields = node.fields(("tables", "unit", "drafted_from_private_data"), ("tables",))
    described = fields["tables"].mapping("a mapping of the names of tables to what they hold")
    if len(described) < 2:
        fields["tables"].fail("must describe at least two tables; a schema of a single one has columns: instead.")
    _check_names({name: () for name in described}, described)
    named = {name: inner.called(f"table '{name}'") for name, inner in described.items()}
    read = {name: inner.fields(FIELDS) for name, inner in named.items()}
    parents = {name: _parent(one["parent"]) if "parent" in one else None for name, one in read.items()}
    try:
        order = tree_order(parents)
    except DataError as error:
        fields["tables"].fail(f"are no tree: {error}")
    links = {name: _link(name, parents[name], named[name], read[name]) for name in order}
    keys = {name: _own_key(name, parents, links, named[name]) for name in order}
    parts: dict[str, TableSchema] = {}
    for name in order:
        above = parts.get(parents[name] or "")
        parts[name] = _part(name, named[name], read[name], keys[name], links[name][0], parents, above)
    _check_names(dict(zip(parts, map(_joined_names, parts.values()), strict=True)), described)
    unit = _unit(fields["unit"], order, parents) if "unit" in fields else order[0]
    drafted = "drafted_from_private_data" in fields and fields["drafted_from_private_data"].flag()
    return LinkedSchema((), source=node.source, drafted=drafted, description=node.plain(), parts=parts, protected=unit)


SCHEMA_OF_TABLES.append(read_linked)


def _parent(node: SchemaNode) -> str:
    if isinstance(node.value, list | dict):
        node.fail(
            "must be the name of one table, as linked tables form one tree: join the columns of a second parent into "
            "this table, and leave that table out."
        )
    return node.text()


def _check_names(columns: Mapping[str, Collection[str]], described: Mapping[str, SchemaNode]) -> None:
    """Raise SchemaError if the name of a table or column means something else, too."""
    if problem := name_problem(columns):
        table, column, why = problem
        described[table].called(f"table '{table}'" + ("" if column is None else f": column '{column}'")).fail(f"{why}.")


def _joined_names(part: TableSchema) -> list[str]:
    """Return the columns that attributes are named after, without those that count rows and are named so."""
    counts = [column for column, of in part.computed.items() if of is not None and column != number_of(of)]
    return [*part.schema.domain, *counts]


def _unit(node: SchemaNode, tables: Sequence[str], parents: Mapping[str, str | None]) -> str:
    """Return the table whose rows are protected."""
    if isinstance(node.value, dict):
        node.fail(
            f"must be the name of the table whose rows are protected, with all that hangs on them ({listed(tables)}); "
            "how many rows hang on another one says at_most: of each table."
        )
    unit = node.choice(tuple(tables))
    try:
        LinkedUnit(unit, parents)
    except ArgumentError as error:
        node.fail(f"must not be '{unit}': {error}")
    return unit


Keys = tuple[str, ...]


def _link(name: str, parent: str | None, node: SchemaNode, fields: dict[str, SchemaNode]) -> tuple[Keys, Keys]:
    """Return the columns of `key:` in the table itself and in its parent; the root has the same twice."""
    if "key" not in fields:
        text = "" if parent is None else f" that it shares with '{parent}'"
        node.fail(f"needs 'key:', the column{text}, such as key: id.")
    key = fields["key"]
    if not isinstance(key.value, dict):
        names = _names(key)
        return names, names
    if parent is None:
        key.fail("must be a column, or a list of columns, as this table has no parent.")
    both = key.fields((parent, name), (parent, name))
    mine, theirs = _names(both[name]), _names(both[parent])
    if len(mine) != len(theirs):
        key.fail(f"must name as many columns of '{name}' as of '{parent}'.")
    return mine, theirs


def _names(node: SchemaNode) -> Keys:
    names = tuple(item.text() for item in node.items()) if isinstance(node.value, list) else (node.text(),)
    if not names or len(set(names)) != len(names):
        node.fail("must name at least one column, each once.")
    return names


def _own_key(
    name: str, parents: Mapping[str, str | None], links: Mapping[str, tuple[Keys, Keys]], node: SchemaNode
) -> Keys:
    """Return the columns that identify the rows of a table, on which its children agree."""
    wanted = {child: links[child][1] for child, parent in parents.items() if parent == name}
    if parents[name] is None:
        wanted = {name: links[name][0], **wanted}
    for child, key in wanted.items():
        if key != next(iter(wanted.values())):
            node.fail(
                f"is identified by {listed(next(iter(wanted.values())))} for '{next(iter(wanted))}', but by "
                f"{listed(key)} for '{child}': use one key. If the columns have other names in the two tables, write "
                f"key: {{{name}: ..., {child}: ...}} for '{child}'."
            )
    return next(iter(wanted.values()), ())


def _part(
    name: str,
    node: SchemaNode,
    fields: dict[str, SchemaNode],
    key: Keys,
    link: Keys,
    parents: Mapping[str, str | None],
    above: TableSchema | None,
) -> TableSchema:
    """Return what is public about one table; `above` is its parent."""
    parent = parents[name]
    for only in ("at_most", "order", "within") if parent is None else ():
        if only in fields:
            fields[only].fail("is about the rows of one parent row, but the table has no parent: add parent:.")
    if parent is not None and "at_most" not in fields:
        node.fail(f"needs 'at_most:', how many rows of one row of '{parent}' count.")
    at_most = fields["at_most"].integer(1) if parent is not None else 0
    if at_most > MOST_ROWS:
        fields["at_most"].fail(
            f"must be at most {MOST_ROWS:,}, not {at_most:,}: how many rows of '{parent}' have each number of rows is "
            "measured. Say how many are plausible; rows beyond them do not count."
        )
    link = link if parent is not None else ()
    columns, computed = _columns(name, fields, parents)
    chains: list[SchemaNode] = []
    if above is not None and "constraints" in fields and isinstance(fields["constraints"].value, list):
        constraints, chains = split_orders(fields["constraints"], columns, above)
        fields = {**fields, "constraints": constraints}
    schema = _flat(node, fields, columns)
    _check_keys(name, node, key, link, at_most, (*columns, *computed))
    rules = read_rules(fields["within"], Places.of(name, schema, at_most, above)) if "within" in fields else ()
    orders: tuple[OrderAbove, ...] = ()
    if chains and above is not None:
        orders, impossible = read_orders_above(chains, name, schema, rules, above)
        rules = (*rules, *impossible)
    if rules and above is not None:
        zeros = above.schema.structural_zeros, schema.structural_zeros
        limits = FamilyLimits(rules, above.schema.domain, schema.domain, at_most, *zeros)
        if wrong := contradiction(limits, above.name, name):
            told = fields["within"] if "within" in fields else fields["constraints"]
            told.called(f"table '{name}': rules about its parent").fail(f"contradicts itself: {wrong}")
    order = _order(fields["order"], schema, computed, rules) if "order" in fields else None
    return TableSchema(name, schema, key, parent, link, at_most, rules, computed, node.place, order, orders)


def _order(node: SchemaNode, schema: Schema, computed: Mapping[str, str | None], rules: Sequence[Rule]) -> str:
    """Return the column by which the rows of one parent row are ordered."""
    name = node.text()
    if name in computed and computed[name] is None:
        return name
    grids = [column.name for column in schema.columns if isinstance(column, Grid)]
    ordered = [column for column in grids if not schema.order.before.get(column)]
    numbered = [column for column, of in computed.items() if of is None]
    if name not in ordered and name in [column.name for column in schema.described if isinstance(column, Grid)]:
        node.fail(
            f"must not be '{name}', whose values depend on other columns of the row (ordered: or sum:), but one of "
            f"{listed([*ordered, *numbered]) or 'those, which the table lacks'}."
        )
    if name not in ordered:
        node.fail(
            f"must be a column with an order, such as a date, a number or a column of type: sequence "
            f"({listed([*ordered, *numbered]) or 'the table has none'}), not {node.shown}."
        )
    if any(isinstance(rule, Older) and rule.column == name for rule in rules):
        node.fail(f"must not be '{name}', which a rule older: compares; order the rows by another column.")
    if name in schema.summed:
        node.fail(f"must not be '{name}', which is part of a sum: its values are drawn with the others of the sum.")
    return name


def _columns(
    name: str, fields: dict[str, SchemaNode], parents: Mapping[str, str | None]
) -> tuple[dict[str, SchemaNode], dict[str, str | None]]:
    """Return the described columns, and the computed ones as `TableSchema.computed` has them."""
    columns, computed = {}, {}
    described = fields["columns"].mapping("a mapping of columns to what they hold") if "columns" in fields else {}
    for column, inner in described.items():
        node = inner.called(f"table '{name}': column '{column}'")
        kind = inner.value.get("type") if isinstance(inner.value, dict) else None
        if kind is not None and kind.value == "count":
            computed[column] = _counted(node, tuple(child for child, parent in parents.items() if parent == name))
        elif kind is not None and kind.value == "sequence":
            node.fields(("type",))
            if parents[name] is None:
                node.fail("numbers the rows of one parent row, but the table has no parent.")
            computed[column] = None
        else:
            columns[column] = inner
    return columns, computed


def _counted(node: SchemaNode, children: tuple[str, ...]) -> str:
    """Return the table whose rows a column counts."""
    of = node.fields(("type", "of"), ("of",))["of"]
    if not children:
        of.fail("counts the rows of a table that hangs on this one, but there is none.")
    return of.choice(children)


def _flat(node: SchemaNode, fields: dict[str, SchemaNode], columns: dict[str, SchemaNode]) -> Schema:
    """Return the schema of the columns alone."""
    kept = {only: inner for only, inner in fields.items() if only in ("constraints", "file", "frame")}
    if not columns:
        if "constraints" in kept:
            kept["constraints"].fail("are about columns, but the table describes none.")
        file = file_options(kept["file"]) if "file" in kept else {}
        types = FrameTypes.from_node(kept["frame"]) if "frame" in kept else None
        return Schema((), source=node.source, file=file, frame=types, description={"columns": {}})
    body = {"columns": replace(fields["columns"], value=columns), **kept}
    schema = Schema.from_node(SchemaNode(body, node.source, node.line, node.name))
    if schema.bought:
        node.fail(
            f"has columns of which something is to be bought ({listed(schema.bought)}), which linked tables cannot do "
            "yet: state public bounds and values."
        )
    return schema


def _check_keys(name: str, node: SchemaNode, key: Keys, link: Keys, at_most: int, columns: Sequence[str]) -> None:
    for column in (*key, *link):
        if column in columns:
            node.fail(f"has '{column}' as a key, which identifies rows and must not be among the columns, too.")
    if key and not set(link) <= set(key):
        node.fail(
            f"is identified by {listed(key)}, which must contain {listed(link)}, the key of its parent: otherwise rows "
            "of several parents could share a key, and one of them would change what counts of the others. Give each "
            f"table that hangs on '{name}' the column, too, and name both there: "
            f"key: [{', '.join(dict.fromkeys((*link, *key)))}]."
        )
    fresh = [column for column in key if column not in link]
    if len(fresh) > 1:
        node.fail(
            f"is identified by {listed(key)}, of which {listed(fresh)} are no key of its parent: identify its rows by "
            "one column of its own, so that fresh keys can be numbered; for example, join the texts of the columns."
        )
    if key and not fresh and at_most > 1:
        node.fail(
            f"is identified by {listed(key)}, the key of its parent, so one row of the parent has at most one: say "
            "at_most: 1, or identify its rows by a column of its own."
        )
