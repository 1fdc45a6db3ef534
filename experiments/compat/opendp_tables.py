"""OpenDP's contingency tables with its own estimator and with pgmest's: processor seconds, and the error of pairs.

OpenDP pins mbi and polars, so it has an environment of its own:

    make opendp          makes build/compat/opendp, runs this there, and the notebook beside this file

Each algorithm (MST, AIM, Fixed, Sequential) runs on the public ages, jobs and schooling that `make_table` invents, with
the same budget and either estimator. Noise is fresh in each run, so errors are means of three; seconds are those of the
first release of its kind, with what it compiles, and the mean of the others.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

KEYS = {
    "age": list(range(8)),
    "job": list(range(6)),
    "school": list(range(5)),
    "sex": [0, 1],
    "region": list(range(4)),
    "owner": [0, 1],
}
RHO, RECORDS = 0.05, 20_000
RESULTS = Path(__file__).resolve().parents[1] / "results" / "compat_opendp.json"


def make_table(seed: int = 0) -> Any:
    """Records in which each attribute depends on the one before it, as a polars LazyFrame."""
    import polars as pl

    rng = np.random.default_rng(seed)
    columns: dict[str, np.ndarray] = {}
    before = rng.integers(0, 8, RECORDS)
    for name, values in KEYS.items():
        follows = rng.random(RECORDS) < 0.7
        before = np.where(follows, before % len(values), rng.integers(0, len(values), RECORDS))
        columns[name] = before
    return pl.LazyFrame({name: column.astype(np.int64) for name, column in columns.items()})


def algorithms(estimator: Any = None) -> Iterator[tuple[str, Any]]:
    """OpenDP's algorithms, with the estimator given or OpenDP's default."""
    import opendp.prelude as dp

    options = {} if estimator is None else {"estimator": estimator}
    chain = [dp.mbi.Count(by=pair) for pair in itertools.pairwise(KEYS)]
    yield "MST", dp.mbi.MST(**options)
    yield "AIM", dp.mbi.AIM(queries=2, **options)
    yield "Fixed", dp.mbi.Fixed(queries=chain, **options)
    steps = [dp.mbi.Fixed(queries=chain[:2], **options), dp.mbi.MST(**options)]
    yield "Sequential", dp.mbi.Sequential(algorithms=steps, **options)


def release(frame: Any, algorithm: Any) -> Any:
    """One contingency table under zCDP."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    context = dp.Context.compositor(
        data=frame, privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(rho=RHO)
    )
    query = context.query(rho=RHO).select(*KEYS)
    return query.contingency_table(keys=KEYS, algorithm=algorithm).release()


def pair_error(frame: Any, table: Any) -> float:
    """The mean L1 distance of the table's pairs from the truth, as a share of the records."""
    records = frame.collect()
    errors = []
    for a, b in itertools.combinations(KEYS, 2):
        rows, columns = list(table.keys[a]), list(table.keys[b])  # OpenDP adds a key for missing values
        places = [np.array([keys.index(code) for code in KEYS[name]]) for keys, name in ((rows, a), (columns, b))]
        truth = np.zeros((len(rows), len(columns)))
        np.add.at(truth, (places[0][records[a].to_numpy()], places[1][records[b].to_numpy()]), 1.0)
        found = np.asarray(table.project((a, b)), dtype=float).reshape(truth.shape)
        errors.append(np.abs(truth - found).sum() / RECORDS)
    return float(np.mean(errors))


def compare(frame: Any, runs: int, only: str | None = None, whose: str | None = None) -> Iterator[dict[str, Any]]:
    """A row per algorithm and estimator."""
    from pgmest.adapters.opendp import estimator

    release(frame, next(algorithms(estimator))[1])  # imports, and kernels
    for name, given in (("pgmest", estimator), ("OpenDP", None)):
        for label, algorithm in algorithms(given):
            if only not in (None, label) or whose not in (None, name):
                continue
            seconds, errors = [], []
            for _ in range(runs):
                start = time.process_time()  # of all threads, whatever else the machine does
                table = release(frame, algorithm)
                seconds.append(time.process_time() - start)
                errors.append(pair_error(frame, table))
            yield {
                "algorithm": label,
                "estimator": name,
                "runs": runs,
                "first": round(seconds[0], 2),
                "later": round(float(np.mean(seconds[1:])), 2) if runs > 1 else None,
                "error of pairs": round(float(np.mean(errors)), 4),
                "least": round(min(errors), 4),
                "largest": round(max(errors), 4),
            }


def keep(row: dict[str, Any], path: Path = RESULTS) -> None:
    """A row into the results, in the place of an earlier one of the same release, algorithm and estimator."""
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    versions = {name: importlib.metadata.version(name) for name in ("opendp", "mbi", "polars", "numpy", "jax")}
    release = kept.setdefault(versions["opendp"], {"rows": []})
    release["versions"] = versions
    same = ("algorithm", "estimator")
    others = [one for one in release["rows"] if any(one[name] != row[name] for name in same)]
    release["rows"] = [*others, row]
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main() -> None:
    """Print the comparison, and keep it in experiments/results/compat_opendp.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="one algorithm")
    parser.add_argument("--estimator", choices=("pgmest", "OpenDP"), help="one of them")
    parser.add_argument("--runs", type=int, default=3, help="how often (default 3)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the file of results to add to")
    options = parser.parse_args()
    for row in compare(make_table(), options.runs, options.only, options.estimator):
        print("  ".join(f"{value!s:>10}" for value in row.values()), flush=True)
        keep(row, options.out)


if __name__ == "__main__":
    main()
