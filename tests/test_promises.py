"""The register of promises: each sentence that users may rely on stands in its document and has a test that exists."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
REGISTER = ROOT / "tests" / "promises.toml"
MOST_WITHOUT_A_TEST = 5
"""The number of promises that may lack a test. It may only fall."""

PROMISES: dict[str, dict[str, str | list[str]]] = tomllib.loads(REGISTER.read_text(encoding="utf-8"))


def holders(value: str | list[str]) -> list[str]:
    """Return what holds a promise: tests, pages of results with their commands, scripts."""
    return [value] if isinstance(value, str) else value


@cache
def names_in(path: Path) -> frozenset[str]:
    """Return the names of the functions of a test file, without importing it."""
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def exists(holder: str) -> bool:
    """Return whether a test, a page with its command, or a script is there."""
    if "::" in holder:
        path, name = holder.split("::")
        return name.startswith("test_") and name in names_in(ROOT / path)
    page, _, command = holder.partition(": ")
    if not command:
        return page.startswith(".ci/") and (ROOT / page).is_file()
    module = ROOT / command.removeprefix("python -m ").split()[0].replace(".", "/")
    runs = module.with_suffix(".py").is_file() or (module / "__main__.py").is_file()
    return command.startswith("python -m ") and runs and (ROOT / page).is_file()


@pytest.mark.parametrize("document", PROMISES)
def test_each_promise_stands_once_in_its_document(document):
    text = " ".join((ROOT / document).read_text(encoding="utf-8").split())
    counts = {fragment: text.count(fragment) for fragment in PROMISES[document]}
    assert {fragment: count for fragment, count in counts.items() if count != 1} == {}


@pytest.mark.parametrize("document", PROMISES)
def test_what_holds_a_promise_exists(document):
    named = {(fragment, holder) for fragment, value in PROMISES[document].items() for holder in holders(value)}
    assert sorted(pair for pair in named if not exists(pair[1])) == []


def test_promises_without_a_test_become_fewer():
    missing = [
        f"{document}: {fragment}"
        for document, rows in PROMISES.items()
        for fragment, value in rows.items()
        if not value
    ]
    print(f"{len(missing)} of {sum(map(len, PROMISES.values()))} promises are without a test yet:", *missing, sep="\n")
    assert len(missing) <= MOST_WITHOUT_A_TEST, missing


def test_every_document_for_users_makes_promises():
    folders = [ROOT / "docs" / name for name in ("guides", "mechanisms")]
    pages = {path.relative_to(ROOT).as_posix() for folder in folders for path in folder.glob("*.md")}
    assert pages | {"README.md", "SECURITY.md", "CHANGELOG.md", "docs/releases.md"} == set(PROMISES)


@pytest.mark.parametrize(
    "holder",
    [
        "tests/test_promises.py::test_of_another_name",
        "tests/test_promises.py::holders",
        "tests/test_nothing.py::test_exists",
        "experiments/results/coverage.md",
        "experiments/results/coverage.md: python -m experiments.nothing",
        "experiments/results/nothing.md: python -m experiments.coverage",
        ".ci/nothing",
        "",
    ],
)
def test_a_holder_that_does_not_exist_would_be_noticed(holder):
    assert not exists(holder)
