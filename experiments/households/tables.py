"""The tables of households and persons, as codes, and how far made ones are from them, in seven classes."""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from experiments.data import data_folder
from pgmest.data.dataset import Dataset
from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.mechanisms.linked.families import Families
from pgmest.mechanisms.linked.trees import family_table

NAMES = ("anytown", "eusilc", "travel_survey")
CLASSES = ("size", "household", "person", "between", "within", "someone", "how_many")
TRIPLES = ("household_triples", "person_triples")
MOST_CELLS, COUNTED = 10_000, 3
SHARES = 0.02, 0.98


@functools.cache
def load(name: str) -> Families:
    """Return the households of a table, each with at most its first eight persons, in the order of the file."""
    folder = data_folder() / "households" / name / "coded"
    coded = json.loads((folder / "domain.json").read_text())
    above, below = (pd.read_csv(folder / f"{part}.csv.gz") for part in ("households", "persons"))
    below = below[below.groupby("hid").cumcount() < coded["cap"]]
    place = pd.Series(np.arange(len(above)), index=above["hid"])
    domains = [
        {n: len(values) for n, values in coded[part].items() if n != "size"} for part in ("households", "persons")
    ]
    persons = Dataset.from_frame(below, domains[1])
    homes = [above[column].to_numpy() for column in domains[0]]
    root = Dataset.from_codes(homes if homes else np.empty((len(above), 0), dtype=np.int64), domains[0])
    hung = LinkedTable(persons, "households", place[below["hid"]].to_numpy(), coded["cap"])
    return family_table(LinkedDataset({"households": LinkedTable(root), "persons": hung}), "persons")


def as_linked(families: Families) -> LinkedDataset:
    """Return families as linked tables."""
    layout = families.layout
    above = families.parents[:, :-1]
    root = Dataset.from_codes(list(above.T) if above.shape[1] else above, layout.parent)
    hung = LinkedTable(
        Dataset.from_codes(families.children, layout.child), "households", families.owners, layout.at_most
    )
    return LinkedDataset({"households": LinkedTable(root), "persons": hung})


def errors(true: Families, made: Families) -> dict[str, float]:
    """Return the mean total variation distance of each class.

    size: the number of persons. household, person: single attributes and pairs of attributes, the size among those of
    households. between: an attribute of a household x one of a person, over persons. within: an attribute of one person
    x one of another of the household, over ordered pairs, each household with weight 1; within_alike: of these, the
    same attribute. someone: the share of households in which somebody has a value, and how_many: the number of
    persons with it (0, 1, 2, 3 and more), both over the values that somebody has in 2 to 98 % of the true households.
    household_triples, person_triples: three attributes. Attributes of one value are left out.
    """
    layout = true.layout
    shape, inside = (*layout.parent.shape, layout.at_most + 1), layout.child.shape
    above = [a for a in range(len(shape)) if len(np.unique(true.parents[:, a])) > 1]
    below = [a for a in range(len(inside)) if len(np.unique(true.children[:, a])) > 1]
    both = (true, made)
    found = {"size": _distance([f.sizes for f in both], [None, None])}
    found["household"] = _marginals([f.parents for f in both], above, shape, (1, 2))
    found["person"] = _marginals([f.children for f in both], below, inside, (1, 2))
    found["household_triples"] = _marginals([f.parents for f in both], above, shape, (3,))
    found["person_triples"] = _marginals([f.children for f in both], below, inside, (3,))
    found["between"] = _mean(
        _distance([f.parents[f.owners, a] * inside[b] + f.children[:, b] for f in both], [None, None])
        for a, b in itertools.product(above, below)
        if shape[a] * inside[b] <= MOST_CELLS
    )
    pairs = [_pairs(f) for f in both]
    within = {
        (a, b): _distance(
            [f.children[i, a] * inside[b] + f.children[j, b] for f, (i, j, _) in zip(both, pairs, strict=True)],
            [weight for *_, weight in pairs],
        )
        for a, b in itertools.product(below, below)
        if inside[a] * inside[b] <= MOST_CELLS
    }
    found["within"] = _mean(within.values())
    found["within_alike"] = _mean(error for (a, b), error in within.items() if a == b)
    some, many = [], []
    for a in below:
        counts = [_counts(f, a, inside[a]) for f in both]
        for value in range(inside[a]):
            share = float((counts[0][:, value] > 0).mean())
            if SHARES[0] <= share <= SHARES[1]:
                some.append(abs(share - float((counts[1][:, value] > 0).mean())))
                many.append(_distance([np.minimum(c[:, value], COUNTED) for c in counts], [None, None]))
    return found | {"someone": _mean(some), "how_many": _mean(many)}


def _marginals(
    rows: Sequence[np.ndarray], attributes: Sequence[int], shape: Sequence[int], ways: Iterable[int]
) -> float:
    """Return the mean distance of all marginals of so many attributes that are not too large."""
    cliques = [clique for number in ways for clique in itertools.combinations(attributes, number)]
    sizes = [tuple(shape[a] for a in clique) for clique in cliques]
    return _mean(
        _distance([np.ravel_multi_index(tuple(part[:, a] for a in clique), size) for part in rows], [None, None])
        for clique, size in zip(cliques, sizes, strict=True)
        if len(clique) == 1 or math.prod(size) <= MOST_CELLS
    )


def _distance(codes: Sequence[np.ndarray], weights: Sequence[np.ndarray | None]) -> float:
    """Return the total variation distance of two weighted collections of codes."""
    size = 1 + max(int(part.max(initial=0)) for part in codes)
    counts = [np.bincount(part, weight, size) for part, weight in zip(codes, weights, strict=True)]
    shares = [count / max(count.sum(), 1e-300) for count in counts]
    return float(np.abs(shares[0] - shares[1]).sum()) / 2


def _pairs(families: Families) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return all ordered pairs of persons of one household, and their weights."""
    ones, others, weights = [], [], []
    for size in np.unique(families.sizes[families.sizes > 1]):
        first = families.first[families.sizes == size]
        for i, j in itertools.permutations(range(size), 2):
            ones.append(first + i)
            others.append(first + j)
            weights.append(np.full(len(first), 1 / (size * (size - 1))))
    empty = np.empty(0, dtype=np.int64)
    one, other = (np.concatenate([empty, *parts]) for parts in (ones, others))
    weight = np.concatenate([np.empty(0), *weights])
    return one, other, weight


def _counts(families: Families, attribute: int, size: int) -> np.ndarray:
    """Return the number of persons with each value in each household."""
    cells = families.owners * size + families.children[:, attribute]
    return np.bincount(cells, minlength=len(families.sizes) * size).reshape(-1, size)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return float(np.mean(found)) if found else 0.0
