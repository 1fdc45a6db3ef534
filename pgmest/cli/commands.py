"""All commands, imported one by one: together they need most of the library, and a run needs one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from pgmest.cli.command import Command

HOMES = {
    "synthesize": "synthesize.SYNTHESIZE",
    "schema": "synthesize.SCHEMA",
    "check": "check.CHECK",
    "plan": "plan.PLAN",
    "estimate": "estimate.ESTIMATE",
    "info": "info.INFO",
    "query": "query.QUERY",
    "sample": "query.SAMPLE",
    "disclose": "disclose.DISCLOSE",
    "compare": "compare.COMPARE",
    "audit": "audit.AUDIT",
    "ledger": "ledger.LEDGER",
    "measure": "estimate.MEASURE",
    "warm-up": "warm_up.WARM_UP",
}
"""The module of each command in this package, and its name there; in the order of the help."""


class Commands(Mapping[str, Command]):
    """The commands by name, imported one by one."""

    def __getitem__(self, name: str) -> Command:
        module, _, place = HOMES[name].partition(".")
        return getattr(import_module(f"pgmest.cli.{module}"), place)

    def __iter__(self) -> Iterator[str]:
        return iter(HOMES)

    def __len__(self) -> int:
        return len(HOMES)


COMMANDS = Commands()


def commands_of(words: list[str]) -> list[Command]:
    """Return the commands that a parser of these words needs: the one that they name, or all, to list them."""
    if words[:1] == ["--version"]:
        return []
    return [COMMANDS[words[0]]] if words and words[0] in COMMANDS else list(COMMANDS.values())
