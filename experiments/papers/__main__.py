"""python -m experiments.papers [NAME ...] [--quick]: run what a paper shows, and write papers.md.

Without a name nothing is run: the page `experiments/papers.md` is written anew from the results that are there. With
`--quick` a try is run, which leaves its files in `build/quick` and the page as it is; with `--record`, too, a whole try
is run from the start, and the page says from then on what it takes. `--missing` lists the single runs that have no row
among the results or in `build/cells`; `--run PATTERN` runs those, each in any process and on any machine, and writes
nothing but their rows in `build/cells`, from which the command without it then makes the reports.
"""

from __future__ import annotations

import argparse
import importlib

from experiments.papers import page, tries
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
    parser.add_argument("--quick", action="store_true", help="a try: few seeds, rough numbers, kept apart")
    parser.add_argument("--fresh", action="store_true", help="run again what was run before")
    parser.add_argument("--stored", action="store_true", help="run nothing: report what has been run so far")
    parser.add_argument(
        "--record", action="store_true", help="with --quick: run it whole, and say on the page how long"
    )
    parser.add_argument("--step", action="append", default=[], help="only these steps")
    parser.add_argument("--missing", action="store_true", help="run nothing: list the single runs without a row")
    parser.add_argument("--run", action="append", default=[], metavar="PATTERN", help="only these single runs")
    arguments = parser.parse_args()
    known = {paper.key: paper for paper in papers()}
    if arguments.record and (arguments.step or not arguments.quick):
        parser.error("--record is for a whole try: give it with --quick and without --step.")
    how = Run(arguments.quick, arguments.fresh or arguments.record, arguments.stored)
    if arguments.missing or arguments.run:
        _single_runs([known[name] for name in arguments.names], how, arguments.run or ["*"], not arguments.missing)
        return
    if how.quick:
        print(f"A try: rough numbers, apart from the results, in {how.results}", flush=True)
    for name in arguments.names:
        seconds = known[name].run(how, arguments.step)
        if arguments.record:
            tries.record(name, seconds)
    if arguments.record or not arguments.quick:
        write_atomically(page.PAGE, page.page(list(known.values())))


def _single_runs(some: list[Paper], how: Run, patterns: list[str], run: bool) -> None:
    """Run the missing runs whose names are like a pattern, or only list them."""
    for paper in some:
        for runs in paper.missing(how, patterns):
            for cell in () if run else runs.cells:
                print(f"{paper.key} --run {cell.name!r}")
            if run:
                how.rows(runs)


if __name__ == "__main__":
    main()
