"""python -m experiments.pgm_icml2019 {figure1,figure2a,figure2b}: the experiments of PGM (ICML 2019).

Results go to experiments/results/pgm_figure*.{csv,md,png}. Each run is kept in build/pgm_icml2019, so that a command
that was stopped goes on where it was. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse

from experiments.pgm_icml2019 import figure1, figure2
from experiments.pgm_icml2019.cases import DATASETS, MECHANISMS

parser = argparse.ArgumentParser(prog="python -m experiments.pgm_icml2019", description=__doc__)
parser.add_argument("figure", choices=["figure1", "figure2a", "figure2b"])
parser.add_argument("--mechanism", action="append", choices=list(MECHANISMS), help="only these, of figure 1")
parser.add_argument("--dataset", action="append", choices=DATASETS, help="only these, of figure 1")
parser.add_argument("--fresh", action="store_true", help="run again what was run before")
arguments = parser.parse_args()

if arguments.figure == "figure1":
    figure1.run(arguments.mechanism or list(MECHANISMS), arguments.dataset or DATASETS, arguments.fresh)
elif arguments.figure == "figure2a":
    figure2.epsilons(arguments.fresh)
else:
    figure2.seconds()
