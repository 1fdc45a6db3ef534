"""Convert docstrings to Markdown: doctests to code, `.. math::` to formulas; overrides inherit docstrings."""

from __future__ import annotations

import re
import textwrap
from typing import Any

from griffe import Class, Extension, Module, Object

MATH = re.compile(r"^(?P<indent> *)\.\. math::(?P<first>.*)\n(?P<rest>(?:(?P=indent) +.*\n|[ \t]*\n)*)", re.MULTILINE)
DOCTEST = re.compile(r"^(?P<indent> *)>>> .*\n(?:(?P=indent)[ \t]*\S.*\n)*", re.MULTILINE)


class Markdown(Extension):
    """An extension that rewrites the docstrings of all loaded objects."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring:
            text = MATH.sub(formula, obj.docstring.value + "\n")
            obj.docstring.value = DOCTEST.sub(code, text).rstrip("\n")

    def on_package(self, *, pkg: Module, **kwargs: Any) -> None:
        """Complete docstrings after the whole package is loaded, when base classes are known."""
        inherit(pkg)


def inherit(scope: Module | Class) -> None:
    """Give public methods without a docstring the docstring of the method that they override, as `help` does."""
    for member in scope.members.values():
        if not member.is_alias and (member.is_module or member.is_class):
            inherit(member)  # type: ignore[arg-type]
        elif isinstance(scope, Class) and not member.is_alias and not member.docstring and member.is_public:
            overridden = (base.members[member.name] for base in scope.mro() if member.name in base.members)
            member.docstring = next((one.docstring for one in overridden if one.docstring), None)


def formula(found: re.Match[str]) -> str:
    """Return the directive's text between double dollars, at the same indentation."""
    lines = [found["first"].strip(), *textwrap.dedent(found["rest"]).splitlines()]
    body = "\n".join(line.strip() for line in lines if line.strip())
    return textwrap.indent(f"\n$$\n{body}\n$$\n", found["indent"]) + "\n"


def code(found: re.Match[str]) -> str:
    """Return a fence around an example and its output, at the same indentation."""
    indent = found["indent"]
    return f"{indent}```pycon\n{found[0]}{indent}```\n"
