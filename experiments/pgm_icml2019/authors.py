"""python -m experiments.pgm_icml2019.authors CLONE: the authors' own code beside our Algorithms 1 and 2.

CLONE is a clone of github.com/ryan112358/private-pgm, whose first commit, of April 2019, has the code of the paper. Its
K and its errors after a few iterations on HDMM's measurements at epsilon 1 go to `pgm_authors.csv`, with ours.
"""

from __future__ import annotations

import argparse
import collections
import collections.abc
import importlib
import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
from scipy import sparse

import pgmest as pg
from experiments.papers.reading import RESULTS
from experiments.pgm_icml2019.problem import DATASETS, Problem, problem
from experiments.pgm_icml2019.published import algorithm1, algorithm2, hdmm
from pgmest.measurements.measurement import LinearMeasurement

COMMIT, ITERATIONS = "a07c9f5", 20


def authors_package(clone: Path, folder: str) -> Any:
    """Their package `mbi` of that commit, unpacked into a folder."""
    packed = subprocess.run(["git", "-C", clone, "archive", COMMIT, "src"], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 has it
        archive.extractall(folder)
    for name in ("Iterable", "Mapping"):  # where Python had them at the time
        setattr(collections, name, getattr(collections.abc, name))
    sys.path.insert(0, f"{folder}/src")
    return importlib.import_module("mbi")


def compared(theirs: Any, known: Problem, iterations: int) -> dict[str, Any]:
    """K and the errors of both algorithms, theirs and ours, with the noise called 1 as in their scripts."""
    taken = hdmm.measure(known, 1.0, 0)
    measurements = [(_matrix(one), one.values.reshape(-1), 1.0, one.clique) for one in taken]
    domain = theirs.Domain(list(known.domain), list(known.domain.values()))
    of = [pg.LinearMeasurement(o.values, o.clique, 1.0, query=o.query) for o in taken], known.domain, known.data.records
    k = algorithm2.largest_eigenvalue(*of)
    found = {"dataset": known.name, "iterations": iterations, "our_k": k / known.data.records**2}
    mine = {
        "RDA": algorithm2.algorithm_2(*of, iterations, k),
        "MD": algorithm1.algorithm_1(*of, iterations),
    }
    for engine, tables in mine.items():
        their = theirs.FactoredInference(domain, iters=iterations)
        model = their.infer(measurements, total=known.data.records, engine=engine, options={})
        answers = [
            item.answer(pg.Factor(known.domain.project(item.clique), model.project(item.clique).values))
            for item in known.workload
        ]
        found |= {f"their_{engine}": known.error_of(answers), f"our_{engine}": known.error(tables)}
    return {**found, "their_k": their._lipchitz()}


def _matrix(measurement: LinearMeasurement) -> Any:
    """Its queries about the cells of its clique."""
    query = measurement.query
    return sparse.eye(measurement.rows, format="csr") if query is None else sparse.csr_matrix(query.matrix())


def main() -> None:
    """Compare on the named tables."""
    parser = argparse.ArgumentParser(prog="python -m experiments.pgm_icml2019.authors", description=__doc__)
    parser.add_argument("clone", type=Path, help="a clone of private-pgm")
    parser.add_argument("tables", nargs="*", default=DATASETS, help="which; all by default")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        theirs = authors_package(arguments.clone, folder)
        rows = [compared(theirs, problem(name), ITERATIONS) for name in arguments.tables]
    table = pd.DataFrame(rows)
    print(table.to_string())
    path = RESULTS / "pgm_authors.csv"
    path.write_text(table.to_csv(index=False, float_format="%.12g"), encoding="utf-8")


if __name__ == "__main__":
    main()
