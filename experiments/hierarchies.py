"""Tables with a tree of codes or areas, and the errors of LAMP at each of its levels.

`experiments.baselines` and `experiments.ablation` run these. Errors are total variation distances from the data: of the
attribute with the tree alone (1), with one other attribute (2) and with two others (3), at each of its levels; and of
the pairs of others. "LAMP asked for triples" has all pairs and the triples with a coarser level as its workload.

The table "codes" is made by a rule (`made_codes`): 600 codes in 60 blocks in 12 chapters, with a long tail. Codes are
listed in the order of the code book, or, in the table named "listed", in the order of their first record. In those
named "random", the branches of the tree are dealt out to the codes at random, so that the tree says nothing.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import pgmest as pg
from experiments.data import data_folder, load
from experiments.kept_runs import MechanismRun

DELTA = 1e-9
TRIPLES = 12
"""The number of triples with the tree's attribute, evenly chosen."""


# -- tables -----------------------------------------------------------------------------------------------------------


def _coded(frame: Any, attribute: str, levels: tuple[str, ...]) -> pg.Dataset:
    """Return a table of labels, with the hierarchy of an attribute whose levels are columns, from the coarsest."""
    codes = {name: pd.factorize(frame[name], sort=True) for name in frame if name not in levels}
    first = frame.groupby(attribute)[list(levels)].first()
    tree = {level: first[level].astype(str).loc[list(codes[attribute][1])].tolist() for level in levels}
    domain = pg.Domain({name: len(values) for name, (_, values) in codes.items()})
    columns = [column for column, _ in codes.values()]
    return pg.Dataset.from_codes(columns, domain.with_hierarchies(pg.Hierarchy(attribute, tree)))


def _austria() -> pg.Dataset:
    given: Any = pd.read_csv(data_folder() / "geography" / "austria" / "households.csv.gz")
    amounts = ("cash", "self_empl", "unempl_ben", "age_ben", "rent", "fam_allow", "cap_inv")
    frame = given[["district", "state", "gender"]].assign(
        size=given["eqsize"].clip(upper=3).round(1),
        income=pd.cut(given["eqIncome"], [-np.inf, *range(5000, 45_001, 5000), np.inf], labels=False),
        **{name: (given[name] > 0).astype(int) for name in amounts},
    )
    return _coded(frame, "district", ("state",))


def _travel() -> pg.Dataset:
    folder = data_folder() / "households" / "travel_survey"
    areas = ["SUBREGCluster", "SUBREG_GRP", "SUBREG"]
    tables: dict[str, Any] = {name: pd.read_csv(folder / f"{name}.csv.gz") for name in ("households", "persons")}
    households = tables["households"][["hhID", *areas, "HHSize", "HHIncome", "HHDwelling"]]
    frame = tables["persons"].merge(households, on="hhID").drop(columns=["hhID", "per_num", "Pweight"])
    frame = frame.fillna({"POcc": 0, "PComm": "none", "PEmp": 0}).dropna()
    frame["SUBREG_GRP"] = frame["SUBREGCluster"].astype(str) + "/" + frame["SUBREG_GRP"].astype(str)
    frame["SUBREG"] = frame["SUBREG_GRP"] + "/" + frame["SUBREG"].astype(str)
    return _coded(frame, "SUBREG", ("SUBREGCluster", "SUBREG_GRP"))


def _acs(name: str) -> pg.Dataset:
    """Return a table of the ACS whose industries have the hierarchy that the categories of its records show."""
    given = load(name)
    kept = ("PUMA", "SEX", "MSP", "HISP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "EDU", "PINCP_DECILE", "DVET", "INDP")
    codes, found = np.zeros(given.domain["INDP"], dtype=int), np.asarray(given.column("INDP")).astype(int)
    codes[found] = given.column("INDP_CAT")
    seen = np.isin(np.arange(len(codes)), found)
    places = np.maximum.accumulate(np.where(seen, np.arange(len(codes)), 0))  # a code without records: that before it
    tree = pg.Hierarchy("INDP", {"category": [f"{code:02d}" for code in codes[places]]})
    data = given.select(kept)
    return pg.Dataset(data.domain.with_hierarchies(tree), data.columns, data.records)


CODES, BLOCKS, CHAPTERS, TAIL = 600, 60, 12, 1.1
OTHERS = {"age": 8, "sex": 2, "region": 10, "stay": 6, "outcome": 3, "payer": 5}


def made_codes(records: int, listed: bool = False) -> pg.Dataset:
    """Return records whose code has a long tail, and whose other attributes depend on its block and chapter.

    Each code lies in a random block, and each block in a random chapter. The chance of a code is proportional to
    1 / rank^1.1, in random order. Each other attribute has a distribution for each chapter, drawn from a Dirichlet
    distribution of concentration 4, and for each block, of concentration 20 around that of the chapter. Given the
    block, the others are independent.
    """
    generator = np.random.default_rng(0)
    blocks = np.sort(np.r_[np.arange(BLOCKS), generator.integers(BLOCKS, size=CODES - BLOCKS)])
    chapters = np.sort(np.r_[np.arange(CHAPTERS), generator.integers(CHAPTERS, size=BLOCKS - CHAPTERS)])
    chances = generator.permutation(1 / np.arange(1, CODES + 1) ** TAIL)
    code = generator.choice(CODES, size=records, p=chances / chances.sum())
    order = np.arange(CODES)
    if listed:
        seen = pd.unique(code)
        order = np.r_[seen, np.setdiff1d(order, seen)]
    columns = {"code": np.argsort(order)[code]}
    for name, size in OTHERS.items():
        base = generator.dirichlet(np.full(size, 4.0))
        by_chapter = generator.dirichlet(4.0 * base, size=CHAPTERS)
        by_block = np.array([generator.dirichlet(20.0 * by_chapter[c] + 1e-3) for c in chapters])
        cuts = np.cumsum(by_block, axis=1)[blocks[code]]
        columns[name] = np.minimum((generator.random(records)[:, None] > cuts).sum(axis=1), size - 1)
    tree = pg.Hierarchy("code", {"chapter": chapters[blocks][order], "block": blocks[order]})
    return pg.Dataset.from_codes(list(columns.values()), pg.Domain({"code": CODES, **OTHERS}).with_hierarchies(tree))


def _with_random_tree(data: pg.Dataset) -> pg.Dataset:
    """Return the same records with the branches of the tree in random order over the codes."""
    ((attribute, tree),) = data.domain.hierarchies.items()
    order = np.random.default_rng(0).permutation(tree.values)
    dealt = pg.Hierarchy(attribute, {level: groups[order].tolist() for level, groups in tree.levels.items()})
    return pg.Dataset(pg.Domain(dict(data.domain)).with_hierarchies(dealt), data.columns, data.records)


TABLES: dict[str, Callable[[], pg.Dataset]] = {
    "austria": _austria,
    "acs/MA2019": lambda: _acs("acs/MA2019"),
    "travel_survey": _travel,
    "austria 5": lambda: _austria().select(("district", "gender", "income", "rent", "fam_allow")),
    "travel 5": lambda: _travel().select(("SUBREG", "PGender", "PAge", "PEmp", "HHSize")),
    "codes 8,000": lambda: made_codes(8_000),
    "listed 8,000": lambda: made_codes(8_000, listed=True),
    "random 8,000": lambda: _with_random_tree(made_codes(8_000)),
    "random MA2019": lambda: _with_random_tree(_acs("acs/MA2019")),
    "random travel 5": lambda: _with_random_tree(table("travel 5")),
}


@cache
def table(name: str) -> pg.Dataset:
    """Return a table, read once a process."""
    return TABLES[name]()


# -- mechanisms -------------------------------------------------------------------------------------------------------


def fitted(data: pg.Dataset, run: MechanismRun) -> Any:
    """Return LAMP's release for all pairs, and, if asked, for triples of each coarser level and two others."""
    ((attribute, tree),) = data.domain.hierarchies.items()
    workload = None
    if run.mechanism == "LAMP asked for triples":
        others = [name for name in data.domain if name != attribute]
        levels = [f"{attribute}@{level}" for level in tree.names]
        triples = [(level, *two) for level in levels for two in itertools.combinations(others, 2)]
        workload = [*itertools.combinations(data.domain, 2), *triples]
    mechanism = pg.mechanisms.LAMP(epsilon=run.epsilon, delta=DELTA, backend="simulation")
    return mechanism.fit(data, workload, seed=run.seed, progress=False)


# -- errors -----------------------------------------------------------------------------------------------------------


def _questions(domain: pg.Domain) -> dict[str, list[tuple[str, ...]]]:
    """Return the tables of each kind: the attribute with the tree, and 0, 1 or 2 others; and pairs of others."""
    (attribute,) = domain.hierarchies
    others = [name for name in domain if name != attribute]
    triples = [(attribute, *pair) for pair in itertools.combinations(others, 2)]
    chosen = np.linspace(0, len(triples) - 1, min(TRIPLES, len(triples))).round().astype(int)
    return {
        "1": [(attribute,)],
        "2": [(attribute, name) for name in others],
        "3": [triples[place] for place in chosen],
        "others": list(itertools.combinations(others, 2)),
    }


def errors(data: pg.Dataset, found: Any) -> dict[str, float]:
    """Return the mean error of each kind of table, at each level of the tree."""
    ((attribute, tree),) = data.domain.hierarchies.items()
    levels: Mapping[str, np.ndarray] = {**tree.levels, attribute: np.arange(tree.values)}
    result: dict[str, float] = {}
    for kind, cliques in _questions(data.domain).items():
        distances: dict[str, list[float]] = {}
        for clique in cliques:
            off = found.project(clique).values - data.project(clique).values
            for level, groups in levels.items() if kind != "others" else [("", np.empty(0))]:
                grouped = off
                if level not in ("", attribute):
                    grouped = np.zeros((int(groups.max()) + 1, *off.shape[1:]))
                    np.add.at(grouped, groups.astype(np.int64), off)
                distances.setdefault(level, []).append(0.5 * float(np.abs(grouped).sum()) / data.records)
        for level, values in distances.items():
            result[f"{level} {kind}".strip()] = float(np.mean(values))
    return result


def measure(run: MechanismRun) -> dict[str, Any]:
    """Return the errors of one release, and its processor time."""
    data = table(run.table)
    started = time.process_time()
    found = fitted(data, run)
    seconds = time.process_time() - started
    return {**errors(data, found), "seconds": seconds}
