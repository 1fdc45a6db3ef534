"""Mutations are made as listed, and one that a test notices is killed."""

from __future__ import annotations

from experiments.mutations import ROOT as REPOSITORY
from experiments.mutations import Mutation, mutations

TEXT = '''
class Counter:
    def more(self, n: int = 1) -> int:
        """Returns n + 1."""
        return n + 1

def other(n):
    return [n + 1, n + 1]
'''


def test_the_expression_is_changed_in_the_named_function_alone():
    changed = Mutation("x.py", "Counter.more", "n + 1\n".strip(), "(n - 1)").applied(
        TEXT.replace("Returns n + 1.", "More.")
    )
    assert changed is not None
    assert "return (n - 1)" in changed
    assert changed.count("n + 1") == 2


def test_an_expression_that_is_gone_or_is_there_twice_is_not_changed():
    assert Mutation("x.py", "other", "n + 1", "(n - 1)").applied(TEXT) is None
    assert Mutation("x.py", "Counter.fewer", "n + 1", "(n - 1)").applied(TEXT) is None


def test_a_file_has_errors_to_try_and_its_tests_are_those_of_its_room():
    listed = list(mutations(REPOSITORY / "pgmest" / "tables" / "factor.py"))
    assert len(listed) > 20
    assert all(mutation.before != mutation.after for mutation in listed)
    assert listed[0].tests == ["tests/tables/test_factor.py", "tests/tables"]
