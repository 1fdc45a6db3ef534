"""The designs: LinkedLAMP, and three that make linked tables with the mechanism for a single table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from experiments.households.tables import as_linked
from pgmest.data.dataset import Dataset
from pgmest.mechanisms import LAMP
from pgmest.mechanisms.linked import LinkedLAMP
from pgmest.mechanisms.linked.assembly import counts_from_averages
from pgmest.mechanisms.linked.families import Families, Layout
from pgmest.mechanisms.linked.rules import FamilyRules
from pgmest.mechanisms.linked.search import FamilySearch, Target, without_absent
from pgmest.mechanisms.linked.trees import family_table
from pgmest.privacy import AddRemove

DELTA = 1e-9
Design = Callable[[Families, float, int], Families]


def linked(true: Families, epsilon: float, seed: int) -> Families:
    """LinkedLAMP."""
    mechanism = LinkedLAMP(epsilon=epsilon, delta=DELTA, backend="simulation")
    result = mechanism.fit(as_linked(true), seed=seed, progress=False)
    return family_table(result.sample(seed=seed), "persons")


def independent(true: Families, epsilon: float, seed: int) -> Families:
    """Households and persons separately, half of the budget each; persons are dealt to the households at random."""
    generator, layout = np.random.default_rng(seed), true.layout
    half = LAMP(epsilon=epsilon, delta=DELTA, backend="simulation").with_share(0.5)
    homes = Dataset.from_codes(true.parents, {name: layout.domain[name] for name in layout.parents})
    persons = Dataset.from_codes(true.children, layout.child)
    parents = half.fit(homes, seed=seed, progress=False).sample(seed=seed).codes.astype(np.int64)
    bounded = half.with_neighbors(AddRemove(layout.at_most))
    people = bounded.fit(persons, seed=seed + 100, progress=False).sample(seed=seed).codes.astype(np.int64)
    return Families(layout, parents, _drawn(people, int(parents[:, -1].sum()), generator))


def pair(true: Families, epsilon: float, seed: int) -> Families:
    """One row a household with a random ordered pair of its persons; persons change places until the pairs fit."""
    generator, layout, count = np.random.default_rng(seed), true.layout, len(true.sizes)
    sizes = true.sizes
    one = (generator.random(count) * sizes).astype(np.int64)
    other = (one + 1 + (generator.random(count) * np.maximum(sizes - 1, 1)).astype(np.int64)) % np.maximum(sizes, 1)
    slots = [_slot(true, one, sizes > 0), _slot(true, other, sizes > 1)]
    data = Dataset.from_codes(np.hstack([true.parents, *slots]), layout.domain)
    result = LAMP(epsilon=epsilon, delta=DELTA, backend="simulation").fit(data, seed=seed, progress=False)
    made = result.sample(seed=seed)
    number = len(layout.parents)
    parents = made.codes[:, :number].astype(np.int64)
    filled = np.stack(np.split(made.codes[:, number:].astype(np.int64), 2, axis=1), axis=1)
    families = _filled(layout, parents, filled, generator)
    targets = {}
    for clique in [(a, b) for a in layout.parents for b in layout.members]:
        averages = without_absent(made.project(clique).values, layout, clique)
        targets[clique] = Target(counts_from_averages(averages, clique, families, families)[0], 0.0)
    for place, name in enumerate(layout.members):
        for at, another in enumerate(layout.others[place:], place):
            turned = made.project((layout.members[at], layout.others[place])).values.T
            table = (made.project((name, another)).values + turned) / 2
            targets[name, another] = Target(without_absent(table, layout, (name, another)), 0.0)
    search = FamilySearch.of(families, targets, FamilyRules.of((), layout), generator)
    for _ in range(24):
        search._exchange()
    return search.families


def flat(true: Families, epsilon: float, seed: int) -> Families:
    """One row a household with a slot for each of eight persons, in the order of the file; repaired afterwards."""
    generator, layout, count = np.random.default_rng(seed), true.layout, len(true.sizes)
    slots = [_slot(true, np.full(count, place), true.sizes > place) for place in range(layout.at_most)]
    names = {f"{name} {place}": layout.domain[name] for place in range(layout.at_most) for name in layout.members}
    domain = {**{name: layout.domain[name] for name in layout.parents}, **names}
    data = Dataset.from_codes(np.hstack([true.parents, *slots]), domain)
    result = LAMP(epsilon=epsilon, delta=DELTA, backend="simulation").fit(data, seed=seed, progress=False)
    codes = result.sample(seed=seed).codes.astype(np.int64)
    number = len(layout.parents)
    filled = np.stack(np.split(codes[:, number:], layout.at_most, axis=1), axis=1)
    return _filled(layout, codes[:, :number], filled, generator)


DESIGNS: Mapping[str, Design] = {"linked": linked, "pair": pair, "independent": independent, "flat": flat}


def _slot(families: Families, place: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Return the codes of the person at a place of each household, the last code where there is none."""
    codes = np.tile(np.array(families.layout.child.shape), (len(place), 1))
    codes[there] = families.children[(families.first + place)[there]]
    return codes


def _filled(layout: Layout, parents: np.ndarray, slots: np.ndarray, generator: np.random.Generator) -> Families:
    """Return households of the persons in slots, shape (households, slots, attributes).

    Persons who are absent in part, or beyond the slots, are replaced by persons of households of the same size.
    """
    sizes = parents[:, -1]
    first = np.cumsum(sizes) - sizes
    there = np.all(slots < np.array(layout.child.shape), axis=2)
    children = np.zeros((int(sizes.sum()), slots.shape[2]), dtype=np.int64)
    anyone = slots[there]
    for size in np.unique(sizes[sizes > 0]):
        alike = np.flatnonzero(sizes == size)
        known = there[alike, : min(size, slots.shape[1])]
        own = slots[alike, : known.shape[1]]
        pool = own[known] if known.any() else anyone
        for place in range(size):
            drawn = _drawn(pool, len(alike), generator)
            children[first[alike] + place] = (
                np.where(known[:, place, None], own[:, place], drawn) if place < known.shape[1] else drawn
            )
    return Families(layout, parents, children)


def _drawn(pool: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Return rows of a pool, each about as often as any other."""
    order = [generator.permutation(len(pool)) for _ in range(-(-count // max(1, len(pool))))]
    return pool[np.concatenate([np.empty(0, dtype=np.int64), *order])[:count]]
