"""The loss protocol, and the base class of pgmest's losses, which read one flat array of marginals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.tables.domain import Clique, Domain

DOT_BLOCK = 8192
"""The number of entries per block of `dot`, below the size at which BLAS libraries start threads."""


class Loss(Protocol):
    """A convex function of marginals: any object with `cliques` and `value_and_gradient`; the rest is optional."""

    cliques: tuple[Clique, ...]
    """The marginals that the loss reads."""
    lipschitz: float | None
    """An L with ||G f(mu) - G f(nu)||_inf <= L ||p - q||_1 for joint tables p and q in counts with marginals mu and nu,
    where G f is the gradient by joint cell: sum over cliques C of grad_C f[x_C]. None if no such L is known."""
    smooth: bool
    """True if the gradient exists everywhere and is continuous; otherwise value_and_gradient returns a subgradient."""

    def value_and_gradient(self, marginals: CliqueVector) -> tuple[float, Any]:
        """Return the loss at marginals in counts on exactly `cliques`, and its (sub)gradient by count.

        The gradient is a CliqueVector, or a mapping from clique to an array of the clique's shape.
        """
        ...


class FlatLoss(ABC):
    """The base class of losses that are computed on flat arrays in the order of `layout`, as solvers call them."""

    layout: Layout
    """The layout of the marginals' cells. Each set of attributes has one table, with the first given axis order."""
    lipschitz: float | None = None
    smooth: bool = True
    noise_floor: float = 0.0
    """The expected loss at the true marginals if the noise is as stated; 0 if it is unknown."""

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The marginals that the loss reads."""
        return self.layout.cliques

    @property
    def domain(self) -> Domain:
        """The domain of the marginals."""
        return self.layout.domain

    @abstractmethod
    def flat_value_and_gradient(self, flat: np.ndarray, out: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """Return the loss and its (sub)gradient at marginals in counts, flat in the order of `layout`.

        Args:
            flat: shape (layout.cells,), float64, not changed.
            out: an array for the gradient, which must not overlap `flat`; by default a new one.

        Returns:
            the value, and the gradient (in `out` if given).
        """

    def quadratic(self, direction: np.ndarray) -> float | None:
        """Return f(mu + d) - f(mu) - <gradient, d> for a quadratic loss, where mu does not matter; otherwise None.

        Solvers need this difference to full precision for tiny d, where subtracting values would lose all digits.
        """
        return None

    def of_fractions(self, total: float) -> FlatLoss:
        """Return the loss as a function of marginals that sum to one instead of `total`."""
        return _LossOfFractions(self, total)

    def curvature_floor(self) -> np.ndarray:
        """Return w >= 0 with f(mu + d) >= f(mu) + <gradient, d> + 1/2 sum w d^2, shape (layout.cells,)."""
        return np.zeros(self.layout.cells)

    def value_and_gradient(self, marginals: CliqueVector) -> tuple[float, CliqueVector]:
        """Return the loss at marginals in counts on at least `cliques`, and its (sub)gradient on `cliques`.

        Raises:
            UnknownAttributeError: a marginal that the loss reads is missing.
        """
        value, gradient = self.flat_value_and_gradient(self.flatten(marginals))
        return value, CliqueVector.of(self.layout, gradient)

    def value(self, marginals: CliqueVector) -> float:
        """Return the loss at marginals in counts on at least `cliques`."""
        return self.flat_value_and_gradient(self.flatten(marginals))[0]

    def flatten(self, marginals: CliqueVector) -> np.ndarray:
        """Return the marginals that the loss reads, in the order of `layout`; a view if they have this layout."""
        if marginals.layout is self.layout or marginals.layout == self.layout:
            return marginals.flat
        return np.concatenate([np.empty(0), *(marginals[clique].datavector() for clique in self.cliques)])


class _LossOfFractions(FlatLoss):
    """The loss as a function of p, loss(total * p), for any loss; subclasses override it by a cheaper one."""

    def __init__(self, loss: FlatLoss, total: float):
        self.loss = loss
        self.total = total
        self.layout = loss.layout
        self.smooth = loss.smooth
        self.lipschitz = None if loss.lipschitz is None else loss.lipschitz * total**2
        self.noise_floor = loss.noise_floor
        self._counts = np.empty(loss.layout.cells)

    def flat_value_and_gradient(self, flat: np.ndarray, out: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        value, gradient = self.loss.flat_value_and_gradient(np.multiply(flat, self.total, out=self._counts), out)
        gradient *= self.total
        return value, gradient

    def quadratic(self, direction: np.ndarray) -> float | None:
        return self.loss.quadratic(np.multiply(direction, self.total, out=self._counts))

    def curvature_floor(self) -> np.ndarray:
        return self.loss.curvature_floor() * self.total**2


def loss_layout(domain: Domain, cliques: Iterable[Iterable[str]]) -> Layout:
    """Return the layout of a loss: one table for each set of attributes, with the first given axis order."""
    first: dict[frozenset[str], Clique] = {}
    for clique in cliques:
        names = domain.clique(clique)
        first.setdefault(frozenset(names), names)
    return Layout.of(domain, first.values())


def cell_positions(layout: Layout, clique: Clique) -> slice | np.ndarray:
    """Return the positions of a clique's cells, row-major in the order of `clique`, in flat arrays of `layout`.

    Raises:
        UnknownAttributeError: the layout has no table over these attributes.
    """
    position, names = layout.find(clique)
    start, stop = (int(offset) for offset in layout.offsets[position : position + 2])
    if names == layout.cliques[position]:
        return slice(start, stop)
    table = np.arange(start, stop).reshape(layout.domains[position].shape)
    return table.transpose(layout.domains[position].axes(names)).reshape(-1)


def dot(left: np.ndarray, right: np.ndarray) -> float:
    """Return the inner product of two flat arrays, summed over blocks.

    BLAS starts threads for vectors of 10,000 entries. On an idle machine they save microseconds, on a busy one they
    wait milliseconds for each other, and the number of threads changes the last digits of the sum.
    """
    if len(left) <= DOT_BLOCK:
        return float(np.dot(left, right))
    blocks = range(0, len(left), DOT_BLOCK)
    return float(sum(np.dot(left[start : start + DOT_BLOCK], right[start : start + DOT_BLOCK]) for start in blocks))
