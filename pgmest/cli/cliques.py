"""Cliques and workloads on the command line and in files."""

from __future__ import annotations

import argparse
import json
from typing import Any

from pgmest._base.files import read_text
from pgmest.cli.command import Add, count
from pgmest.cli.paths import InputFile
from pgmest.errors import ArgumentError, FileFormatError, PgmestError
from pgmest.tables.domain import Clique, Domain

CLIQUES = """\
Attributes are separated by commas: age,income. If a name has a comma in it, write the clique as a JSON list:
'["city, state", "income"]'. Names with blanks need quotes only for the shell: "Call Type,City".
"""


def clique_of(text: str) -> Clique:
    """Return the attributes of a clique.

    Raises:
        ArgumentError: the text begins like a JSON list and is not a list of names.
    """
    if not text.lstrip().startswith("["):
        return tuple(name.strip() for name in text.split(","))
    try:
        return _names(json.loads(text))
    except ValueError:
        raise ArgumentError.of("clique", text, 'a JSON list of names such as ["age", "income"]') from None


def cliques_of_file(path: str | None) -> list[Clique]:
    """Return the cliques in a file; an empty list if `path` is None.

    Raises:
        FileFormatError: the file cannot be read, or is not a list of cliques.
    """
    if path is None:
        return []
    try:
        return [_names(clique) for clique in json.loads(read_text(path))]
    except (ValueError, TypeError) as error:
        if isinstance(error, PgmestError):
            raise
        remedy = 'A file of cliques is a JSON list of lists of names, such as [["age", "sex"], ["income"]].'
        raise FileFormatError.of(path, "not a list of cliques.", remedy) from None


def workload_options(add: Add, default: str) -> None:
    """Add the options that name the marginals that matter; `workload_of` reads them."""
    matter = add.to("what matters")
    text = f"marginals that matter, such as age,sex or diagnosis@chapter,sex (default: {default})"
    matter("--workload", nargs="+", metavar="CLIQUE", help=text)
    matter("--workload-file", metavar="FILE", type=InputFile, help="the same as a JSON list of lists of attributes")
    matter("--way", type=count, metavar="K", help="all marginals of K attributes matter")


def matters_option(add: Add) -> None:
    """Add the option for the marginals that matter most, which `matters_of` reads."""
    text = "a marginal that matters most, such as age,readmitted: the budget is spent on it first; may be repeated"
    add("--matters", action="append", default=[], metavar="CLIQUE", help=text)


def invariants_option(add: Add) -> None:
    """Add the option for the tables that the result has exactly, which `invariants_of` reads."""
    text = (
        "a table that the result has exactly and that is NOT protected, because the law demands it or it is public, "
        "such as region or region,sex; may be repeated"
    )
    add.to("privacy")("--invariant", action="append", default=[], metavar="CLIQUE", help=text)


def invariants_of(options: argparse.Namespace) -> list[Clique]:
    """Return the tables of --invariant; the mechanism checks them."""
    return [tuple(clique_of(text)) for text in options.invariant]


def workload_of(options: argparse.Namespace, domain: Domain) -> Any:
    """Return the workload asked for, checked against the domain; None without such options.

    Its cliques may name levels of hierarchies.

    Raises:
        UnknownAttributeError, ArgumentError, FileFormatError: the options do not give a workload over the domain.
    """
    from pgmest.queries.levels import named_levels
    from pgmest.workloads import Item, Workload, all_kway

    cliques = [clique_of(text) for text in options.workload or ()] + cliques_of_file(options.workload_file)
    if options.way is not None:
        cliques += all_kway(domain, options.way).cliques
    named = dict.fromkeys(tuple(one.name for one in named_levels(domain, clique)) for clique in cliques)
    return Workload([Item(clique) for clique in named]) if named else None


def matters_of(options: argparse.Namespace, domain: Domain) -> list[Clique] | None:
    """Return the marginals of --matters, of attributes or levels of the domain; None without the option.

    Raises:
        UnknownAttributeError, DuplicateAttributeError, ArgumentError: the options do not name marginals of the domain.
    """
    from pgmest.queries.levels import ordered_levels

    return [ordered_levels(domain, clique_of(text)) for text in options.matters] or None


def _names(value: Any) -> Clique:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError("not a list of names")
    return tuple(value)
