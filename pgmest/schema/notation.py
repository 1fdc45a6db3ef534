"""The notation of schemas: YAML (JSON is YAML, too) or TOML as nodes that know their line, so that errors can name it.

Of YAML only plain data is read: no tags, no anchors. Unlike in older YAML, `yes`, `no`, `on` and `off` are text, and so
are dates and numbers with leading zeros, such as `01234`.
"""

from __future__ import annotations

import difflib
import functools
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from pgmest.errors import FileFormatError, OptionalDependencyError, SchemaError, listed

INTEGER = r"^[-+]?(?:0|[1-9][0-9]*)$"
REAL = r"^[-+]?(?:(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)$"


LONGEST_SHOWN = 60
"""The largest number of characters of a value in errors: a file that is no schema may be a private table."""


@dataclass(frozen=True)
class SchemaNode:
    """A value of the schema: a mapping of name to SchemaNode, a list of Nodes, or a scalar; and where it stands.

    Attributes:
        value: dict of str to SchemaNode, list of SchemaNode, or text, int, float, bool, None.
        source: the file, or "schema".
        line: from 1; None where the notation has no lines.
        name: what the value is of, such as "column 'age': min".
    """

    value: Any
    source: str = "schema"
    line: int | None = None
    name: str = "the schema"

    @property
    def place(self) -> str:
        return self.source if self.line is None else f"{self.source}, line {self.line}"

    def fail(self, problem: str) -> NoReturn:
        """Raise a SchemaError that names the place."""
        raise SchemaError(f"{self.place}: {self.name} {problem}")

    def called(self, name: str) -> SchemaNode:
        """Return the node under another name."""
        return SchemaNode(self.value, self.source, self.line, name)

    def mapping(self, what: str = "a mapping of names to values") -> dict[str, SchemaNode]:
        if not isinstance(self.value, dict):
            self.fail(f"must be {what}, not {self.shown}.")
        return self.value

    def fields(self, allowed: tuple[str, ...], required: tuple[str, ...] = ()) -> dict[str, SchemaNode]:
        """Return the fields of a mapping with keys among `allowed` and all of `required`, each named after its key."""
        fields = self.mapping()
        for key, node in fields.items():
            if key not in allowed:
                near = difflib.get_close_matches(key, allowed, n=1)
                hint = f"Did you mean '{near[0]}'?" if near else f"Known here: {listed(allowed, 20)}."
                node.called(self.name).fail(f"has an unknown key '{key}'. {hint}")
        for key in required:
            if key not in fields:
                self.fail(f"needs '{key}:'.")
        return {key: node.called(f"{self.name}: {key}") for key, node in fields.items()}

    def items(self) -> list[SchemaNode]:
        if not isinstance(self.value, list):
            self.fail(f"must be a list, such as [a, b], not {self.shown}.")
        return [node.called(self.name) for node in self.value]

    def scalar(self) -> str | int | float | bool | None:
        if isinstance(self.value, dict | list):
            self.fail(f"must be a single value, not {self.shown}.")
        return self.value

    def text(self) -> str:
        if not isinstance(self.value, str):
            self.fail(f"must be text, not {self.shown}.")
        return self.value

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            self.fail(f"must be true or false, not {self.shown}.")
        return self.value

    def number(self) -> float | int:
        if isinstance(self.value, bool) or not isinstance(self.value, int | float) or not abs(self.value) <= 1e300:
            self.fail(f"must be a number, not {self.shown}.")
        return self.value

    def integer(self, least: int = -(2**62)) -> int:
        number = self.number()
        if number != int(number) or not least <= number <= 2**62:
            self.fail(f"must be a whole number{f' of at least {least}' if least > -(2**62) else ''}, not {self.shown}.")
        return int(number)

    def choice(self, allowed: tuple[str, ...]) -> str:
        if self.value not in allowed:
            self.fail(f"must be one of {listed(allowed)}, not {self.shown}.")
        return self.value

    def plain(self) -> Any:
        """Return the node as plain data of Python, the inverse of `node_of`."""
        if isinstance(self.value, dict):
            return {name: node.plain() for name, node in self.value.items()}
        return [node.plain() for node in self.value] if isinstance(self.value, list) else self.value

    @property
    def shown(self) -> str:
        if isinstance(self.value, dict):
            return "a mapping"
        if isinstance(self.value, list):
            return "a list"
        text = repr(self.value)
        return text if len(text) <= LONGEST_SHOWN else f"a text of {len(text):,} characters"


def node_of(value: Any, source: str = "schema") -> SchemaNode:
    """Return plain data of Python as a node without lines.

    Raises:
        RecursionError: it is nested too deeply.
    """
    if isinstance(value, Mapping):
        return SchemaNode({str(key): node_of(inner, source) for key, inner in value.items()}, source)
    if isinstance(value, list | tuple):
        return SchemaNode([node_of(inner, source) for inner in value], source)
    if value is not None and not isinstance(value, str | int | float | bool):
        value = str(value)  # dates of TOML and of Python
    return SchemaNode(value, source)


def parse_toml(text: str, source: str) -> SchemaNode:
    """Raises FileFormatError where the text is no TOML."""
    try:
        return node_of(tomllib.loads(text), source)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise FileFormatError.of(source, f"not valid TOML ({error}).", "Repair the line.") from None


def parse_yaml(text: str, source: str = "schema") -> SchemaNode:
    """Return the one YAML (or JSON) document in a text.

    Raises:
        FileFormatError: it is no YAML, or uses tags or anchors.
        SchemaError: a key stands twice in a mapping.
        OptionalDependencyError: no PyYAML.
    """
    try:
        import yaml
    except ImportError:
        raise OptionalDependencyError.of("pyyaml", "reading schemas in YAML") from None
    try:
        root = yaml.compose(text, Loader=_loader())
        return SchemaNode(None, source, 1) if root is None else _node(root, source)
    except RecursionError:
        raise FileFormatError.of(source, "nested too deeply.", "A schema is flat.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or str(error).split("\n")[0]
        raise FileFormatError.of(source, f"{line}not valid YAML ({problem}).", "Repair the line.") from None


@functools.cache
def _loader() -> type:
    """Return a YAML loader of plain data, whose scalars are those of today's YAML."""
    import yaml

    class PlainLoader(yaml.SafeLoader):
        yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012  a class attribute in PyYAML, too

        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise yaml.MarkedYAMLError(None, None, "anchors and aliases are not read", event.start_mark)
            return super().compose_node(parent, index)

    for tag, pattern in (
        ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$"),
        ("int", INTEGER),
        ("float", REAL),
        ("null", r"^(?:~|null|Null|NULL|)$"),
    ):
        PlainLoader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), None)
    return PlainLoader


def _node(node: Any, source: str) -> SchemaNode:
    import yaml

    line = node.start_mark.line + 1
    kind = node.tag.removeprefix("tag:yaml.org,2002:")
    readers = {
        "str": str,
        "int": int,
        "float": float,
        "bool": lambda text: text.lower() == "true",
        "null": lambda _: None,
        "map": dict,
        "seq": list,
    }
    if kind not in readers or (kind in ("map", "seq")) != isinstance(node, yaml.CollectionNode):
        raise FileFormatError.of(source, f"line {line}: the tag {node.tag} is not read.", "Write plain values.")
    if isinstance(node, yaml.MappingNode):
        return SchemaNode(dict(_pairs(node, source)), source, line)
    if isinstance(node, yaml.SequenceNode):
        return SchemaNode([_node(inner, source) for inner in node.value], source, line)
    try:
        return SchemaNode(readers[kind](node.value), source, line)
    except ValueError:  # an integer of thousands of digits, or a tag on what it does not fit
        raise FileFormatError.of(source, f"line {line}: a value cannot be read.", "Write plain values.") from None


def _pairs(mapping: Any, source: str) -> Iterator[tuple[str, SchemaNode]]:
    seen: dict[str, int] = {}
    for key, value in mapping.value:
        line = key.start_mark.line + 1
        name = getattr(key, "value", None)
        if not isinstance(name, str):
            raise SchemaError(f"{source}, line {line}: a name must be text.")
        if name in seen:
            raise SchemaError(f"{source}, line {line}: '{name}' stands here a second time, after line {seen[name]}.")
        seen[name] = line
        inner = _node(value, source)
        yield name, SchemaNode(inner.value, source, line)


ESCAPES = {'"': r"\"", "\\": r"\\", "\n": r"\n", "\t": r"\t"}


def quoted(text: str) -> str:
    """Return a text as YAML, in quotes where it would be read as something else.

    >>> print(quoted("high school"), quoted("01"), quoted("a: b"), quoted('2" pipe'))
    high school "01" "a: b" "2\\" pipe"
    """
    plain = re.fullmatch(r"[A-Za-z](?:[\w./+-]| (?! ))*[\w.+]|[A-Za-z]", text, re.ASCII)
    reserved = text.lower() in {"true", "false", "null"}
    if plain and not reserved:
        return text
    safe = (ESCAPES.get(char, char if char.isprintable() else f"\\U{ord(char):08x}") for char in text)
    return f'"{"".join(safe)}"'
