"""python -m experiments.pgm_icml2019 [figure1 figure2a figure2b figure3 direct]: PGM's figures (ICML 2019).

The same as `python -m experiments.papers pgm --step figure1 ...`, without the page of the papers.
"""

import sys

from experiments.papers.paper import Run
from experiments.papers.pgm import PAPER

PAPER.run(Run(), sys.argv[1:])
