"""`pgmest warm-up`: compile all kernels, so that no later process waits for them."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path

from pgmest._base.kernel_cache import PACKAGE, PREPARED, kernel_folder, prepared_folder, writable
from pgmest._base.stages import stage
from pgmest.cli.command import Add, Command, say
from pgmest.errors import PgmestError

DETAILS = """\
Kernels are compiled at their first use, which takes 10 to 25 s, and kept on disk. This command compiles those of all
uses, in about a minute on two cores: later processes load them and start within seconds. Run it after the installation;
if users have no writable home folder, such as in a container, when the image is built. It needs 1 GB of memory for each
process.

examples:
  pgmest warm-up                          into the installation, or else the user's cache
  PGMEST_CACHE_DIR=/opt/kernels pgmest warm-up     into a folder; later processes need the same variable
"""

_ESTIMATE = """
import pgmest as pg
domain = {"a": 2, "b": 3}
noisy = [pg.LinearMeasurement([[4.0, 3, 2], [1, 5, 6]], ("a", "b"), 1.0)]
model = pg.estimate(noisy, domain)
"""
USES = {
    "linked tables": "import numpy as np\nimport pandas as pd\nimport pgmest as pg\n"
    + "whole = {'type': 'integer', 'min': 0, 'max': 3}\n"
    + "homes, people = ({'columns': {'n': whole}, 'key': 'id'} for _ in 'hp')\n"
    + "people |= {'parent': 'h', 'at_most': 3, 'within': [{'at_most': {'n': 0, 'count': 1}}]}\n"
    + "ids = {'h': np.arange(40), 'p': np.repeat(np.arange(40), np.arange(40) % 3)}\n"
    + "tables = {name: pd.DataFrame({'id': found, 'n': np.arange(len(found)) % 4}) for name, found in ids.items()}\n"
    + "synthesizer = pg.Synthesizer(epsilon=9.0, backend='simulation')\n"
    + "synthesizer.fit(tables, {'tables': {'h': homes, 'p': people}}, seed=0).sample(seed=0)",
    "tables that agree": _ESTIMATE
    + "pg.synthesis.locally_nonnegative(noisy, domain)\npg.synthesis.consistent_tables(noisy, domain)\n"
    + "for how in ('gum', 'local_search'):\n"
    + "    pg.synthesis.synthesize([model.project(('a', 'b'))] * 2, domain, 9, method=how, seed=0)\n"
    + "pg.synthesis.consistent_tables([pg.LinearMeasurement([4.0, -3], 'a', 1.0)], domain)\n"
    + "import numpy as np\n"
    + "pairs = [pg.Factor(pg.Domain(dict.fromkeys(pair, 3)), np.eye(3)) for pair in ('ab', 'bc', 'ac')]\n"
    + "pg.synthesis.synthesize(pairs, dict.fromkeys('abc', 3), 90, method='gum', seed=0)\n"
    + "large = [pg.Factor(pg.Domain(dict.fromkeys(pair, 600)), np.ones((600, 600))) for pair in ('ab', 'bc', 'ac')]\n"
    + "pg.synthesis.synthesize(large, dict.fromkeys('abc', 600), 9, method='local_search', seed=0)",
    "LAMP": "import numpy as np\nimport pgmest as pg\n"
    + "for sizes in ((2, 3, 5, 9), (2, 3, 5, 300)):  # codes of one byte, and of two\n"
    + "    data = pg.Dataset.from_codes([np.arange(900) % k for k in sizes], dict(zip('abcd', sizes)))\n"
    + "    lamp = pg.mechanisms.LAMP(rho=1.0, records=900, backend='simulation')\n"
    + "    lamp.fit(data, seed=0, progress=False).sample()",
    "tables where no tree fits": _ESTIMATE
    + "pg.estimate([*noisy, pg.LinearMeasurement([4.0, 3], 'a', 1.0)], domain, oracle='convex').sample(20, seed=0)",
    "other solvers": "import numpy as np\nimport pgmest as pg\n"
    + "pairs = [tuple(pair) for pair in ('ab', 'bc', 'ac', 'cd')]\n"
    + "noisy = [pg.LinearMeasurement(np.arange(9) ** k, pair, 1.0) for k, pair in enumerate(pairs)]\n"
    + "[pg.estimate(noisy, dict.fromkeys('abcd', 3), method=m, max_iterations=9) for m in ('auto', 'universal')]",
    "PrivSyn": "import numpy as np\nimport pgmest as pg\n"
    + "data = pg.Dataset.from_codes([np.arange(900) % k for k in (2, 4, 5)], dict(zip('abc', (2, 4, 5))))\n"
    + "pg.mechanisms.PrivSyn(rho=1.0, backend='simulation').fit(data, seed=0, progress=False).sample()",
    "junction trees": "import pgmest as pg\nfrom pgmest.mechanisms.tree_limit import TreeLimit\n"
    + "ring = TreeLimit(pg.Domain(dict.fromkeys('abcde', 9)), map(tuple, ['ab', 'bc', 'cd', 'de', 'ea']), 0.02)\n"
    + "ring.fitting(map(tuple, ['a', 'ac', 'bd']))",
    "contraction": "import numpy as np\nimport pgmest as pg\n"
    + "from pgmest.inference.exact.contracted_sweeps import ContractedSweeps\n"
    + "theta = pg.CliqueVector.zeros(dict.fromkeys('abcd', 2), map(tuple, ['abc', 'bcd', 'cda']))\n"
    + "tree = pg.JunctionTree.from_cliques(theta.domain, theta.cliques)\n"
    + "ContractedSweeps.of(theta.layout, tree).run(theta.flat, 1.0, np.empty(theta.layout.cells))\n"
    + "from pgmest.inference.exact import kernel_loading\n"
    + "kernel_loading.load_contraction_kernels(together=True)\n"
    + "kernel_loading.load_max_contraction_kernels()",
    "many marginals of a large table": "import numpy as np\nfrom pgmest.data.counting import count_tables\n"
    + "for kind in (np.uint8, np.uint16):\n"
    + "    count_tables([np.zeros(1, dtype=kind)] * 3, (1, 1, 1), [(0, 1), (0, 1, 2)])",
    "many pairs of a model, and their scores": "import itertools\nimport numpy as np\nimport pgmest as pg\n"
    + "data = pg.Dataset.from_codes([np.arange(9) % 2] * 25, dict.fromkeys(map(str, range(25)), 2))\n"
    + "pg.mechanisms.AIM(rho=1.0, rounds=2, backend='simulation').fit(data, seed=0, progress=False)",
    "records": "import numpy as np\nimport pgmest as pg\n"
    + "noisy = [pg.LinearMeasurement(np.full((3, 3), 4.0), tuple(pair), 1.0) for pair in ('ab', 'bc', 'ac', 'cd')]\n"
    + "model = pg.estimate(noisy, dict.fromkeys('abcd', 3))\n"
    + "[model.sample(20, method=kind, seed=0) for kind in ('round', 'multinomial')]",
    "questions": _ESTIMATE + "model.project_many([('a',), ('b', 'a')]); model.map_record(); model.entropy()",
    "error bars": _ESTIMATE
    + "pg.estimate(noisy, domain, method='lbfgs', max_iterations=5)\n"
    + "model.interval(lambda table: table.values[0], clique=('a', 'b'))",
    "whole weights": "import pandas as pd\nimport pgmest as pg\n"
    + "pg.rake(pd.DataFrame({'a': [0, 0, 1, 1], 'b': [0, 1] * 2}), {'a': {0: 5, 1: 4}, 'b': {0: 4, 1: 5}}, whole=True)",
    "public records": _ESTIMATE
    + "pg.estimate(noisy, domain, prior=pg.priors.Support(model.sample(20, seed=0))).sample()\n"
    + "from pgmest.inference.support.support_oracle import load_kernels\nload_kernels('uint16')\n"
    + "pg.priors.update_prior(model.sample(20, seed=0), noisy, total=10.0)",
}
"""The uses of pgmest that compile kernels, with a program for each."""

GROUPS = (
    ("contraction",),
    ("error bars", "questions"),
    ("LAMP", "records", "junction trees"),
)
"""Uses that one process runs one after the other, since their kernels have functions in common. Each of the others is a
group by itself. The first group has what all others need, except the second."""


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
    say(f"compiling into {folder}, about a minute on two cores ...")
    compile_all(folder, options.processes)
    print(f"kernels are ready in {folder} ({time.perf_counter() - started:.0f} s)")


def compile_all(folder: Path | None = None, processes: int | None = None) -> None:
    """Compile every kernel, and print to standard error what is done.

    Args:
        folder: the folder for the kernels (default: the one that this process uses).
        processes: the number of processes that compile (default: one per core).

    Raises:
        PgmestError: a process failed.
    """
    alone = [(name,) for name in USES if not any(name in group for group in GROUPS)]
    groups = [*(tuple(name for name in group if name in USES) for group in GROUPS), *alone]
    queue = _Queue([group for group in groups if group])
    count = max(1, min(processes or os.cpu_count() or 1, len(groups)))
    with ThreadPoolExecutor(count) as pool:
        workers = [pool.submit(copy_context().run, _compile, queue, folder) for _ in range(count)]
        for worker in workers:
            worker.result()


class _Queue:
    """The groups that are left, for several threads; only the first two can be taken before the first use is done."""

    def __init__(self, groups: list[tuple[str, ...]]):
        self._left, self._all, self._done = deque(groups), sum(map(len, groups)), 0
        self._first, self._taken, self._lock = threading.Event(), 0, threading.Lock()

    def take(self) -> tuple[str, ...]:
        """Return the next group, () after the last one."""
        with self._lock:
            self._taken += 1
            early = self._taken <= 2
        if not early:
            self._first.wait()
        with self._lock:
            return self._left.popleft() if self._left else ()

    def done(self, name: str, seconds: float) -> None:
        """Print that a use is done."""
        with self._lock:
            self._done += 1
            stage(f"{self._done} of {self._all} uses are done")
            say(f"{self._done} of {self._all}: {name} ({seconds:.0f} s)")
        if name in GROUPS[0]:
            self._first.set()

    def give_up(self) -> None:
        """Leave the rest, since a process failed."""
        with self._lock:
            self._left.clear()
        self._first.set()


def _compile(queue: _Queue, folder: Path | None) -> None:
    """Compile one group after the other in another process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment["PYTHONSAFEPATH"] = "1"  # do not import another `pgmest` from the current folder
    if folder is not None:
        environment["PGMEST_CACHE_DIR"] = str(folder)
    command = [sys.executable, "-c", "from pgmest.cli.warm_up import work; work()"]
    with tempfile.TemporaryFile("w+") as messages:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": messages}
        process = subprocess.Popen(command, env=environment, text=True, **pipes)
        try:
            while group := queue.take():
                for name in group:
                    started = time.perf_counter()
                    _answered(process, USES[name])
                    queue.done(name, time.perf_counter() - started)
        except OSError:
            process.wait()
            messages.seek(0)
            found = messages.read().strip().splitlines() or ["no message"]
            raise PgmestError(f"compiling failed: {found[-1]}") from None
        finally:
            queue.give_up()
            process.kill()
            process.communicate()


def _answered(process: subprocess.Popen[str], program: str) -> None:
    """Let a worker run a program.

    Raises:
        OSError: the worker has ended.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(program) + "\n")
    process.stdin.flush()
    if not process.stdout.readline():
        raise BrokenPipeError


def work() -> None:
    """Run the programs on standard input, a JSON string a line, and print a line when each is done."""
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        for line in sys.stdin:
            exec(json.loads(line), {})
            print("done", file=answers, flush=True)


WARM_UP = Command("warm-up", "Compile all kernels for later processes.", DETAILS, _options, _run)
