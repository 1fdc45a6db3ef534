"""python -m experiments.papers [NAME ...] [--step STEP]: run what a paper shows, and write reports and papers.md.

Without a name nothing is run: the reports and the page `experiments/papers.md` are written anew from the tables that
are there. `--missing` lists the single runs that have no row among the results or in `build/cells`; `--run PATTERN`
runs those, each in any process and on any machine, and writes nothing but their rows in `build/cells`, from which the
command without it then makes the tables.
"""

from __future__ import annotations

import argparse
import importlib

from experiments.papers import page, report
from experiments.papers.paper import Paper, Run
from pgmest._base.files import write_atomically

NAMES = ("pgm", "ide", "ppsyn", "dpsyn")


def papers() -> list[Paper]:
    """All of them; each module `experiments.papers.NAME` declares its own as `PAPER`."""
    return [importlib.import_module(f"experiments.papers.{name}").PAPER for name in NAMES]


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m experiments.papers", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], help="run everything of these papers")
    parser.add_argument("--fresh", action="store_true", help="run again what was run before")
    parser.add_argument(
        "--stored", action="store_true", help="run nothing: make the tables of what has been run so far"
    )
    parser.add_argument("--step", action="append", default=[], help="only these steps")
    parser.add_argument("--missing", action="store_true", help="run nothing: list the single runs without a row")
    parser.add_argument("--run", action="append", default=[], metavar="PATTERN", help="only these single runs")
    arguments = parser.parse_args()
    known = {paper.key: paper for paper in papers()}
    how = Run(arguments.fresh, arguments.stored)
    for name in arguments.names:
        if arguments.missing or arguments.run:
            for runs in known[name].missing(how, arguments.run or ["*"]):
                if arguments.missing:
                    print("\n".join(f"{name} --run {cell.name!r}" for cell in runs.cells))
                else:
                    how.rows(runs)
        else:
            known[name].run(how, arguments.step)
    if not (arguments.missing or arguments.run):
        report.write()
        write_atomically(page.PAGE, page.page(list(known.values())))


if __name__ == "__main__":
    main()
