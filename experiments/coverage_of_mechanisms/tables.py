"""The tables: parts with up to seven attributes, whole ones, small ones, and tables that are made to be hostile."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

import pgmest as pg
from experiments.compare.cells import TABLES as WHOLE
from experiments.data import load

PARTS = {
    "census": ("education-num", "occupation", "marital-status", "relationship", "sex", "income>50K"),
    "loans": ("grade", "term", "home_ownership", "emp_length", "purpose", "loan_status"),
    "acs/MA2019": ("MSP", "SEX", "RAC1P", "HISP", "OWN_RENT", "EDU"),
    "titanic": (),
    "stroke": (),
    "adult": ("age", "education-num", "marital-status", "occupation", "race", "sex", "income>50K"),
    "BR2000": (),
    "fire": (),
    "acs-ipums23": (),
    "acs/IL_OH": ("SEX", "MARST", "RACE", "HISPAN", "EDUC", "EMPSTAT", "HCOVANY"),
    "random 0.01": (),
    "random 0.1": (),
    "random 1": (),
}
"""Data sets and the attributes used; () for those with at most 40 values, the first seven. A random table has records
of a distribution drawn from Dirichlet's with that parameter for each of its cells."""

ALL = tuple(f"{name} (all)" for name in WHOLE)
"""The tables of `python -m experiments.flagship`, with all their attributes."""

MOST_VALUES, MOST_ATTRIBUTES = 40, 7
RANDOM_SHAPE, RANDOM_RECORDS = {"a": 12, "b": 9, "c": 6, "d": 5, "e": 3}, 5000


def data_of(table: str) -> pg.Dataset:
    """Return the records of a table, with the attributes that are used."""
    if table in HOSTILE:
        return HOSTILE[table](np.random.default_rng(0))
    if table in SMALL:
        return SMALL[table](np.random.default_rng(zlib.crc32(table.encode())))
    if table.endswith(" (all)"):
        return load(table.removesuffix(" (all)"))
    if table.startswith("random"):
        return random_table(float(table.split()[1]))
    data = pg.datasets.load("census") if table == "census" else load(table)
    names = [name for name in PARTS[table] if name in data.domain]
    if not names:
        names = [name for name in data.domain if 1 < data.domain[name] <= MOST_VALUES][:MOST_ATTRIBUTES]
    return data.select(names)


def random_table(concentration: float) -> pg.Dataset:
    """Return records of a distribution that was drawn at random: the smaller the parameter, the more empty cells."""
    domain, generator = pg.Domain(RANDOM_SHAPE), np.random.default_rng(round(1000 * concentration))
    weights = generator.standard_gamma(concentration, domain.size()) + 1e-300
    cells = generator.choice(domain.size(), RANDOM_RECORDS, p=weights / weights.sum())
    return pg.Dataset.from_codes(np.stack(np.unravel_index(cells, domain.shape), axis=1), domain)


def _made(columns: dict[str, np.ndarray], sizes: dict[str, int]) -> pg.Dataset:
    return pg.Dataset.from_codes(np.stack(list(columns.values()), axis=1), pg.Domain(sizes))


def _two_records(_: np.random.Generator) -> pg.Dataset:
    return _made({name: np.array([0, 1]) for name in "abcd"}, {"a": 4, "b": 3, "c": 2, "d": 5})


def _constant(generator: np.random.Generator) -> pg.Dataset:
    """Return records with one value in two attributes, one of which could have others."""
    n = 2000
    a = generator.integers(0, 6, n)
    same = {"b": np.zeros(n, int), "c": np.full(n, 3)}
    columns = {"a": a, **same, "d": (a + generator.integers(0, 2, n)) % 5, "e": a // 2}
    return _made(columns, {"a": 6, "b": 1, "c": 8, "d": 5, "e": 3})


def _long_tails(generator: np.random.Generator) -> pg.Dataset:
    """Return two attributes of 600 codes with Zipf's frequencies that depend on each other, and three of few codes."""
    n, values = 8000, 600
    first = np.minimum(generator.zipf(1.4, n) - 1, values - 1)
    second = np.minimum(first // 2 + generator.zipf(1.6, n) - 1, values - 1)
    few = np.minimum(first, 9)
    columns = {"a": first, "b": second, "c": few, "d": generator.integers(0, 4, n), "e": (second > 3).astype(int)}
    return _made(columns, {"a": values, "b": values, "c": 10, "d": 4, "e": 2})


def _sparse(generator: np.random.Generator) -> pg.Dataset:
    """Return fifty kinds of records in eight attributes of ten codes, four hundred records."""
    kinds = generator.integers(0, 10, (50, 8))
    rows = kinds[generator.choice(50, 400, p=generator.dirichlet(np.full(50, 0.5)))]
    return _made({f"a{place}": rows[:, place] for place in range(8)}, {f"a{place}": 10 for place in range(8)})


def _hidden(generator: np.random.Generator) -> pg.Dataset:
    """Return three attributes whose pairs are independent but that fix one another, and copies with errors."""
    n = 10_000
    a, b = generator.integers(0, 4, n), generator.integers(0, 4, n)
    copies = [np.where(generator.random(n) < 0.1, generator.integers(0, 4, n), one) for one in (a, b)]
    columns = {"a": a, "b": b, "c": (a + b) % 4, "d": copies[0], "e": copies[1], "f": generator.integers(0, 3, n)}
    return _made(columns, {"a": 4, "b": 4, "c": 4, "d": 4, "e": 4, "f": 3})


def _one_common(generator: np.random.Generator) -> pg.Dataset:
    """Return records of which 99 % are the same, and the others anything."""
    n, sizes = 20_000, {"a": 8, "b": 8, "c": 8, "d": 8, "e": 8}
    usual = generator.random(n) < 0.99
    return _made({name: np.where(usual, 0, generator.integers(0, size, n)) for name, size in sizes.items()}, sizes)


def _rows_of(table: str, records: int) -> Callable[[np.random.Generator], pg.Dataset]:
    """Return a function that draws records of a table, without repetition."""

    def drawn(generator: np.random.Generator) -> pg.Dataset:
        data = data_of(table)
        rows = np.sort(generator.choice(len(data), records, replace=False))
        return pg.Dataset.from_codes(data.codes[rows], data.domain)

    return drawn


def _network(records: int, most: int, concentration: float) -> Callable[[np.random.Generator], pg.Dataset]:
    """Return a function that draws records of a random Bayesian network of seven attributes.

    Each has up to two parents, and probabilities from Dirichlet's distribution given each of their values.
    """

    def drawn(generator: np.random.Generator) -> pg.Dataset:
        sizes = generator.integers(2, most + 1, 7)
        codes = np.zeros((records, 7), dtype=np.int64)
        for place, size in enumerate(sizes):
            parents = generator.permutation(place)[:2]
            shape = tuple(sizes[parents])
            cumulative = generator.dirichlet(np.full(size, concentration), shape).cumsum(axis=-1)
            of_record = cumulative[tuple(codes[:, parents].T)] if len(parents) else cumulative
            codes[:, place] = np.minimum((generator.random(records)[:, None] > of_record).sum(axis=1), size - 1)
        return _made({f"a{p}": codes[:, p] for p in range(7)}, {f"a{p}": int(size) for p, size in enumerate(sizes)})

    return drawn


def _common_factor(generator: np.random.Generator) -> pg.Dataset:
    """Return ordered attributes of normal variables with a common factor, cut at uneven points; 900 records."""
    n, sizes = 900, {"a": 20, "b": 12, "c": 8, "d": 5, "e": 3, "f": 2}
    factor, columns = generator.standard_normal(n), {}
    for name, size in sizes.items():
        loading = generator.uniform(0.3, 0.9)
        value = loading * factor + np.sqrt(1 - loading**2) * generator.standard_normal(n)
        cuts = np.quantile(value, 1 - generator.uniform(0.4, 0.8) ** np.arange(1, size))
        columns[name] = np.searchsorted(cuts, value)
    return _made(columns, sizes)


SMALL: dict[str, Callable[[np.random.Generator], pg.Dataset]] = {
    "adult, 700": _rows_of("adult", 700),
    "BR2000, 600": _rows_of("BR2000", 600),
    "loans, 900": _rows_of("loans", 900),
    "network, 800": _network(800, 9, 0.5),
    "network, 500": _network(500, 16, 1.0),
    "factor, 900": _common_factor,
}
"""Tables of few records, where noise at small budgets is as large as the counts; they are reported apart. They
check rules of the intervals that were found on other tables."""
HOSTILE: dict[str, Callable[[np.random.Generator], pg.Dataset]] = {
    "two records": _two_records,
    "constant": _constant,
    "long tails": _long_tails,
    "sparse": _sparse,
    "hidden": _hidden,
    "one common": _one_common,
}
"""Tables that are made to be hostile to intervals; they are reported apart."""
PERSONS = {"long tails": 4}
"""The records that one person can have, where that is more than one."""
