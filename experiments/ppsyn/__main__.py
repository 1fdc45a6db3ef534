"""python -m experiments.ppsyn [--quick] [--fresh]: the same as python -m experiments.papers ppsyn, for PPSyn alone."""

from __future__ import annotations

import argparse

from experiments.papers.paper import Run
from experiments.papers.ppsyn import PAPER


def main() -> None:
    """Run all steps."""
    parser = argparse.ArgumentParser(prog="python -m experiments.ppsyn", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a try, kept apart in build/quick")
    parser.add_argument("--fresh", action="store_true", help="run again what was run before")
    given = parser.parse_args()
    PAPER.run(Run(given.quick, given.fresh))


if __name__ == "__main__":
    main()
