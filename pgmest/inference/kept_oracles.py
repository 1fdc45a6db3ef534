"""`pg.marginals`: the MARGINAL-ORACLE as a function of potentials, on oracles that are kept for the next call."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from functools import lru_cache
from typing import Literal

import numpy as np

from pgmest._base.errors import ArgumentError, MeasurementError
from pgmest._base.threads import get_threads
from pgmest.inference.device.gpu_oracle import GpuOracle
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.plan import Plan
from pgmest.tables.clique_vector import CliqueVector, Layout

EXACT_ORACLES = ("exact", "gpu")
"""Belief propagation on the processor, and on a GPU."""

_CACHED_ORACLES = 16
_CACHED_CELLS = 1 << 26


class _KeptOracle:
    """An oracle, and the array of its last marginals, which it writes to again once nobody holds them any more.

    Memory fresh from the system is cleared page by page as it is first written to, which costs large models as much
    as the marginals themselves.
    """

    def __init__(self, layout: Layout):
        self.oracle = ExactOracle(Plan.of(layout))
        self.output = np.empty(layout.cells)
        self.cells: int = self.oracle.plan.arena_cells + layout.cells
        self._alone = sys.getrefcount(self.output)  # as this interpreter counts; versions differ

    def run(self, theta: np.ndarray, total: float) -> tuple[np.ndarray, float]:
        """As the oracle's, into an array that nothing else refers to. Everything handed out must be a view of it."""
        if sys.getrefcount(self.output) > self._alone:
            self.output = np.empty(self.oracle.layout.cells)
        try:
            return self.oracle.run(theta, total, self.output)
        finally:
            self.oracle.release()


_oracles: OrderedDict[Layout, _KeptOracle] = OrderedDict()
_lock = threading.Lock()


def marginals(
    potentials: CliqueVector, total: float = 1.0, *, oracle: Literal["exact", "gpu"] = "exact"
) -> CliqueVector:
    """The exact marginals of p(x) proportional to exp(sum_C theta_C(x_C)), on the cliques of `potentials`.

    This is the MARGINAL-ORACLE of PGM. Plans are kept, so that a second call on the same domain and cliques does not
    compile again.

    Args:
        potentials: theta, logs; -inf marks impossible cells.
        total: what every marginal sums to: 1 for probabilities, the number of records for counts.
        oracle: "gpu" computes the same on an NVIDIA GPU (extra `gpu`), which is for tables of many cells.

    Raises:
        MeasurementError: a potential is NaN or +inf.
        ImpossibleModelError: no record is possible.
        DeviceError: oracle="gpu", and there is no GPU, or nothing to use it with.

    >>> from pgmest.tables.domain import Domain
    >>> theta = CliqueVector.zeros(Domain({"a": 2, "b": 3}), [("a",), ("b",)])
    >>> marginals(theta, total=6)[("b",)].values
    array([2., 2., 2.])
    """
    return marginals_and_log_partition(potentials, total, oracle=oracle)[0]


def marginals_and_log_partition(
    potentials: CliqueVector, total: float = 1.0, *, oracle: Literal["exact", "gpu"] = "exact"
) -> tuple[CliqueVector, float]:
    """The marginals, as `marginals` gives them, and A(theta) = log sum_x exp(sum_C theta_C(x_C))."""
    if oracle not in EXACT_ORACLES:
        raise ArgumentError.of("oracle", oracle, EXACT_ORACLES)
    theta = potentials.flat
    if theta.size and not np.maximum.reduce(theta) < np.inf:
        raise MeasurementError("the potentials hold NaN or +inf; only finite values and -inf are meaningful.")
    with _lock:
        kept = _kept_gpu_oracle(potentials.layout) if oracle == "gpu" else _kept_oracle(potentials.layout)
        mu, log_partition = kept.run(theta, total)
        return CliqueVector.of(potentials.layout, mu), log_partition


def _kept_oracle(layout: Layout) -> _KeptOracle:
    """The oracle kept for this layout and the current number of threads; the least recently used make room."""
    kept = _oracles.get(layout)
    if kept is not None and kept.oracle.threads == get_threads():
        _oracles.move_to_end(layout)
        return kept
    _oracles.pop(layout, None)
    kept = _KeptOracle(layout)
    if kept.cells <= _CACHED_CELLS:
        _oracles[layout] = kept
    while len(_oracles) > _CACHED_ORACLES or sum(each.cells for each in _oracles.values()) > _CACHED_CELLS:
        _oracles.popitem(last=False)
    return kept


@lru_cache(maxsize=1)
def _kept_gpu_oracle(layout: Layout) -> GpuOracle:
    """The oracle of the cliques last asked about, which keeps its tables on the device."""
    return GpuOracle(Plan.of(layout))
