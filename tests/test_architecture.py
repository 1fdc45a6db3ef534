"""The rule of docs/architecture.md, checked from the code: packages import downwards only, and nothing in circles."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

import pgmest as pg

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(pg.__file__).resolve().parent
MADE = ("__pycache__", "_kernels")
"""Folders that running makes, the second by `pgmest warm-up`."""


@dataclass(frozen=True)
class Import:
    """A module takes names from another; `typing` where only a type checker does."""

    source: str
    target: str
    typing: bool


def module_name(path: Path) -> str:
    parts = ("pgmest", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in PACKAGE.rglob("*.py")}


def imports_of(module: str) -> list[Import]:
    """All that a file imports of the package, also inside functions."""
    found = []

    def walk(node: ast.AST, typing: bool) -> None:
        for child in ast.iter_child_nodes(node):
            guarded = typing or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test))
            if isinstance(child, ast.ImportFrom) and (child.module or "").split(".")[0] == "pgmest":
                full = [f"{child.module}.{alias.name}" for alias in child.names]
                found.extend(Import(module, name if name in MODULES else str(child.module), guarded) for name in full)
            elif isinstance(child, ast.Import):
                found.extend(Import(module, alias.name, guarded) for alias in child.names if alias.name in MODULES)
            if not isinstance(child, ast.expr):  # which holds no statements
                walk(child, guarded)

    walk(ast.parse(MODULES[module].read_text(encoding="utf-8")), False)
    return found


@cache
def all_imports() -> list[Import]:
    return [found for module in MODULES for found in imports_of(module)]


def packages() -> list[str]:
    """Return the folders and modules from the bottom up, as docs/architecture.md lists them from the top down."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    block = re.search(r"```\npgmest/\n(.*?)```", text, re.DOTALL)
    assert block is not None
    return re.findall(r"^    (\w+)(?:/|\.py) ", block[1], re.MULTILINE)[::-1]


def wings() -> dict[str, str]:
    """Return the wing of each folder or module: tools, privacy or estimation."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    block = re.search(r"```\npgmest/\n(.*?)```", text, re.DOTALL)
    assert block is not None
    found, wing = {}, ""
    for line in block[1].splitlines():
        if heading := re.fullmatch(r"  (\w+)", line):
            wing = heading[1]
        elif entry := re.match(r"    (\w+)(?:/|\.py) ", line):
            found[entry[1]] = wing
    return found


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def test_every_folder_and_module_is_in_the_list():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name not in MADE}
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert folders | modules == set(packages())
    assert len(packages()) == len(set(packages()))


@pytest.mark.parametrize("package", packages())
def test_packages_import_downwards_only(package):
    floor = {name: place for place, name in enumerate(packages())}
    if package in ("cli", "adapters"):
        floor[""] = -1  # they may import `pgmest` itself, the public names
    upward = [
        f"{one.source} imports {one.target}"
        for one in all_imports()
        if package_of(one.source) == package and floor.get(package_of(one.target), len(floor)) > floor[package]
    ]
    assert upward == []


@pytest.mark.parametrize(("wing", "others"), [("estimation", {"privacy", "tools"}), ("privacy", {"tools"})])
def test_wings_are_kept_apart(wing, others):
    """Names for a type checker alone count, too: a wing must be readable without the others."""
    of = wings()
    assert set(of.values()) == {"estimation", "privacy", "tools"}
    crossing = [
        f"{one.source} imports {one.target}"
        for one in all_imports()
        if of.get(package_of(one.source)) == wing and of.get(package_of(one.target)) in others
    ]
    assert crossing == []


def test_nothing_imports_in_circles():
    """Circles inside a package count, and imports inside functions; names for a type checker alone do not."""
    graph = nx.DiGraph()
    graph.add_edges_from(
        (one.source, one.target) for one in all_imports() if not one.typing and one.source != one.target
    )
    assert [sorted(circle) for circle in nx.strongly_connected_components(graph) if len(circle) > 1] == []


def test_an_upward_import_would_be_found():
    assert Import("pgmest.models.exact", "pgmest.sampling", False) in all_imports()  # inside a function
    assert any(one.typing for one in all_imports())


def test_the_files_of_the_first_day_are_there():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    files = re.findall(r"^\d+\. `([\w/]+\.py)`", text, re.MULTILINE)
    assert len(files) == 12
    assert [name for name in files if not (PACKAGE / name).is_file()] == []


@pytest.mark.parametrize("module", [name for name in MODULES if MODULES[name].name == "__init__.py"])
def test_packages_say_what_they_hold(module):
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    imported = [node for node in tree.body if isinstance(node, ast.ImportFrom) and "pgmest" in (node.module or "")]
    named = [node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"]
    assert bool(named) or not imported


def test_the_door_shows_what_it_names_and_nothing_else():
    assert dir(pg) == pg.__all__
    missing = [name for name in pg.__all__ if not hasattr(pg, name)]
    assert missing == []
