"""What the command line accepts, and its help: for each command its options beside the examples that teach it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

Run = Callable[[argparse.Namespace], None]
Add = Callable[..., Any]  # the add_argument of a command's parser

EXAMPLES = """\
from noisy measurements to synthetic records:
  pgmest estimate --domain domain.json --measurements measurements.json --out model.npz
  pgmest info model.npz
  pgmest query model.npz age,income
  pgmest sample model.npz --rows 10000 --out synthetic.csv

pgmest COMMAND --help has more about each. Exit codes: 0 done, 1 error, 2 wrong usage, 130 interrupted.
"""
CLIQUES = """\
Attributes are separated by commas: age,income. If a name has a comma in it, write the clique as a JSON list:
'["city, state", "income"]'. Names with blanks need quotes only for the shell: "Call Type,City".
"""


def make_parser(commands: Mapping[str, Run]) -> argparse.ArgumentParser:
    """The parser; its result has the function of the command as `run`, beside the command's own options."""
    parser = argparse.ArgumentParser(
        prog="pgmest",
        description="One distribution over all attributes from noisy answers about a few marginals.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"pgmest {_version()}")
    added = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, run in commands.items():
        title, details, options = USAGE[name]
        command = added.add_parser(
            name,
            help=title,
            description=title,
            epilog=details,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.set_defaults(run=run)
        options(command.add_argument)
    return parser


# -- estimate -------------------------------------------------------------------------------------------------------

ESTIMATE = """\
examples:
  pgmest estimate --domain domain.json --measurements measurements.json --out model.npz
  pgmest estimate --domain domain.json --measurements measurements.json --out model.npz --total 48842 --loss l1

A domain file gives the number of values of each attribute: {"age": 85, "sex": 2, "income": 2}.
A measurement file gives for each measurement its clique, noisy values and noise, in the format that
python -c "help('pgmest.measurement_file')" shows:
  {"format": "pgmest-measurements", "version": 1,
   "measurements": [{"clique": ["sex", "income"], "values": [[60.2, 38.9], [20.5, 9.1]], "stddev": 10.0}]}
Ctrl-C stops early, and the model found so far is written.
"""


def _estimate(add: Add) -> None:
    add("--domain", required=True, metavar="FILE", help="the domain, .json")
    add("--measurements", required=True, metavar="FILE", help="the measurements, .json or .npz")
    add("--out", required=True, metavar="FILE", type=_output, help="where the model goes, .npz")
    add("--total", type=float, metavar="N", help="the number of records (default: estimated from the measurements)")
    add("--loss", default="l2", help="l2, l1, huber or likelihood (default: l2)")
    solvers = "auto, accelerated, smoothing, universal, mirror_descent, dual_averaging, lbfgs, ipf or mirror_flow"
    add("--method", default="auto", help=f"the solver: {solvers} (default: auto)")
    add("--tolerance", type=float, default=1e-3, metavar="X", help="relative gap to stop at (default: %(default)s)")
    add("--max-iterations", type=int, default=5000, metavar="N", help="most iterations (default: %(default)s)")
    add("--max-megabytes", type=float, default=8000, metavar="X", help="refuse larger models (default: %(default)s)")


# -- info -----------------------------------------------------------------------------------------------------------

INFO = """\
examples:
  pgmest info model.npz
  pgmest info model.npz --json
"""


def _info(add: Add) -> None:
    add("model", metavar="MODEL", help="a model file, .npz")
    add("--json", action="store_true", help="print JSON")


# -- query ----------------------------------------------------------------------------------------------------------

QUERY = f"""\
examples:
  pgmest query model.npz age,income
  pgmest query model.npz age sex,income --json
  pgmest query model.npz age,income --out age-income.csv

The answer is CSV: a column per attribute and the count, in the order asked for; with several cliques an empty line
stands between tables. With --json it is a list of {{"attributes": [...], "counts": nested lists, an axis each}}.
{CLIQUES}"""


def _query(add: Add) -> None:
    add("model", metavar="MODEL", help="a model file, .npz")
    add("cliques", nargs="+", metavar="CLIQUE", help="attributes separated by commas, or a JSON list")
    add("--out", metavar="FILE", type=_output, help="write there instead of to standard output")
    add("--json", action="store_true", help="JSON instead of CSV")


# -- sample ---------------------------------------------------------------------------------------------------------

SAMPLE = """\
examples:
  pgmest sample model.npz --out synthetic.csv
  pgmest sample model.npz --rows 10000 --seed 0 --out synthetic.parquet

The ending of the file says its format: .csv, .csv.gz or .parquet. Values are codes 0..n-1, as in the domain.
"""


def _sample(add: Add) -> None:
    add("model", metavar="MODEL", help="a model file, .npz")
    add("--rows", type=_rows, metavar="N", help="how many records (default: the model's total)")
    add("--out", required=True, metavar="FILE", type=_output, help=".csv, .csv.gz or .parquet")
    add("--method", default="round", help="round: as even as whole numbers allow; multinomial: independent records")
    add("--seed", type=int, metavar="N", help="the same seed gives the same records")


# -- measure --------------------------------------------------------------------------------------------------------

MEASURE = f"""\
examples:
  pgmest measure people.csv.gz --domain domain.json --cliques age,sex sex,income --stddev 10 --out measurements.json
  pgmest measure people.csv.gz --domain domain.json --cliques-file cliques.json --stddev 10 --out measurements.json

This is for trying the other commands. The noise is floating-point, from a seeded generator, and no budget is kept.
The table holds codes 0..n-1. A domain file gives n for each attribute: {{"age": 85, "sex": 2, "income": 2}}.
{CLIQUES}A file of cliques is a JSON list of such lists.
"""


def _measure(add: Add) -> None:
    add("data", metavar="TABLE", help=".csv, .csv.gz or .parquet")
    add("--domain", required=True, metavar="FILE", help="the domain, .json")
    add("--cliques", nargs="+", metavar="CLIQUE", help="attributes separated by commas, or a JSON list")
    add("--cliques-file", metavar="FILE", help="a JSON list of lists of attributes")
    add("--stddev", required=True, type=float, metavar="X", help="standard deviation of the noise, in counts")
    add("--out", required=True, metavar="FILE", type=_output, help="where the measurements go, .json or .npz")
    add("--seed", type=int, metavar="N", help="the same seed gives the same noise")


USAGE: dict[str, tuple[str, str, Callable[[Add], None]]] = {
    "estimate": ("Estimate a model from noisy measurements of marginals.", ESTIMATE, _estimate),
    "info": ("Show a model's domain, its junction tree with its cost, and how the estimate went.", INFO, _info),
    "query": ("Print marginals of a model, of measured cliques or any others, in counts.", QUERY, _query),
    "sample": ("Draw synthetic records from a model.", SAMPLE, _sample),
    "measure": ("Measure marginals with simulated Gaussian noise. The result is NOT private.", MEASURE, _measure),
}


def _rows(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 0")
    return int(text)


def _output(path: str) -> str:
    """An output file: its folder must be there before any work is done."""
    if not Path(path).absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"the folder of '{path}' does not exist; make it first")
    return path


def _version() -> str:
    try:
        return version("pgmest")
    except PackageNotFoundError:
        return "(not installed)"
