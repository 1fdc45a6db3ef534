"""Weights of whole households to household and person totals, beside PopulationSim.

`python -m experiments.household_margins` weighs the households of a travel survey (27,980 in four clusters) to their
control totals. It writes experiments/results/household_margins.md and .csv. Runs of PopulationSim need an interpreter
that has it (`--populationsim PYTHON`); without one their kept rows are shown.

Problems: "example", the totals that PopulationSim's own example of this survey controls; "all", every total of the
table, which contradict each other; "tracts", totals of 100 small zones that were drawn from the survey, so that they
can be met.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

import pgmest as pg
from experiments.data import data_folder
from experiments.kept_runs import EXPERIMENTS, KeptRuns, add_options, wanted
from pgmest._base.files import write_atomically
from pgmest.errors import ControlError

CLUSTER, GROUP, TRACT, KEY = "SUBREGCluster", "SUBREG_GRP", "TAZ", "hhID"
COLUMNS = {
    "HHSize": {1: "1", 2: "2", 3: "3", 4: "4p"},
    "HHIncome": {1: "low", 2: "med", 3: "high"},
    "HHDwelling": {1: "Single", 2: "Multiple"},
    "HHChild": {0: "0", 1: "1p"},
    "PAge": dict(enumerate(["0_4", *["5_18"] * 3, "19_24", *["25_44"] * 2, *["45_64"] * 2, *["65p"] * 2])),
    "PGender": {1: "M", 2: "F"},
    "PEmp": {1: "FT", 2: "PT", 3: "NW", None: "NW"},
    "POcc": {**{number: str(number) for number in range(1, 11)}, None: "na"},
    "PComm": {"active": "a", "auto": "c", "other": "o", "transit": "t", "workFromHome": "h", None: "n"},
}
"""The codes of the survey, and the endings of the names of the totals."""

EXAMPLE = ("HHSize", "HHIncome", "HHDwelling", "PAge", "PGender", "PComm")
TRACT_COLUMNS = ("HHSize", "HHIncome", "HHDwelling", "PAge", "PGender")
TRACTS, TRACT_HOUSEHOLDS = 100, 100
MOST_SECONDS = 1800.0


@dataclass(frozen=True)
class Run:
    """One way to weigh the households to the totals of one problem."""

    problem: str
    method: str

    @property
    def name(self) -> str:
        return f"{self.problem}-{self.method}".replace(" ", "_").replace(",", "")


KEPT = KeptRuns("household_margins", Run)
BOUNDS = (0.5, 4.0)
OURS: dict[str, dict[str, Any]] = {
    "pgmest": {},
    "pgmest, penalty 1": {"penalty": 1.0},
    "pgmest, penalty 5": {"penalty": 5.0},
    "pgmest, bounds 0.5 to 4, penalty 5": {"bounds": BOUNDS, "penalty": 5.0},
}
THEIRS: dict[str, dict[str, Any]] = {
    "PopulationSim": {},
    "PopulationSim, bounds 0.5 to 4": {"max_expansion_factor": BOUNDS[1], "min_expansion_factor": BOUNDS[0]},
}
RUNS = [
    *(Run(problem, method) for problem in ("example", "all") for method in ("initial weights", *OURS, *THEIRS)),
    *(Run("tracts", method) for method in ("pgmest", "PopulationSim")),
]


@dataclass(frozen=True)
class Task:
    """The tables of a problem; totals by area and category, in long tables with the columns "area" and "total"."""

    households: pd.DataFrame
    persons: pd.DataFrame
    area: str
    areas: pd.DataFrame
    totals: dict[str, pd.Series]

    def margins(self) -> dict[str, Any]:
        """The totals as `pg.rake_households` takes them."""
        found: dict[str, Any] = {"households": {}, "persons": {}}
        for name, totals in self.totals.items():
            found["households" if name.startswith("HH") else "persons"][self.area, name] = totals
        return found

    def sums(self, weights: pd.DataFrame) -> pd.Series:
        """The totals of weighted households: a table of the key, the area and the weight."""
        found = []
        for name, totals in self.totals.items():
            table = self.households if name.startswith("HH") else self.persons
            joined = weights.merge(table[[KEY, name]], on=KEY)
            sums = joined.groupby([self.area, name])["weight"].sum()
            found.append(sums.reindex(totals.index, fill_value=0.0))
        return pd.concat(found)

    @property
    def wanted(self) -> pd.Series:
        """All totals."""
        return pd.concat(list(self.totals.values()))


def survey() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """The households, persons, control totals and geography of the survey, with the categories of the totals."""
    folder = data_folder() / "households" / "travel_survey"
    names = ("households", "persons", "control_totals", "geography")
    households, persons, totals, geography = (pd.read_csv(folder / f"{name}.csv.gz") for name in names)
    households = households.rename(columns={"HHChildren": "HHChild"})
    for name, labels in COLUMNS.items():
        table = households if name.startswith("HH") else persons
        table[name] = [labels[None if code != code else code] for code in table[name]]
    return households, persons, totals, geography


@cache
def task(problem: str) -> Task:
    """The tables of a problem."""
    households, persons, totals, geography = survey()
    if problem == "tracts":
        return tracts(households, persons, geography)
    chosen = EXAMPLE if problem == "example" else tuple(COLUMNS)
    made = {}
    for name in chosen:
        table = totals.set_index(CLUSTER).filter(regex=f"^{name}_")
        made[name] = table.rename(columns=lambda text: text.partition("_")[2]).rename_axis(columns=name).stack()
    return Task(households, persons, CLUSTER, totals[[CLUSTER]], made)


def tracts(households: pd.DataFrame, persons: pd.DataFrame, geography: pd.DataFrame) -> Task:
    """Zones whose totals are those of households that were drawn in their group of zones."""
    generator = np.random.default_rng(0)
    zones = geography.drop_duplicates(TRACT).sample(TRACTS, random_state=0)[[GROUP, TRACT]].reset_index(drop=True)
    drawn = []
    for tract, group in zip(zones[TRACT], zones[GROUP], strict=True):
        own = households[households[GROUP] == group]
        number = generator.poisson(TRACT_HOUSEHOLDS)
        drawn.append(own.sample(number, replace=True, random_state=generator).assign(**{TRACT: tract}))
    true = pd.concat(drawn)
    people = true[[KEY, TRACT]].merge(persons, on=KEY)
    every = {}
    for name in TRACT_COLUMNS:
        made = (true if name.startswith("HH") else people).groupby([TRACT, name]).size()
        cells = pd.MultiIndex.from_product([zones[TRACT], sorted(set(COLUMNS[name].values()))], names=[TRACT, name])
        every[name] = made.reindex(cells, fill_value=0)
    return Task(households.drop(columns=[CLUSTER, "SUBREG"]), persons, TRACT, zones, every)


def measured(problem: Task, weights: pd.DataFrame, seconds: float | None, whole: bool) -> dict[str, Any]:
    """How close weights come to the totals, and how far they are from the initial ones."""
    off = (problem.sums(weights) - problem.wanted).abs()
    row = weights.groupby(KEY)["weight"].sum().reindex(problem.households[KEY], fill_value=0.0).to_numpy()
    initial = problem.households["HHweight"].to_numpy()
    shares, start = row / row.sum(), initial / initial.sum()
    positive = shares > 0
    return {
        "missed": int((off > (1.0 + 1e-6 if whole else 1e-4 * problem.wanted.clip(lower=1.0))).sum()),
        "totals": len(off),
        "mean_off": float(off.mean()),
        "largest_off": float(off.max()),
        "percent_off": float(100 * off.sum() / problem.wanted.sum()),
        "effective_size": float(row.sum() ** 2 / np.sum(row**2)),
        "divergence": float(np.sum(shares[positive] * np.log(shares[positive] / start[positive]))),
        "seconds": seconds,
    }


def ours(run: Run) -> dict[str, Any]:
    """Run pgmest, or measure the initial weights."""
    one = task(run.problem)
    if run.method == "initial weights":
        table = one.households[[KEY, CLUSTER, "HHweight"]].rename(columns={"HHweight": "weight"})
        return measured(one, table, None, False)
    start = time.process_time()
    try:
        found = pg.rake_households(
            one.households, one.persons, one.margins(), key=KEY, weights="HHweight", zones=one.areas, **OURS[run.method]
        )
    except ControlError as error:
        return {"note": str(error), "seconds": time.process_time() - start}
    seconds = time.process_time() - start
    row = measured(one, found.weights, seconds, False)
    start = time.process_time()
    counts = found.whole(seed=0).counts.rename(columns={"count": "weight"})
    return row | _prefixed(measured(one, counts, time.process_time() - start, True))


def _prefixed(row: dict[str, Any]) -> dict[str, Any]:
    return {f"whole_{name}": row[name] for name in ("missed", "mean_off", "largest_off", "seconds")}


def theirs(run: Run, python: str) -> dict[str, Any]:
    """Run PopulationSim in a folder of its own: a configuration with all totals of the problem, equally important."""
    one = task(run.problem)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _configure(root, one, run)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [python, "-m", "populationsim", "-w", str(root), "-c", str(root / "configs")]
        command += ["-d", str(root / "data"), "-o", str(root / "output")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)
        if done.returncode:
            raise RuntimeError((done.stderr or done.stdout)[-2000:])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return _their_weights(root / "output", one, seconds)


IMPORTANCES = {"HHSize": 5_000_000, "HHIncome": 10_000}
OTHER_IMPORTANCE, TOTAL_IMPORTANCE = 1_000, 1_000_000_000
"""The importances of PopulationSim's example: of two columns, of all others, and of the number of households."""


def _configure(root: Path, one: Task, run: Run) -> None:
    """Write the tables and the configuration of PopulationSim."""
    for name in ("configs", "data", "output"):
        (root / name).mkdir()
    seed = CLUSTER if one.area == CLUSTER else GROUP
    texts = {name: "x" + one.households[name] for name in one.totals if name.startswith("HH")}
    one.households.assign(**texts).rename(columns={KEY: "hh_id"}).to_csv(root / "data" / "households.csv", index=False)
    texts = {name: "x" + one.persons[name] for name in one.totals if not name.startswith("HH")}
    one.persons.assign(**texts).rename(columns={KEY: "hh_id"}).to_csv(root / "data" / "persons.csv", index=False)
    one.areas.assign(Region=1).to_csv(root / "data" / "geo.csv", index=False)
    rows, columns = [], {}
    first = next(iter(one.totals.values()))
    columns["num_hh"] = first.groupby(level=0).sum()
    rows.append(("num_hh", one.area, "households", TOTAL_IMPORTANCE, "num_hh", "households.HHweight > 0"))
    for name, totals in one.totals.items():
        table = "households" if name.startswith("HH") else "persons"
        for label, own in totals.groupby(level=1):
            columns[f"{name}_{label}"] = own.droplevel(1)
            weight = IMPORTANCES.get(name, OTHER_IMPORTANCE)
            field = f"{name}_{label}"
            rows.append((field, one.area, table, weight, field, f"{table}.{name} == 'x{label}'"))
    names = ["target", "geography", "seed_table", "importance", "control_field", "expression"]
    pd.DataFrame(rows, columns=pd.Index(names)).to_csv(root / "configs" / "controls.csv", index=False)
    pd.DataFrame(columns).rename_axis(one.area).reset_index().to_csv(root / "data" / "totals.csv", index=False)
    below = [] if one.area == seed else [f"sub_balancing.geography={one.area}", "expand_households"]
    steps = ["input_pre_processor", "setup_data_structures", "initial_seed_balancing", "meta_control_factoring"]
    steps += ["final_seed_balancing", "integerize_final_seed_weights", *below, "write_tables"]
    settings = {
        "INTEGERIZE_WITH_BACKSTOPPED_CONTROLS": True,
        "SUB_BALANCE_WITH_FLOAT_SEED_WEIGHTS": False,
        "GROUP_BY_INCIDENCE_SIGNATURE": False,
        "USE_SIMUL_INTEGERIZER": True,
        "USE_CVXPY": False,
        "max_expansion_factor": 30,
        **THEIRS[run.method],
        "geographies": ["Region", seed] + ([] if one.area == seed else [one.area]),
        "seed_geography": seed,
        "input_table_list": [
            {"tablename": "households", "filename": "households.csv", "index_col": "hh_id"},
            {"tablename": "persons", "filename": "persons.csv"},
            {"tablename": "geo_cross_walk", "filename": "geo.csv"},
            {"tablename": f"{one.area}_control_data", "filename": "totals.csv"},
        ],
        "household_weight_col": "HHweight",
        "household_id_col": "hh_id",
        "total_hh_control": "num_hh",
        "control_file_name": "controls.csv",
        "output_tables": {"action": "include", "tables": [f"{one.area}_weights"]},
        "models": steps,
    }
    (root / "configs" / "settings.yaml").write_text(yaml.safe_dump(settings))


def _their_weights(output: Path, one: Task, seconds: float) -> dict[str, Any]:
    """Read what PopulationSim wrote."""
    weights = pd.read_csv(output / f"final_{one.area}_weights.csv").rename(columns={"hh_id": KEY})
    found = weights[[KEY, one.area, "balanced_weight"]].rename(columns={"balanced_weight": "weight"})
    counts = weights[[KEY, one.area, "integer_weight"]].rename(columns={"integer_weight": "weight"})
    return measured(one, found, seconds, False) | _prefixed(measured(one, counts, None, True))


def measure(run: Run, python: str | None) -> dict[str, Any]:
    """Make one run."""
    return theirs(run, str(python)) if run.method in THEIRS else ours(run)


def report(table: pd.DataFrame) -> str:
    """The page of results."""
    lines = [
        "# Weights of whole households to household and person totals",
        "",
        "Made by `python -m experiments.household_margins`; not edited. A travel survey of 27,980 households and",
        "59,762 persons. example: the totals that PopulationSim's example of this survey controls. all: every total of",
        f"the table; they contradict each other. tracts: {TRACTS} zones of about {TRACT_HOUSEHOLDS} households, with",
        "totals that can be met. PopulationSim 0.10.0 has the importances of its example. Seconds are those of the",
        "processor, of the same machine; those of PopulationSim are of the whole command, which makes both weights and",
        "whole numbers.",
        "",
        "- missed: weights are off by more than 0.01 % of a total, whole numbers by more than 1.",
        "- off: the mean and the largest distance from a total, in households or persons, and the sum of all distances",
        "  as a share of the sum of all totals.",
        "- effective size: Kish's number of households. divergence: relative entropy to the design weights, in nats.",
        "",
    ]
    head = ("method", "missed", "mean off", "largest off", "share off", "effective size", "divergence", "seconds")
    head += ("whole: missed", "mean off", "largest off", "seconds")
    notes = []
    for problem in dict.fromkeys(run.problem for run in RUNS):
        rows = table[table["problem"] == problem] if len(table) else table
        if not len(rows):
            continue
        lines += [f"## {problem}", "", f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
        for row in rows.to_dict("records"):
            lines.append(f"| {' | '.join(_cells(row))} |")
            if isinstance(row.get("note"), str):
                notes.append(f"{problem}, {row['method']}: {row['note']}")
        lines.append("")
    return "\n".join([*lines, *(f"{note}\n" for note in notes)])


def _cells(row: dict[str, Any]) -> list[str]:
    def number(name: str, form: str) -> str:
        value = row.get(name)
        return "" if value is None or value != value else format(value, form)

    missed = f"{number('missed', '.0f')} of {number('totals', '.0f')}" if number("missed", "") else "refused, see below"
    return [
        row["method"],
        missed,
        number("mean_off", ",.2f"),
        number("largest_off", ",.1f"),
        number("percent_off", ".2f") + (" %" if number("percent_off", "") else ""),
        number("effective_size", ",.0f"),
        number("divergence", ".3f"),
        number("seconds", ".1f"),
        number("whole_missed", ".0f"),
        number("whole_mean_off", ",.2f"),
        number("whole_largest_off", ",.0f"),
        number("whole_seconds", ".1f"),
    ]


def main() -> None:
    """Make the runs that are missing, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, "example-*")
    parser.add_argument("--populationsim", help="a Python interpreter with PopulationSim 0.10")
    options = parser.parse_args()
    able = [run for run in RUNS if run.method not in THEIRS or options.populationsim]
    for run in wanted(able, options, lambda one: KEPT.row(one) is not None):
        row = KEPT.keep(run, measure(run, options.populationsim))
        print(run.name, {name: value for name, value in row.items() if name != "note"}, flush=True)
    table = KEPT.table(RUNS)
    out = EXPERIMENTS / "results" / "household_margins"
    write_atomically(out.with_suffix(".csv"), table.to_csv(index=False))
    write_atomically(out.with_suffix(".md"), report(table))


if __name__ == "__main__":
    main()
