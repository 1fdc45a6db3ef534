"""The pages of the API reference: one for each public package, its names in the order of its `__init__.py`.

A hook of mkdocs. Nothing is listed twice: what `pgmest/__init__.py` and its packages export is what is documented.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "pgmest": "Tables, measurements, estimates, models",
    "pgmest.queries": "Queries",
    "pgmest.workloads": "Workloads",
    "pgmest.losses": "Losses",
    "pgmest.solvers": "Solvers",
    "pgmest.sampling": "Sampling",
    "pgmest.data": "Datasets",
    "pgmest.zeros": "What cannot be",
    "pgmest.schema": "Raw tables",
    "pgmest.privacy": "Privacy",
    "pgmest.mechanisms": "Mechanisms",
    "pgmest.transforms": "Transforms",
    "pgmest.priors": "Public data",
    "pgmest.synthesis": "Records from tables",
    "pgmest.strategies": "Strategies",
    "pgmest.surveys": "Surveys",
    "pgmest.models.uncertainty": "Error bars",
    "pgmest.evaluation": "Evaluation",
    "pgmest.plots": "Pictures",
    "pgmest.datasets": "Data that comes with pgmest",
    "pgmest.simulation": "Simulation",
    "pgmest.adapters": "Inside other libraries",
    "pgmest.errors": "Errors",
}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages, so that the navigation may name them.

    Raises:
        RuntimeError: something that a package exports is on no page.
    """
    if left_out := missing():
        raise RuntimeError(f"on no page of the reference (docs/hooks/reference.py): {', '.join(left_out)}")
    for package, title in PAGES.items():
        files.append(File.generated(config, f"api/{package}.md", content=page(package, title)))
    return files


def missing() -> list[str]:
    """Return the names that packages of pgmest export and no page contains."""
    there = {path.rsplit(".", 1)[1] for package in PAGES for path in paths(package)}
    found: set[str] = set()
    for source in sorted((ROOT / "pgmest").glob("*/__init__.py")):
        if not source.parent.name.startswith("_"):
            found |= set(exports(source, f"pgmest.{source.parent.name}"))
    return sorted(path for path in found if path.rsplit(".", 1)[1] not in there)


def paths(package: str) -> list[str]:
    """Return the dotted names on a package's page."""
    source = ROOT / Path(*package.split("."), "__init__.py")
    return exports(source, package) if source.exists() else []


def page(package: str, title: str) -> str:
    """Return a package's docstring and names, or its modules if it exports no names, or a plain module as a whole."""
    source = ROOT / Path(*package.split("."), "__init__.py")
    if not source.exists():
        return f"# {title}\n\n::: {package}\n"
    modules = sorted(f"{package}.{path.stem}" for path in source.parent.glob("[!_]*.py"))
    exported = exports(source, package) or modules
    head = f"# {title}\n\n::: {package}\n    options:\n      members: false\n"
    return "\n".join([head, *(f"::: {path}\n" for path in exported)])


def exports(source: Path, package: str) -> list[str]:
    """Return the dotted names that a package exports, without modules, and those of a registry of lazy imports."""
    body = statements(source)
    assigned = {
        node.targets[0].id: node.value
        for node in body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    if "MECHANISMS" in assigned:
        return [f"{module}.{name}" for name, module in ast.literal_eval(assigned["MECHANISMS"]).items()]
    public = set(ast.literal_eval(assigned["__all__"])) if "__all__" in assigned else set()
    imports = [(node.module, alias.name) for node in body if isinstance(node, ast.ImportFrom) for alias in node.names]
    return [f"{package}.{name}" for module, name in imports if name in public and not is_module(f"{module}.{name}")]


def statements(source: Path) -> list[ast.stmt]:
    """Return the statements at the top level of a file, and those in its blocks for type checkers."""
    body = ast.parse(source.read_text(encoding="utf-8")).body
    for_types = [node for node in body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return body + [statement for node in for_types for statement in node.body]


def is_module(name: str) -> bool:
    """Return whether a name imported from a package is one of its modules, and not a function from one of them."""
    path = ROOT.joinpath(*name.split("."))
    if not (path.is_dir() or path.with_suffix(".py").exists()):
        return False
    above, package = path.parent / "__init__.py", name.rpartition(".")[0]
    body = statements(above) if above.exists() else []
    from_modules = [node for node in body if isinstance(node, ast.ImportFrom) and node.module != package]
    return path.name not in [alias.name for node in from_modules for alias in node.names]
