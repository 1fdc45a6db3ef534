"""`python -m experiments.benchmarks [NAME]`: measure pgmest against mbi."""

from __future__ import annotations

import argparse
import importlib

DESCRIPTION = "Measure pgmest against mbi. Without a NAME all benchmarks run."
BENCHMARKS = {
    "oracle": "the MARGINAL-ORACLE: new cliques, later calls, memory",
    "bulk": "all two-way and three-way marginals of a model at once",
    "cores": "the oracle on 1, 2, 4, ... threads",
    "queries": "factored queries and unmeasured marginals of a calibrated model",
    "residuals": "all pairs of many attributes, by residuals",
    "solvers": "loss against iterations and seconds",
}


def main() -> None:
    """Run the benchmarks named on the command line, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m experiments.benchmarks", description=DESCRIPTION)
    parser.add_argument("benchmark", nargs="?", choices=BENCHMARKS, help=_listed(), metavar="NAME")
    parser.add_argument("--only", action="append", default=[], metavar="PROBLEM", help="these problems (a pattern)")
    parser.add_argument("--quick", action="store_true", help="rough numbers, kept apart in build/benchmarks")
    parser.add_argument("--slow", action="store_true", help="also what takes many minutes or much memory")
    parser.add_argument("--fresh", action="store_true", help="measure again what has a current result")
    options = parser.parse_args()
    for name in [options.benchmark] if options.benchmark else BENCHMARKS:
        importlib.import_module(f"experiments.benchmarks.{name}_command").run(options)


def _listed() -> str:
    return "; ".join(f"{name}: {meaning}" for name, meaning in BENCHMARKS.items())


if __name__ == "__main__":
    main()
