"""python -m experiments.pgm_icml2019 [--quick] [figure1 figure2a figure2b figure3 direct]: PGM's figures (ICML 2019).

The same as `python -m experiments.papers pgm --step figure1 ...`, without the page of the papers.
"""

from __future__ import annotations

import argparse

from experiments.papers.paper import Run
from experiments.papers.pgm import PAPER

parser = argparse.ArgumentParser(prog="python -m experiments.pgm_icml2019", description=__doc__)
parser.add_argument("figures", nargs="*", metavar="figure", help="which; all by default")
parser.add_argument("--quick", action="store_true", help="a try, in build/quick")
parser.add_argument("--fresh", action="store_true", help="run again what was run before")
arguments = parser.parse_args()
PAPER.run(Run(arguments.quick, arguments.fresh), arguments.figures)
