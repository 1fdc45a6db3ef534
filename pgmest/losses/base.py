"""The loss protocol, and the base of pgmest's own losses, which work on one flat array of marginals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.tables.domain import Clique, Domain

DOT_BLOCK = 8192


class Loss(Protocol):
    """A convex function of marginals. Any object with these members is a loss; only the first two are required."""

    cliques: tuple[Clique, ...]
    """The marginals that the loss reads."""
    lipschitz: float | None
    """L with ||G f(mu) - G f(nu)||_inf <= L ||p - q||_1 for joint tables p and q in counts with marginals mu and nu,
    where G f is the gradient by joint cell: sum over cliques C of grad_C f[x_C]. None where no such L is known."""
    smooth: bool
    """Whether the gradient exists everywhere and is continuous; otherwise value_and_gradient gives a subgradient."""

    def value_and_gradient(self, marginals: CliqueVector) -> tuple[float, Any]:
        """The loss at marginals in counts on exactly `cliques`, and its (sub)gradient with respect to the counts.

        The gradient is a CliqueVector, or a mapping from clique to an array of the clique's shape.
        """
        ...


class FlatLoss(ABC):
    """A loss computed on flat arrays in the order of `layout`, as solvers call it."""

    layout: Layout
    """Where the cells of each marginal lie. Each set of attributes has one table, in the order first given."""
    lipschitz: float | None = None
    smooth: bool = True
    noise_floor: float = 0.0
    """What the loss would be on average at the true marginals, if the noise is as stated; 0 where that is unknown."""

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The marginals that the loss reads."""
        return self.layout.cliques

    @property
    def domain(self) -> Domain:
        """The attributes."""
        return self.layout.domain

    @abstractmethod
    def flat_value_and_gradient(self, flat: np.ndarray, out: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """The loss and its (sub)gradient for marginals in counts laid out as `layout`.

        Args:
            flat: shape (layout.cells,), float64, not changed.
            out: where to write the gradient; a new array by default. It must not overlap `flat`.

        Returns:
            the value, and the gradient in `out`.
        """

    def quadratic(self, direction: np.ndarray) -> float | None:
        """f(mu + d) - f(mu) - <gradient, d>, where that does not depend on mu (a quadratic loss), else None.

        Solvers need this difference to full precision when d is tiny, where subtracting values would lose it.
        """
        return None

    def of_fractions(self, total: float) -> FlatLoss:
        """The same loss as a function of marginals that sum to one instead of `total`."""
        return _LossOfFractions(self, total)

    def curvature_floor(self) -> np.ndarray:
        """w >= 0 by cell with f(mu + d) >= f(mu) + <gradient, d> + 1/2 sum w d^2, shape (layout.cells,)."""
        return np.zeros(self.layout.cells)

    def value_and_gradient(self, marginals: CliqueVector) -> tuple[float, CliqueVector]:
        """The loss at marginals in counts that hold at least `cliques`, and its (sub)gradient on `cliques`.

        Raises:
            UnknownCliqueError: a marginal that the loss reads is missing.
        """
        value, gradient = self.flat_value_and_gradient(self.flatten(marginals))
        return value, CliqueVector.of(self.layout, gradient)

    def value(self, marginals: CliqueVector) -> float:
        """The loss at marginals in counts that hold at least `cliques`."""
        return self.flat_value_and_gradient(self.flatten(marginals))[0]

    def flatten(self, marginals: CliqueVector) -> np.ndarray:
        """The marginals that the loss reads, laid out as `layout`; a view where they already are."""
        if marginals.layout is self.layout or marginals.layout == self.layout:
            return marginals.flat
        return np.concatenate([np.empty(0), *(marginals[clique].datavector() for clique in self.cliques)])


class _LossOfFractions(FlatLoss):
    """loss(total * p)."""

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
    """The layout of a loss: each set of attributes once, in the order of the axes first given."""
    first: dict[frozenset[str], Clique] = {}
    for clique in cliques:
        names = domain.clique(clique)
        first.setdefault(frozenset(names), names)
    return Layout.of(domain, first.values())


def cell_positions(layout: Layout, clique: Clique) -> slice | np.ndarray:
    """Where the cells of `clique`, row-major in its own order, lie in the flat array of `layout`.

    Raises:
        UnknownCliqueError: the layout has no table over these attributes.
    """
    position, names = layout.find(clique)
    start, stop = (int(offset) for offset in layout.offsets[position : position + 2])
    if names == layout.cliques[position]:
        return slice(start, stop)
    table = np.arange(start, stop).reshape(layout.domains[position].shape)
    return table.transpose(layout.domains[position].axes(names)).reshape(-1)


def dot(left: np.ndarray, right: np.ndarray) -> float:
    """The inner product of two flat arrays, block by block.

    BLAS starts threads for a vector of 10,000 entries. They save microseconds on an idle machine and wait milliseconds
    for each other on a busy one, and their number changes the last digits.
    """
    blocks = range(0, len(left), DOT_BLOCK)
    return float(sum(np.dot(left[start : start + DOT_BLOCK], right[start : start + DOT_BLOCK]) for start in blocks))
