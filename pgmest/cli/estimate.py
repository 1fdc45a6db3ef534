"""`pgmest measure` and `pgmest estimate`: simulated noisy answers from records, and a model from noisy answers."""

from __future__ import annotations

import argparse
import json

from pgmest.cli.cliques import CLIQUES, clique_of, cliques_of_file
from pgmest.cli.command import Add, Command, say, show
from pgmest.cli.facts import finite
from pgmest.cli.paths import InputFile, output, overwrite_option
from pgmest.cli.streams import TABLE, input_table, reader_options
from pgmest.errors import ArgumentError
from pgmest.tables.domain import Domain

ESTIMATE_DETAILS = """\
examples:
  pgmest estimate --domain domain.json --measurements measurements.json --out model.npz
  pgmest estimate --domain domain.json --measurements measurements.json --out model.npz --total 48842 --loss l1
  pgmest estimate --schema people.yaml --measurements measurements.json --out model.npz --json

A domain file has the number of values of each attribute: {"age": 85, "sex": 2, "income": 2}. A schema also has the
combinations that cannot occur; their probability is zero.
A measurement file has the clique, the noisy values and the noise of each measurement;
python -c "help('pgmest.measurements.files')" describes its format:
  {"format": "pgmest-measurements", "version": 1,
   "measurements": [{"clique": ["sex", "income"], "values": [[60.2, 38.9], [20.5, 9.1]], "stddev": 10.0}]}
Ctrl-C stops early and writes the model found so far.
"""

MEASURE_DETAILS = f"""\
examples:
  pgmest measure people.csv.gz --domain domain.json --cliques age,sex sex,income --stddev 10 --out measurements.json
  pgmest measure people.csv.gz --domain domain.json --cliques-file cliques.json --stddev 10 --out measurements.json

This is for trying the other commands. The noise is floating-point, from a seeded generator, and no budget is kept.
The table holds codes 0..n-1. A domain file gives n for each attribute: {{"age": 85, "sex": 2, "income": 2}}.
{CLIQUES}A file of cliques is a JSON list of such lists.
"""


def _estimate_options(add: Add) -> None:
    add("--domain", metavar="FILE", type=InputFile, help="the domain, .json")
    add("--schema", metavar="FILE", type=InputFile, help="a schema, .yaml, .json or .toml, instead of the domain")
    add("--measurements", required=True, metavar="FILE", type=InputFile, help="the measurements, .json or .npz")
    add("--out", required=True, metavar="FILE", type=output, help="where the model goes, .npz")
    overwrite_option(add)
    add("--total", type=float, metavar="N", help="the number of records (default: estimated from the measurements)")
    add("--loss", default="l2", help="l2, l1, huber or likelihood (default: l2)")
    named = (
        "accelerated, proximal_point, smoothing, universal, mirror_descent, dual_averaging, lbfgs, ipf or mirror_flow"
    )
    solvers = f"auto, {named}"
    add("--method", default="auto", help=f"the solver: {solvers} (default: auto)")
    add("--tolerance", type=float, default=1e-3, metavar="X", help="relative gap to stop at (default: %(default)s)")
    add("--max-iterations", type=int, default=5000, metavar="N", help="most iterations (default: %(default)s)")
    add("--max-megabytes", type=float, default=8000, metavar="X", help="refuse larger models (default: %(default)s)")
    add("--json", action="store_true", help="print the report as JSON")


def _estimate(options: argparse.Namespace) -> None:
    import pgmest as pg
    from pgmest.measurements.files import load_measurements
    from pgmest.schema import Schema
    from pgmest.solvers.progress import progress_bar
    from pgmest.solvers.status import Status

    if (options.domain is None) == (options.schema is None):
        raise ArgumentError("estimate needs either --domain or --schema, one of them.")
    schema = None if options.schema is None else Schema.load(options.schema)
    domain = Domain.load(options.domain) if schema is None else schema.domain
    measurements = load_measurements(options.measurements, domain)
    with progress_bar() as callback:
        model = pg.estimate(
            measurements,
            domain,
            total=options.total,
            method=options.method,
            loss=options.loss,
            structural_zeros=schema.structural_zeros if schema else None,
            tolerance=options.tolerance,
            max_iterations=options.max_iterations,
            max_megabytes=options.max_megabytes,
            callback=callback,
        )
    model.save(options.out)
    assert model.report is not None
    show(json.dumps(finite(model.report.to_json())) if options.json else model.report)
    if model.report.status is Status.INTERRUPTED:  # the model found so far has been saved
        raise KeyboardInterrupt


def _measure_options(add: Add) -> None:
    add("data", metavar="TABLE", type=InputFile, help=TABLE)
    reader_options(add)
    add("--domain", required=True, metavar="FILE", type=InputFile, help="the domain, .json")
    add("--cliques", nargs="+", metavar="CLIQUE", help="attributes separated by commas, or a JSON list")
    add("--cliques-file", metavar="FILE", type=InputFile, help="a JSON list of lists of attributes")
    add("--stddev", required=True, type=float, metavar="X", help="standard deviation of the noise, in counts")
    add("--out", required=True, metavar="FILE", type=output, help="where the measurements go, .json or .npz")
    overwrite_option(add)
    add("--seed", type=int, metavar="N", help="the same seed gives the same noise")


def _measure(options: argparse.Namespace) -> None:
    import pgmest as pg
    from pgmest.measurements.files import save_measurements
    from pgmest.simulation import simulate_measurements

    domain = Domain.load(options.domain)
    cliques = [clique_of(text) for text in options.cliques or ()] + cliques_of_file(options.cliques_file)
    if not cliques:
        raise ArgumentError("no clique to measure: name some with --cliques age,income sex, or with --cliques-file.")
    with input_table(options.data, options) as table:
        data = pg.Dataset.load(table, domain)
    measurements = simulate_measurements(data, cliques, options.stddev, seed=options.seed)
    save_measurements(options.out, measurements)
    say("these measurements are simulated; they are NOT private.")


ESTIMATE = Command(
    "estimate",
    "Estimate a model from noisy measurements of marginals.",
    ESTIMATE_DETAILS,
    _estimate_options,
    _estimate,
)
MEASURE = Command(
    "measure",
    "Measure marginals with simulated Gaussian noise. The result is NOT private.",
    MEASURE_DETAILS,
    _measure_options,
    _measure,
)
