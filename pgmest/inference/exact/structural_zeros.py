"""Structural zeros in the model: potentials of -inf for impossible cells, and fewer cells for functional dependencies.

An attribute that is a function of another is kept in one small clique of the two. In all other cliques it may be
substituted by the other attribute (functional_dependencies.py), if that makes the junction tree smaller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.functional_dependencies import Collapse, CollapsedOracle, Source
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.tables.domain import Clique, Domain
from pgmest.zeros import Combinations, Function, impossible

Rule = Combinations | Function

StructuralZeros = Mapping[Any, Any] | Iterable[Rule] | Rule
"""One rule from `pgmest.zeros` or several; or attributes -> impossible combinations, as `zeros.impossible` takes."""

MOST_CELLS = 1_000_000
"""The largest number of cells of a rule whose excluded cells are listed."""


def zero_rules(zeros: StructuralZeros | None) -> list[Rule]:
    """Return the rules as a list.

    Raises:
        ArgumentError: an entry is not a rule.
    """
    if zeros is None or isinstance(zeros, Rule):
        return [] if zeros is None else [zeros]
    given: Any = zeros
    rules: list[Rule] = [impossible(*item) for item in given.items()] if isinstance(given, Mapping) else list(given)
    for rule in rules:
        if not isinstance(rule, Rule):
            raise ArgumentError.of(
                "structural_zeros", rule, "rules from pgmest.zeros, or a mapping of attributes to combinations"
            )
    return rules


def zero_potentials(zeros: StructuralZeros | None, domain: Domain) -> CliqueVector:
    """Return potentials of -inf at the impossible combinations and 0 elsewhere, one table per set of attributes.

    >>> zero_potentials({("sex", "pregnant"): [(0, 1)]}, Domain({"sex": 2, "pregnant": 2}))[("sex", "pregnant")].values
    array([[  0., -inf],
           [  0.,   0.]])

    Raises:
        UnknownAttributeError: an attribute is not in the domain.
        CodeRangeError, ShapeError, ArgumentError: combinations or codes do not fit the attributes.
    """
    masks: dict[Clique, np.ndarray] = {}
    for rule in zero_rules(zeros):
        names = domain.clique(rule.attributes)
        clique = next((known for known in masks if set(known) == set(names)), names)
        mask = rule.mask(domain).transpose([names.index(name) for name in clique])
        masks[clique] = masks[clique] | mask if clique in masks else mask
    return CliqueVector(domain, {clique: np.where(mask, -np.inf, 0.0) for clique, mask in masks.items()})


def excluded_cells(zeros: StructuralZeros | None, domain: Domain) -> dict[Clique, np.ndarray]:
    """Return the impossible cells of each set of attributes of a rule, as a table of true and false.

    Rules about more than a million cells are left out.

    Raises:
        UnknownAttributeError, CodeRangeError, ShapeError, ArgumentError: as `zero_potentials`.
    """
    rules = [rule for rule in zero_rules(zeros) if domain.size(domain.clique(rule.attributes)) <= MOST_CELLS]
    return {clique: np.isneginf(table.values) for clique, table in zero_potentials(rules, domain).items()}


def collapse(layout: Layout, zeros: StructuralZeros | None) -> Collapse | None:
    """Return the substitutions of cliques by which functional dependencies make the junction tree smallest.

    The search is greedy: it substitutes one attribute everywhere at a time, as long as the tree becomes smaller.

    Args:
        layout: the cliques that are measured or restricted, including those of the functions.
        zeros: the rules; if an attribute has several functions, the first is used.

    Returns:
        the substitutions; None if nothing is substituted.

    Raises:
        ArgumentError: the functions form a cycle.
    """
    rules = [rule for rule in zero_rules(zeros) if isinstance(rule, Function)]
    functions: dict[str, Source] = {}
    for rule in rules:
        functions.setdefault(rule.attribute, (rule.of, rule.table(layout.domain)))
    if not functions:
        return None
    _check_for_cycles(functions)
    kept = frozenset(frozenset(rule.attributes) for rule in rules)

    def replacing(names: Iterable[str]) -> Collapse:
        return Collapse(layout, functions, frozenset(names), kept)

    best, untried = replacing(()), set(functions)
    cells = _cells(best)
    while untried:
        tried = {name: replacing({name, *best.replaced}) for name in sorted(untried)}
        fewest, name = min((_cells(one), name) for name, one in tried.items())
        if fewest >= cells:
            break
        cells, best = fewest, tried[name]
        untried.remove(name)
    return None if best.cliques == layout.cliques else best


def oracle_with_functions(
    layout: Layout, zeros: StructuralZeros, max_megabytes: float | None = None
) -> ExactOracle | CollapsedOracle:
    """Return the exact oracle of the cliques, with functional dependencies substituted if that saves cells.

    Args:
        layout: the cliques.
        zeros: the rules.
        max_megabytes: the most memory that the tables of the tree may take.

    Raises:
        ModelTooLarge: the tables of the tree exceed `max_megabytes`; nothing has been allocated.
        ArgumentError: the functions form a cycle.
    """
    found = collapse(layout, zeros)
    inner = layout if found is None else found.inner
    tree = JunctionTree.from_cliques(layout.domain, inner.cliques, max_megabytes=max_megabytes)
    exact = ExactOracle(PropagationPlan.of(inner, tree))
    return exact if found is None else CollapsedOracle(exact, found)


def _cells(candidate: Collapse) -> int:
    return JunctionTree.from_cliques(candidate.outer.domain, candidate.cliques, effort="low").total_cells


def _check_for_cycles(functions: Mapping[str, Source]) -> None:
    for start in functions:
        path = [start]
        while path[-1] in functions and path[-1] not in path[:-1]:
            path.append(functions[path[-1]][0])
        if path[-1] in path[:-1]:
            raise ArgumentError(
                f"structural_zeros has functions that form a cycle ({' of '.join(path)}). Leave one out: a one-to-one "
                "relation is one function, and zeros.impossible(...) for the combinations that its inverse rules out."
            )
