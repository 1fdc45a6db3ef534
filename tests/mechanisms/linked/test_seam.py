"""Linked tables use the public methods of the rounds of LAMP only."""

import ast
from pathlib import Path

import pgmest.mechanisms.linked.rounds as linked
from pgmest.mechanisms.lamp.rounds import Rounds


def test_linked_rounds_neither_replace_nor_call_private_methods_of_lamp():
    private = {name for name in dir(Rounds) if name.startswith("_") and not name.startswith("__")}
    tree = ast.parse(Path(linked.__file__).read_text(encoding="utf-8"))
    called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert private
    assert private.isdisjoint(called | set(vars(linked.LinkedRounds)))
