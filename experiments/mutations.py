"""python -m experiments.mutations [--write SEED] [--only PATTERN] [--workers N]: do the tests notice wrong code?

A mutation is one small error in one expression of the core, the privacy code or a mechanism: a comparison turned
round, a plus for a minus, a constant one larger, a condition negated, a returned value left out. Each is tried against
the tests of its room, in a copy of the repository, and is killed if a test fails or the tests do not end in time.

The list is fixed (experiments/results/mutations.csv): a function's name and the text before and after, which outlive
changes elsewhere in the file, so that the tests of two commits can be held against each other. `--write SEED` draws a
new one. A run writes which were killed into the list.
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import Queue

import pandas as pd

from experiments.kept_runs import EXPERIMENTS
from pgmest._base.files import write_atomically

ROOT = EXPERIMENTS.parent
LIST = EXPERIMENTS / "results" / "mutations.csv"
ROOMS = (
    "tables",
    "queries",
    "graph",
    "inference",
    "solvers",
    "models",
    "estimation",
    "sampling",
    "privacy",
    "mechanisms",
)
COUNT = 150
LIMIT = 300.0
"""Seconds that the tests of a mutation may take: those of the largest room need about half."""
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


@dataclass(frozen=True)
class Mutation:
    """One error: in which function of which file, the text of a line's expression before and after, what came of it."""

    file: str
    function: str
    before: str
    after: str
    outcome: str = ""

    @property
    def tests(self) -> list[str]:
        """The tests of the file, if it has its own, before those of its room."""
        room, own = Path(self.file).parts[1], f"test_{Path(self.file).stem}.py"
        return [*(str(path.relative_to(ROOT)) for path in (ROOT / "tests" / room).rglob(own)), f"tests/{room}"]

    def applied(self, text: str) -> str | None:
        """The file's text with the error, or None where the function no longer has the expression."""
        nodes = [node for name, node in functions(ast.parse(text)) if name == self.function]
        source = ast.get_source_segment(text, nodes[0]) if nodes else None
        if source is None or source.count(self.before) != 1:
            return None
        changed = text.replace(source, source.replace(self.before, self.after))
        try:
            ast.parse(changed)
        except SyntaxError:  # Python 3.11 misplaces what is inside an f-string
            return None
        return changed


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """All functions and methods of a module, by their qualified names."""
    stack: list[tuple[str, ast.AST]] = [("", tree)]
    while stack:
        prefix, node = stack.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                name = f"{prefix}.{child.name}".lstrip(".")
                stack.append((name, child))
                if isinstance(child, ast.FunctionDef):
                    yield name, child


def wrong(node: ast.AST) -> ast.AST | None:
    """The expression or statement with one error, or None if none is tried there."""
    match node:
        case ast.BinOp(left, operator, right) if type(operator) in SWAPS:
            return ast.BinOp(left, SWAPS[type(operator)](), right)
        case ast.Compare(left, [operator], rights) if type(operator) in SWAPS:
            return ast.Compare(left, [SWAPS[type(operator)]()], rights)
        case ast.BoolOp(operator, values):
            return ast.BoolOp(SWAPS[type(operator)](), values)
        case ast.UnaryOp(ast.Not(), operand):
            return operand
        case ast.Constant(bool(value)):
            return ast.Constant(not value)
        case ast.Constant(int(value)) | ast.Constant(float(value)):
            return ast.Constant(value + 1)
        case ast.Return(ast.Call() | ast.Name()):
            return ast.Return(ast.Constant(None))
        case _:
            return None


def mutations(path: Path) -> Iterator[Mutation]:
    """All errors that could be tried in a file; annotations, defaults and decorators are left alone."""
    text = path.read_text(encoding="utf-8")
    lines = text.encode().splitlines()
    for name, function in functions(ast.parse(text)):
        assert isinstance(function, ast.FunctionDef), "functions yields functions"
        for node in (node for statement in function.body for node in ast.walk(statement)):
            changed = wrong(node)
            if changed is None or not isinstance(node, (ast.expr, ast.stmt)) or node.lineno != node.end_lineno:
                continue
            before = lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode()
            if len(before) < 4:
                continue
            after = ast.unparse(changed)
            yield Mutation(
                str(path.relative_to(ROOT)), name, before, after if isinstance(node, ast.Return) else f"({after})"
            )


def drawn(seed: int) -> list[Mutation]:
    """COUNT different errors, each in an expression that its function has once."""
    paths = (path for room in ROOMS for path in sorted((ROOT / "pgmest" / room).rglob("*.py")))
    every = list(dict.fromkeys(mutation for path in paths for mutation in mutations(path)))
    random.Random(seed).shuffle(every)
    valid = (mutation for mutation in every if mutation.applied((ROOT / mutation.file).read_text(encoding="utf-8")))
    return sorted(itertools.islice(valid, COUNT), key=lambda mutation: (mutation.file, mutation.function))


def copy_of_the_repository(folder: str) -> Path:
    """A copy of the files that tests need, compiled kernels among them."""
    place = Path(folder) / "copy"
    shutil.copytree(ROOT, place, ignore=shutil.ignore_patterns(".git", "build", ".venv", ".hypothesis", "results"))
    return place


def tried(mutation: Mutation, copy: Path) -> Mutation:
    """The error with its outcome: killed, survived, or gone (the function no longer has the expression)."""
    path = copy / mutation.file
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    changed = mutation.applied(text) if text else None
    if changed is None:
        return replace(mutation, outcome="gone")
    path.write_text(changed, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *mutation.tests]
    try:
        run = subprocess.run(
            command, cwd=copy, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, capture_output=True, timeout=LIMIT
        )
        outcome = "survived" if run.returncode == 0 else "killed"
    except subprocess.TimeoutExpired:
        outcome = "killed"
    path.write_text(text, encoding="utf-8")
    return replace(mutation, outcome=outcome)


def main() -> None:
    """Draw a list, or try those that the list has."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--write", type=int, metavar="SEED")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="files like this one")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if options.write is not None:
        write(drawn(options.write))
        return
    listed = [Mutation(**row) for row in pd.read_csv(LIST, keep_default_na=False).to_dict("records")]
    with tempfile.TemporaryDirectory() as folder:
        copies: Queue[Path] = Queue()
        for worker in range(options.workers):
            copies.put(copy_of_the_repository(f"{folder}/{worker}"))

        def run(mutation: Mutation) -> Mutation:
            if not fnmatch.fnmatch(mutation.file, options.only):
                return mutation
            copy, began = copies.get(), time.monotonic()
            outcome = tried(mutation, copy)
            copies.put(copy)
            seconds = time.monotonic() - began
            print(f"{outcome.outcome:9s}{seconds:5.0f} s  {outcome.file} {outcome.function}", flush=True)
            return outcome

        with ThreadPoolExecutor(options.workers) as workers:
            write(list(workers.map(run, listed)))


def write(listed: list[Mutation]) -> None:
    """Write the list, and print how many there are of each outcome."""
    frame = pd.DataFrame([asdict(mutation) for mutation in listed])
    write_atomically(LIST, frame.to_csv(index=False))
    print(frame["outcome"].replace("", "not tried").value_counts().to_string())


if __name__ == "__main__":
    main()
