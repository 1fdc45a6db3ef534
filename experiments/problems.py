"""The named problems of the experiments and benchmarks: which marginals of what data, measured with how much noise.

The domain and the cliques are enough to time the MARGINAL-ORACLE; `measurements()` draws the noisy answers.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from experiments.data import find, load
from pgmest.data.codes import code_type
from pgmest.data.dataset import Dataset
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.simulation import simulate_measurements
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain


@dataclass(frozen=True)
class NamedProblem:
    """Marginals of one table, each to be measured with Gaussian noise of the same scale.

    Attributes:
        name: short and unique; it also names files.
        title: one phrase, for tables.
        domain: all the attributes.
        cliques: the measured marginals, in the order in which their noise is drawn.
        data: loads or draws the records.
        stddev: of the noise, in counts.
        seed: of the noise.
    """

    name: str
    title: str
    domain: Domain
    cliques: tuple[Clique, ...]
    data: Callable[[], Dataset] = field(repr=False, compare=False)
    stddev: float = 10.0
    seed: int = 0

    def measurements(self) -> list[LinearMeasurement]:
        """The noisy marginals, in counts; the same ones each time."""
        return simulate_measurements(self.data(), self.cliques, self.stddev, self.seed)

    def potentials(self) -> CliqueVector:
        """Standard normal log-potentials on the cliques, for timing the oracle; the same ones each time."""
        return CliqueVector.random(self.domain, self.cliques, seed=0)


# -- chains ------------------------------------------------------------------------------------------------------------


def chain(attributes: int, values: int = 10) -> NamedProblem:
    """A chain of attributes, all triples of neighbors measured (PGM, Figure 2b)."""
    names = [f"x{i}" for i in range(attributes)]
    return NamedProblem(
        name=f"chain-{attributes}",
        title=f"chain of {attributes:,} attributes of {values} values, all adjacent triples",
        domain=Domain(dict.fromkeys(names, values)),
        cliques=tuple(zip(names, names[1:], names[2:], strict=False)),
        data=functools.partial(_random_walks, tuple(names), values),
    )


WALKS_AT_ONCE = 10_000


def chain_records(attributes: int, records: int, values: int = 10) -> Dataset:
    """Records of a chain: each attribute is the one before it plus a geometric step, modulo `values`."""
    return _random_walks(tuple(f"x{i}" for i in range(attributes)), values, records)


def _random_walks(names: Clique, values: int, records: int = 10_000) -> Dataset:
    """Records in which each attribute is the one before it plus a geometric step, modulo `values`."""
    rng, codes = np.random.default_rng(0), np.empty((len(names), records), dtype=code_type(values))
    for start in range(0, records, WALKS_AT_ONCE):
        steps = rng.geometric(0.5, size=(min(WALKS_AT_ONCE, records - start), len(names))) - 1
        codes[:, start : start + len(steps)] = (np.cumsum(steps, axis=1) % values).T
    return Dataset.from_codes(list(codes), dict.fromkeys(names, values), trusted=True)


# -- Adult -------------------------------------------------------------------------------------------------------------

_PAIRS = """
    marital-status,relationship  workclass,occupation  relationship,sex  age,marital-status  education-num,occupation
    age,relationship  occupation,hours-per-week  relationship,income>50K  age,education-num  marital-status,sex
    marital-status,income>50K  race,native-country  capital-gain,income>50K  education-num,native-country
    fnlwgt,native-country  relationship,capital-gain  workclass,education-num  capital-loss,income>50K  sex,income>50K
    relationship,capital-loss  occupation,race  education-num,race  sex,capital-gain  sex,capital-loss"""
_TREE = """
    marital-status,relationship  relationship,sex  age,marital-status  relationship,income>50K
    relationship,capital-gain  relationship,capital-loss  age,education-num  education-num,occupation
    workclass,occupation  occupation,hours-per-week  occupation,race  race,native-country  fnlwgt,native-country"""
_NINE = """
    race,capital-loss,income>50K  marital-status,capital-gain,income>50K  race,native-country,income>50K
    workclass,sex,hours-per-week  fnlwgt,marital-status,relationship  workclass,education-num,occupation
    age,relationship,sex  occupation,sex,hours-per-week  occupation,relationship,income>50K"""
_FIFTEEN = """
    occupation,race,capital-loss  occupation,sex,native-country  marital-status,relationship,income>50K
    age,education-num,sex  workclass,education-num,occupation  marital-status,occupation,income>50K
    race,native-country,income>50K  occupation,capital-gain,income>50K  marital-status,hours-per-week,income>50K
    workclass,race,capital-gain  marital-status,relationship,capital-gain  workclass,education-num,capital-gain
    education-num,relationship,race  fnlwgt,hours-per-week,income>50K  workclass,sex,native-country"""


def adult14_pairs() -> NamedProblem:
    """The 14 one-way marginals, in domain order, then 24 two-way marginals."""
    domain = _adult14_domain()
    cliques = tuple((name,) for name in domain) + _parsed(_PAIRS)
    return _adult14("adult14-pairs", "Adult, 14 one-way and 24 two-way marginals", cliques, seed=42)


def adult14_tree() -> NamedProblem:
    """The 14 one-way marginals and 13 of those pairs that make a spanning tree: no clique has three attributes."""
    domain = _adult14_domain()
    cliques = tuple((name,) for name in domain) + _parsed(_TREE)
    return _adult14("adult14-tree", "Adult, 14 one-way marginals and a tree of 13 two-way ones", cliques, seed=0)


def adult14_nine() -> NamedProblem:
    """Nine three-way marginals."""
    return _adult14("adult14-nine", "Adult, 9 three-way marginals", _parsed(_NINE), seed=0)


def adult14_fifteen() -> NamedProblem:
    """The 15 three-way marginals of PGM's experiments on Adult, in the order of the authors' published code."""
    return _adult14("adult14-fifteen", "Adult, the 15 three-way marginals of PGM", _parsed(_FIFTEEN), seed=0)


def _adult14(name: str, title: str, cliques: tuple[Clique, ...], seed: int) -> NamedProblem:
    data = functools.partial(load, "adult14")
    return NamedProblem(name, title, _adult14_domain(), cliques, data, stddev=10.0, seed=seed)


def _adult14_domain() -> Domain:
    return Domain.load(find("adult14") / "domain.json")


def _parsed(text: str) -> tuple[Clique, ...]:
    return tuple(tuple(clique.split(",")) for clique in text.split())


# -- census ------------------------------------------------------------------------------------------------------------

_LARGE = {"place": 100, "age": 50, "income": 20}
_TENS = ("race", "schooling", "occupation", "industry", "tenure", "birthplace", "language")
_ITEMS = 24


def census(cells: int) -> NamedProblem:
    """A few large attributes and many small ones, whose pairs are measured but meet in one large clique.

    The core is three attributes with 100, 50 and 20 values and as many with 10 as make `cells` combinations in all. Its
    pairs are measured, so that its clique in any junction tree has `cells` cells, though no measurement has more than
    5,600 of them. Around it are 24 items of 2 to 8 values, measured in triples: two items and one core attribute.

    Args:
        cells: a power of ten from 1e5 to 1e12.
    """
    exponent = round(math.log10(cells))
    if cells != 10**exponent or not 0 <= exponent - 5 <= len(_TENS):
        raise ValueError(f"cells={cells}: give a power of ten from 10**5 to 10**{5 + len(_TENS)}.")
    core = {**_LARGE, **dict.fromkeys(_TENS[: exponent - 5], 10)}
    items = {f"item{i}": 2 + i % 7 for i in range(_ITEMS)}
    names = list(items)
    triples = zip(itertools.cycle(core), names[::2], names[1::2], strict=False)
    return NamedProblem(
        name=f"census-1e{exponent}",
        title=f"census-like, all pairs of {len(core)} attributes with 1e{exponent} cells, {_ITEMS} small attributes",
        domain=Domain({**core, **items}),
        cliques=(*itertools.combinations(core, 2), *triples),
        data=functools.partial(_skewed_records, tuple({**core, **items}.items())),
    )


def _skewed_records(sizes: tuple[tuple[str, int], ...], records: int = 100_000) -> Dataset:
    """Records whose attributes depend on one hidden score and favor their first values."""
    generator = np.random.default_rng(0)
    score = generator.random(records)
    columns = [
        np.minimum((size * (0.6 * score + 0.4 * generator.random(records)) ** 2).astype(np.int64), size - 1)
        for _, size in sizes
    ]
    return Dataset.from_codes(columns, dict(sizes))
