"""Docstrings as Markdown: doctests become code, and `.. math::` directives become formulas."""

from __future__ import annotations

import re
import textwrap
from typing import Any

from griffe import Extension, Object

MATH = re.compile(r"^(?P<indent> *)\.\. math::(?P<first>.*)\n(?P<rest>(?:(?P=indent) +.*\n|[ \t]*\n)*)", re.MULTILINE)
DOCTEST = re.compile(r"^(?P<indent> *)>>> .*\n(?:(?P=indent)[ \t]*\S.*\n)*", re.MULTILINE)


class Markdown(Extension):
    """Rewrites the docstring of everything that is loaded."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Called once for each module, class, function and attribute."""
        if obj.docstring:
            text = MATH.sub(formula, obj.docstring.value + "\n")
            obj.docstring.value = DOCTEST.sub(code, text).rstrip("\n")


def formula(found: re.Match[str]) -> str:
    """The directive's text between double dollars, at the same indentation."""
    lines = [found["first"].strip(), *textwrap.dedent(found["rest"]).splitlines()]
    body = "\n".join(line.strip() for line in lines if line.strip())
    return textwrap.indent(f"\n$$\n{body}\n$$\n", found["indent"]) + "\n"


def code(found: re.Match[str]) -> str:
    """A fence around an example and what it prints, at the same indentation."""
    indent = found["indent"]
    return f"{indent}```pycon\n{found[0]}{indent}```\n"
