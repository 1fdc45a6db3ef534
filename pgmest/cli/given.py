"""Conditions on the command line: NAME=VALUE of `--given` and of other options."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pgmest.errors import ArgumentError

GIVEN = """\
--given restricts the records to values of attributes: sex=F, city=Rome,Oslo (one of these), age=30..40 (both included;
one end may be left out), born=2024-05 (a month or a year, as tables show it), region@province=Tirol (a
group of a hierarchy), income= (missing); a JSON list if a value has a comma in it: city='["Rome, NY"]'. Values are
codes where no schema is known.
"""


def read_conditions(option: str, texts: Sequence[str]) -> dict[str, Any]:
    """Return conditions as `Synthesizer.sample` takes them.

    Args:
        option: the option of which they are, for errors.
        texts: NAME=VALUE, each name once.
    """
    given: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name in given:
            raise ArgumentError.of(option, text, "NAME=VALUE, each name once, such as sex=F or age=30..40")
        given[name] = _condition(option, value)
    return given


def _condition(option: str, text: str) -> Any:
    if text.startswith("["):
        try:
            return list(json.loads(text))
        except ValueError:
            raise ArgumentError.of(option, text, 'a JSON list of values such as ["Rome, NY"]') from None
    low, dots, high = text.partition("..")
    if dots:
        return (low or None, high or None)
    return text.split(",") if "," in text else text or None
