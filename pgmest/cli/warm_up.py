"""`pgmest warm-up`: compile all kernels, so that no later process waits for them."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pgmest._base.kernel_cache import PACKAGE, PREPARED, kernel_folder, prepared_folder, writable
from pgmest.cli.command import Add, Command, say
from pgmest.errors import PgmestError

DETAILS = """\
Kernels are compiled at their first use, which takes 10 to 25 s, and kept on disk. If the users of pgmest have no
writable home folder, such as in a container, run this command when the image is built: later processes load the
kernels and start within seconds.

examples:
  pgmest warm-up                          into the installation, or else the user's cache
  PGMEST_CACHE_DIR=/opt/kernels pgmest warm-up     into a folder; later processes need the same variable
"""

SWEEPS = ("upward", "downward", "upward_max", "downward_max", "clique_table")
_ESTIMATE = """
import pgmest as pg
domain = {"a": 2, "b": 3}
noisy = [pg.LinearMeasurement([[4.0, 3, 2], [1, 5, 6]], ("a", "b"), 1.0)]
model = pg.estimate(noisy, domain)
"""
USES = {
    "many vectors": _ESTIMATE + "model.oracle.run_many(model.potentials.flat[None])",
    "tables that agree": _ESTIMATE
    + "pg.synthesis.locally_nonnegative(noisy, domain)\npg.synthesis.consistent_tables(noisy, domain)\n"
    + "for how in ('gum', 'local_search'):\n"
    + "    pg.synthesis.synthesize([model.project(('a', 'b'))] * 2, domain, 9, method=how, seed=0)",
    "LAMP": "import numpy as np\nimport pgmest as pg\n"
    + "data = pg.Dataset.from_codes([np.arange(900) % k for k in (2, 3, 5, 9)], dict(zip('abcd', (2, 3, 5, 9))))\n"
    + "pg.mechanisms.LAMP(rho=1.0, records=900, backend='simulation').fit(data, seed=0, progress=False).sample()",
    "tables where no tree fits": _ESTIMATE
    + "pg.estimate([*noisy, pg.LinearMeasurement([4.0, 3], 'a', 1.0)], domain, oracle='convex')",
    "junction trees": "import pgmest as pg\nfrom pgmest.graph.tree_limit import TreeLimit\n"
    + "ring = TreeLimit(pg.Domain(dict.fromkeys('abcde', 9)), map(tuple, ['ab', 'bc', 'cd', 'de', 'ea']), 0.02)\n"
    + "ring.fitting(map(tuple, ['a', 'ac', 'bd']))",
    "contraction": "import numpy as np\nimport pgmest as pg\n"
    + "from pgmest.inference.exact.contracted_sweeps import ContractedSweeps\n"
    + "theta = pg.CliqueVector.zeros(dict.fromkeys('abcd', 2), map(tuple, ['abc', 'bcd', 'cda']))\n"
    + "tree = pg.JunctionTree.from_cliques(theta.domain, theta.cliques)\n"
    + "ContractedSweeps.of(theta.layout, tree).run(theta.flat, 1.0, np.empty(theta.layout.cells))\n"
    + "from pgmest.inference.exact import kernel_loading\n"
    + "kernel_loading.load_contraction_kernels(together=True)\n"
    + "kernel_loading.load_many_contraction_kernels()\n"
    + "kernel_loading.load_max_contraction_kernels()",
    "many marginals of a large table": "import numpy as np\nfrom pgmest.data.counting import count_tables\n"
    + "count_tables([np.zeros(1, dtype=np.uint8)] * 2, (1, 1), [(0, 1)])",
    "many pairs of a model, and their scores": "import itertools\nimport numpy as np\nimport pgmest as pg\n"
    + "data = pg.Dataset.from_codes([np.arange(9) % 2] * 25, dict.fromkeys(map(str, range(25)), 2))\n"
    + "pg.mechanisms.AIM(rho=1.0, rounds=2, backend='simulation').fit(data, seed=0, progress=False)",
    "records": "import numpy as np\nimport pgmest as pg\n"
    + "noisy = [pg.LinearMeasurement(np.full((3, 3), 4.0), tuple(pair), 1.0) for pair in ('ab', 'bc', 'ac', 'cd')]\n"
    + "model = pg.estimate(noisy, dict.fromkeys('abcd', 3))\n"
    + "[model.sample(20, method=kind, seed=0) for kind in ('round', 'multinomial')]",
    "questions": _ESTIMATE + "model.project_many([('a',), ('b', 'a')]); model.map_record(); model.entropy()",
    "error bars": _ESTIMATE + "pg.estimate(noisy, domain, method='lbfgs', max_iterations=5)",
    "posteriors": _ESTIMATE
    + "from pgmest.models.posterior import metric\nmetric.MOST_DENSE = 0  # as of a large model\n"
    + "model.posterior(draws=8, chains=2, warm_up=2, method='hmc', seed=0)",
    "public records": _ESTIMATE
    + "pg.estimate(noisy, domain, prior=pg.priors.Support(model.sample(20, seed=0))).sample()",
}
"""The other uses of pgmest that compile kernels, with a program for each."""


def _options(add: Add) -> None:
    add("--processes", type=int, metavar="N", help="the number of processes that compile (default: one per core)")


def _run(options: argparse.Namespace) -> None:
    started = time.perf_counter()
    folder = prepared_folder()
    if folder is None:
        folder = PREPARED if writable(PACKAGE) else kernel_folder()
    if folder is None or not writable(folder):
        raise PgmestError(
            f"no folder for kernels is writable, nor is {PACKAGE}; name a folder with PGMEST_CACHE_DIR, or run this as "
            "the user who installed pgmest."
        )
    say(f"compiling into {folder} ...")
    compile_all(folder, options.processes)
    print(f"kernels are ready in {folder} ({time.perf_counter() - started:.0f} s)")


def compile_all(folder: Path | None = None, processes: int | None = None) -> None:
    """Compile every kernel: first those of the sweeps, then those that need them.

    Args:
        folder: the folder for the kernels (default: the one that this process uses).
        processes: the number of processes that compile (default: one per core).

    Raises:
        PgmestError: a process failed.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment["PYTHONSAFEPATH"] = "1"  # do not import another `pgmest` from the current folder
    if folder is not None:
        environment["PGMEST_CACHE_DIR"] = str(folder)
    sweep = "from pgmest.inference.exact.kernel_loading import compile_sweep; compile_sweep({!r})"

    def run(program: str) -> None:
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise PgmestError(f"compiling failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")

    with ThreadPoolExecutor(processes or os.cpu_count() or 1) as pool:
        for programs in ([sweep.format(name) for name in SWEEPS], list(USES.values())):
            list(pool.map(run, programs))


WARM_UP = Command("warm-up", "Compile all kernels for later processes.", DETAILS, _options, _run)
