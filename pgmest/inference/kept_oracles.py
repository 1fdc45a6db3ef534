"""`pg.marginals`: the MARGINAL-ORACLE as a function of potentials, with a cache of oracles for later calls."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict

import numpy as np

from pgmest._base.threads import get_threads
from pgmest.errors import MeasurementError
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.tables.clique_vector import CliqueVector, Layout

_CACHED_ORACLES = 16
_CACHED_CELLS = 1 << 26
"""The most float64 cells that all cached oracles may hold together: half a gigabyte."""


class _KeptOracle:
    """A cached oracle, and its output array, which is reused as soon as no caller holds the last marginals.

    The system clears new memory page by page at the first write, which for large models takes as long as the marginals
    themselves.
    """

    def __init__(self, layout: Layout):
        self.oracle = ExactOracle(PropagationPlan.of(layout))
        self.output = np.empty(layout.cells)
        self._unshared = sys.getrefcount(self.output)  # the count without a caller differs between Python versions

    @property
    def cells(self) -> int:
        """The cells that the oracle and its output hold."""
        return self.oracle.cells + self.output.size

    def run(self, theta: np.ndarray, total: float) -> tuple[np.ndarray, float]:
        """Run the oracle into an unshared output array. The marginals returned must be views of this array."""
        if sys.getrefcount(self.output) > self._unshared:
            self.output = np.empty(self.oracle.layout.cells)
        try:
            return self.oracle.run(theta, total, self.output)
        finally:
            self.oracle.release()


_oracles: OrderedDict[Layout, _KeptOracle] = OrderedDict()
_lock = threading.Lock()


def marginals(potentials: CliqueVector, total: float = 1.0) -> CliqueVector:
    """Return the exact marginals of p(x) proportional to exp(sum_C theta_C(x_C)), on the cliques of `potentials`.

    This is the MARGINAL-ORACLE of PGM. Oracles are cached, so that a second call on the same domain and cliques does
    not plan again.

    Args:
        potentials: theta, in logs; -inf marks impossible cells.
        total: the sum of every marginal: 1 for probabilities, the number of records for counts.

    Raises:
        MeasurementError: a potential is NaN or +inf.
        ImpossibleModelError: every record has probability zero.

    >>> from pgmest.tables.domain import Domain
    >>> theta = CliqueVector.zeros(Domain({"a": 2, "b": 3}), [("a",), ("b",)])
    >>> marginals(theta, total=6)[("b",)].values
    array([2., 2., 2.])
    """
    return marginals_and_log_partition(potentials, total)[0]


def marginals_and_log_partition(potentials: CliqueVector, total: float = 1.0) -> tuple[CliqueVector, float]:
    """Return the marginals, as `marginals` does, and A(theta) = log sum_x exp(sum_C theta_C(x_C))."""
    theta = potentials.flat
    if theta.size and not np.maximum.reduce(theta) < np.inf:
        raise MeasurementError("the potentials hold NaN or +inf; only finite values and -inf are meaningful.")
    with _lock:
        mu, log_partition = _kept_oracle(potentials.layout).run(theta, total)
        return CliqueVector.of(potentials.layout, mu), log_partition


def _kept_oracle(layout: Layout) -> _KeptOracle:
    """Return the cached oracle for this layout and number of threads, or a new one; evict the least recently used."""
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
