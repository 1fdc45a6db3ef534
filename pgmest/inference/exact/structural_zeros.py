"""Structural zeros in the model: potentials of -inf where nothing can be, and fewer cells where one attribute follows.

An attribute that is a function of another is held in one small clique of the two. Wherever else it was measured, the
other may stand for it (functional_dependencies.py); which ones do is decided by the cells of the junction tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.functional_dependencies import Collapse, CollapsedOracle, Source
from pgmest.inference.exact.plan import Plan
from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.zeros import Combinations, Function, impossible

Rule = Combinations | Function

StructuralZeros = Mapping[Any, Any] | Iterable[Rule] | Rule
"""Rules from `pgmest.zeros`, or one; or attributes -> impossible combinations, as `zeros.impossible` takes them."""


def zero_rules(zeros: StructuralZeros | None) -> list[Rule]:
    """The rules one by one.

    Raises:
        ArgumentError: something is no rule.
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
    """Potentials of -inf at the impossible combinations and 0 elsewhere, one table per set of attributes.

    >>> zero_potentials({("sex", "pregnant"): [(0, 1)]}, Domain({"sex": 2, "pregnant": 2}))[("sex", "pregnant")].values
    array([[  0., -inf],
           [  0.,   0.]])

    Raises:
        UnknownAttributeError: an attribute is not in the domain.
        CodeRangeError, ShapeError, ArgumentError: combinations or codes that do not fit the attributes.
    """
    masks: dict[Clique, np.ndarray] = {}
    for rule in zero_rules(zeros):
        names = domain.clique(rule.attributes)
        clique = next((known for known in masks if set(known) == set(names)), names)
        mask = rule.mask(domain).transpose([names.index(name) for name in clique])
        masks[clique] = masks[clique] | mask if clique in masks else mask
    return CliqueVector(domain, {clique: np.where(mask, -np.inf, 0.0) for clique, mask in masks.items()})


def collapse(layout: Layout, zeros: StructuralZeros | None) -> Collapse | None:
    """Which cliques stand for which, so that functions make the junction tree no wider than they must.

    One function after the other is put to use everywhere for as long as that makes the tree smaller.

    Args:
        layout: the cliques that are measured or restricted, those of the functions among them.
        zeros: the rules; of several functions for one attribute the first stands for it.

    Returns:
        the replacements; None where nothing is to be replaced.

    Raises:
        ArgumentError: functions that go in a circle.
    """
    rules = [rule for rule in zero_rules(zeros) if isinstance(rule, Function)]
    functions: dict[str, Source] = {}
    for rule in rules:
        functions.setdefault(rule.attribute, (rule.of, rule.table(layout.domain)))
    if not functions:
        return None
    _check_for_circles(functions)
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
    layout: Layout,
    zeros: StructuralZeros,
    max_megabytes: float | None = None,
    make: Callable[[Plan], Any] = ExactOracle,
) -> Any:
    """The exact oracle of the cliques, or of those that stand for them; `make` makes it of a plan.

    Raises:
        ModelTooLarge: the tree's tables exceed `max_megabytes`; nothing has been allocated.
        ArgumentError: functions that go in a circle.
    """
    found = collapse(layout, zeros)
    inner = layout if found is None else found.inner
    tree = JunctionTree.from_cliques(layout.domain, inner.cliques, max_megabytes=max_megabytes)
    exact = make(Plan.of(inner, tree))
    return exact if found is None else CollapsedOracle(exact, found)


def _cells(candidate: Collapse) -> int:
    return JunctionTree.from_cliques(candidate.outer.domain, candidate.cliques, effort="low").total_cells


def _check_for_circles(functions: Mapping[str, Source]) -> None:
    for start in functions:
        path = [start]
        while path[-1] in functions and path[-1] not in path[:-1]:
            path.append(functions[path[-1]][0])
        if path[-1] in path[:-1]:
            raise ArgumentError(
                f"structural_zeros has functions that go in a circle ({' of '.join(path)}). Leave one out: a relation "
                "that is one to one is a function and zeros.impossible(...) for what the other way rules out."
            )
