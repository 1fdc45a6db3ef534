"""The exact oracle on an NVIDIA GPU: the same plan and the same contract as `ExactOracle`, with other kernels.

Experimental: no kernel has run on a device yet. The tests run the kernels in numba's simulator of a device.

Given NumPy arrays, the oracle returns NumPy arrays, and copying to and from the device takes most of the time. Given
arrays on the device (of CuPy, JAX, PyTorch, numba, or any other type with `__cuda_array_interface__`), the oracle reads
and writes them in place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np

from pgmest.errors import (
    ArgumentError,
    ImpossibleModelError,
    MeasurementError,
    ModelTooLarge,
    ShapeError,
    memory_text,
)
from pgmest.inference.device.loading import free_bytes, load_device_kernels
from pgmest.inference.device.replay import captured
from pgmest.inference.device.schedule import Schedule
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.tables.clique_vector import Layout
from pgmest.tables.factor import Factor

BLOCK_THREADS = 256
"""The number of threads in a block: a power of two, at most kernels.THREADS."""

FUSED_BLOCKS, FUSED_BLOCKS_OF_MANY = 2, 64
"""The number of blocks up to which a step is small. One block runs neighboring small steps one after the other in a
single launch. The second number applies to batches of at least MANY_VECTORS vectors, where the other vectors keep the
device busy.
"""

MANY_VECTORS, MOST_VECTORS = 64, 65_535
"""The number of vectors from which FUSED_BLOCKS_OF_MANY applies, and the largest number of vectors in one launch (the
hardware's limit on the second dimension of a grid).
"""

REPLAYS = 8
"""The largest number of captured CUDA graphs. Each belongs to one pair of arrays; solvers use a few arrays over and
over.
"""

SHARE_FOR_BATCHES = 0.5
"""The fraction of the device's free memory that one batch of vectors may take. More vectors run in several batches."""


class GpuOracle:
    r"""Belief propagation on an NVIDIA GPU, with the contract of `ExactOracle`.

    Experimental: no kernel has run on a device yet.

    In float64 the marginals are as exact as those of `ExactOracle`. In float32 the relative error of each marginal is
    about

    .. math:: 2^{-24} (100 + 2 M \cdot \text{depth of the tree})

    where M is the largest absolute value of a potential or message. Marginals below 1e-37 of the total become 0. The
    log-partition function is within the same fraction of M. Repeated calls give identical bits.

    `ExactOracle` computes max-marginals, the most probable record, covariances and the tables of tree cliques, on the
    processor and in float64. One oracle serves one thread at a time.

    Attributes:
        plan: the compiled junction tree.
        schedule: the plan as passes of the device.
        calls: the number of sweeps so far.
        dtype: the type of potentials, marginals and the workspace.

    Args:
        plan: the compiled junction tree, as for `ExactOracle`.
        dtype: float64 or float32.

    Raises:
        DeviceError: there is no GPU, or numba's CUDA target is not installed.
        ModelTooLarge: a clique has more than 2^31 cells.
    """

    def __init__(self, plan: PropagationPlan, dtype: Any = np.float64):
        if np.dtype(dtype) not in (np.float64, np.float32):
            raise ArgumentError.of("dtype", dtype, "float64 or float32")
        self._kernels = load_device_kernels()
        self._cuda = self._kernels.cuda
        self.plan = plan
        self.layout: Layout = plan.layout
        self.dtype: np.dtype = np.dtype(dtype)
        self.calls: int = 0
        self.schedule: Schedule = Schedule.of(plan, BLOCK_THREADS)
        self._tables: tuple[Any, ...] = ()
        self._buffers: dict[str, Any] = {}
        self._replays: dict[tuple[int, ...], Callable[[], None] | None] = {}  # None: run once, not captured
        self._last: tuple[Any, float] | None = None  # potentials and total of the last run

    @cached_property
    def exact(self) -> ExactOracle:
        """The oracle on the processor, in float64."""
        return ExactOracle(self.plan)

    def run(self, theta: Any, total: float = 1.0, out: Any = None) -> tuple[Any, float]:
        """Return the marginals on the plan's cliques, scaled to `total`, and the log-partition function.

        Args:
            theta: the flat potentials (logs), in the oracle's dtype, on the device or in NumPy. A float64 NumPy array
                is converted to float32 where the oracle needs that. -inf marks impossible cells.
            total: the sum of each marginal.
            out: the array that receives the marginals, on the device or in NumPy; it must not be `theta`.

        Returns:
            The marginals (`out` if it is given, else an array where `theta` is) and the log-partition function.

        Raises:
            ImpossibleModelError: no record has a finite total potential.
            ModelTooLarge: the tables do not fit into the device's memory. Nothing has been allocated.
        """
        thetas = self._checked(theta, "theta", (self.layout.cells,))
        outs = None if out is None else self._checked(out, "out", (self.layout.cells,))
        mu, logs = self._run(thetas, np.array([total], dtype=np.float64), outs, 1)
        self._last = theta, float(total)
        if not np.isfinite(logs[0]):
            raise ImpossibleModelError(
                f"the log-partition function is {logs[0]}: every record has some potential of -inf (or one is NaN or "
                "+inf). Check the structural zeros and the potentials."
            )
        return (mu if out is None else out), float(logs[0])

    def run_many(self, thetas: Any, total: float | np.ndarray = 1.0, out: Any = None) -> tuple[Any, np.ndarray]:
        """Return the marginals and log-partition functions of many parameter vectors, each as `run` returns them.

        Args:
            thetas: the potentials, shape (vectors, cells), contiguous, on the device or in NumPy.
            total: the sum of the marginals: one number for all vectors, or one number for each.
            out: the array that receives the marginals, of the shape of `thetas`; it must not be `thetas`.

        Returns:
            Marginals of shape (vectors, cells), and log-partition functions of shape (vectors,), in NumPy.

        Raises:
            MeasurementError: a potential is NaN or +inf. The message names the vector, and no vector has run. Arrays on
                the device are not checked; for them the error is ImpossibleModelError.
            ImpossibleModelError: no record has a finite total potential under one of the vectors. The message names it.
            ShapeError: an array has another shape or type.
            ModelTooLarge: the tables of one vector do not fit into the device's memory. Nothing has been allocated.
        """
        if len(thetas.shape) != 2:
            raise ShapeError.of("thetas", f"(vectors, {self.layout.cells})", tuple(thetas.shape))
        vectors = int(thetas.shape[0])
        shape = (vectors, self.layout.cells)
        rows = self._checked(thetas, "thetas", shape)
        outs = None if out is None else self._checked(out, "out", shape)
        if np.shape(total) not in ((), (vectors,)):
            raise ShapeError.of("total", f"() or ({vectors},)", np.shape(total), "Give one total for each vector.")
        if isinstance(rows, np.ndarray) and rows.size and not rows.max() < np.inf:
            position = int(np.flatnonzero(~(rows.max(axis=1) < np.inf))[0])
            raise MeasurementError(f"vector {position} of potentials holds NaN or +inf; give finite values or -inf.")
        totals = np.array(np.broadcast_to(np.asarray(total, dtype=np.float64), vectors))
        self._last = None
        mus, logs = self._run(rows, totals, outs, vectors)
        impossible = np.flatnonzero(~np.isfinite(logs))
        if len(impossible):
            raise ImpossibleModelError(
                f"the log-partition function of vector {impossible[0]} is {logs[impossible[0]]}: every record has some "
                f"potential of -inf, as with {len(impossible)} of {vectors} vectors. Check the structural zeros."
            )
        return (mus if out is None else out), logs

    def maximum(self, theta: Any) -> float:
        """Return the largest total potential of any record, by one max-product sweep on the device."""
        theta = self._checked(theta, "theta", (self.layout.cells,))
        self._reserve(1, potentials=isinstance(theta, np.ndarray), marginals=False)
        own = self._on_device(theta, 0, 1)
        self._launch(own, own, np.ones(1), 1, maximize=1)
        self.calls += 1
        return float(self._logs(1)[0])

    def max_marginals(self, theta: Any, out: np.ndarray | None = None) -> np.ndarray:
        """Return, for each measured cell, the largest total potential of a record in that cell; computed on the
        processor.
        """
        self.calls += 2
        return self.exact.max_marginals(_on_host(theta), out)

    def map_record(self, theta: Any) -> dict[str, int]:
        """Return a record with the largest total potential, attribute -> code; computed on the processor."""
        self.calls += 1
        return self.exact.map_record(_on_host(theta))

    def covariance(self, direction: Any, out: np.ndarray | None = None) -> np.ndarray:
        """Return the derivative of the marginals along `direction` at the potentials of the last `run`.

        It is computed on the processor.

        Raises:
            ArgumentError: nothing has run yet.
        """
        self._repeat("covariance")
        self.calls += 1
        return self.exact.covariance(_on_host(direction), out)

    def clique_table(self, index: int) -> Factor:
        """Return the marginal of the tree's clique `index`, scaled as in the last run; computed on the processor.

        Raises:
            ArgumentError: nothing has run yet.
        """
        self._repeat("clique_table")
        return self.exact.clique_table(index)

    def release(self) -> None:
        """Forget the potentials of the last run and free the device's memory."""
        self._last = None
        self._replays.clear()
        self._buffers.clear()
        self._tables = ()

    def _repeat(self, what: str) -> None:
        """Repeat the last run on the processor."""
        if self._last is None:
            raise ArgumentError(f"{what} needs the marginals of a run: call run(theta) first.")
        theta, total = self._last
        self.exact.run(_on_host(theta), total)

    # -- arrays -------------------------------------------------------------------------------------------------------

    def _checked(self, array: Any, name: str, shape: tuple[int, ...]) -> Any:
        """Return the array after checking its shape and type; an array on the device is returned as numba's type.

        A float64 NumPy array is also accepted where the oracle computes in float32.
        """
        host = isinstance(array, np.ndarray)
        if not host and hasattr(array, "__cuda_array_interface__"):
            array = self._cuda.as_cuda_array(array)
        found = tuple(array.shape), np.dtype(array.dtype)
        allowed = (self.dtype, np.dtype(np.float64)) if host else (self.dtype,)
        contiguous = array.flags["C_CONTIGUOUS"] if isinstance(array, np.ndarray) else array.is_c_contiguous()
        if found[0] != shape or found[1] not in allowed or not contiguous:
            raise ShapeError.of(
                name,
                f"{shape} of contiguous {self.dtype}",
                f"{found[0]} of {found[1]}",
                "Potentials lie flat, clique after clique: CliqueVector.flat.",
            )
        return array

    def _reserve(self, vectors: int, potentials: bool, marginals: bool) -> None:
        """Allocate the tables and the buffers of a batch on the device, unless they are there already.

        Raises:
            ModelTooLarge: they do not fit; nothing has been allocated.
        """
        cells, schedule = self.layout.cells, self.schedule
        wanted = {
            "workspace": vectors * schedule.work,
            "logs": vectors * max(1, schedule.roots),
            "totals": vectors,
            "potentials": potentials * vectors * cells,
            "marginals": marginals * vectors * cells,
        }
        missing = {
            name: size
            for name, size in wanted.items()
            if size and (name not in self._buffers or self._buffers[name].size < size)
        }
        if not missing and self._tables:
            return
        self._replays.clear()  # captured graphs write to the old buffers
        for name in missing:
            self._buffers.pop(name, None)
        needed = self.dtype.itemsize * sum(missing.values()) + (0 if self._tables else schedule.nbytes)
        free = free_bytes(self._cuda)
        if needed > free:
            parts = ", ".join(f"{name} {memory_text(self.dtype.itemsize * size)}" for name, size in missing.items())
            raise ModelTooLarge(
                f"the GPU would have to hold {memory_text(needed)} more ({parts}), and {memory_text(free)} of its "
                'memory are free. Use smaller cliques, float32, which needs half, or oracle="exact" on the processor.'
            )
        if not self._tables:
            arrays = (schedule.passes, schedule.operands, schedule.maps, schedule.blocks, schedule.steps)
            self._tables = tuple(self._cuda.to_device(array) for array in arrays)
        for name, size in missing.items():
            self._buffers[name] = self._cuda.device_array(size, self.dtype)

    def _batch(self, vectors: int, potentials: bool, marginals: bool) -> int:
        """Return the number of vectors to run at a time."""
        if vectors <= 1:
            return max(vectors, 1)
        each = self.schedule.work + (potentials + marginals) * self.layout.cells + self.schedule.roots + 1
        held = self.dtype.itemsize * sum(buffer.size for buffer in self._buffers.values())
        room = SHARE_FOR_BATCHES * (free_bytes(self._cuda) + held)
        return int(max(1, min(vectors, MOST_VECTORS, room // (each * self.dtype.itemsize))))

    def _on_device(self, array: Any, low: int, high: int, name: str = "potentials") -> Any:
        """Return the vectors [low, high) as a flat array on the device.

        NumPy potentials are copied into a buffer there.
        """
        cells = self.layout.cells
        if not isinstance(array, np.ndarray):
            return array.reshape(array.size)[low * cells : high * cells]
        buffer = self._buffers[name][: (high - low) * cells] if cells else self._buffers["workspace"]
        if name == "potentials" and cells:
            rows = array.reshape(-1)[low * cells : high * cells]
            buffer.copy_to_device(np.ascontiguousarray(rows, dtype=self.dtype))
        return buffer

    # -- running ------------------------------------------------------------------------------------------------------

    def _run(self, thetas: Any, totals: np.ndarray, outs: Any, vectors: int) -> tuple[Any, np.ndarray]:
        host = isinstance(thetas, np.ndarray)
        shape = tuple(thetas.shape)
        if outs is None:
            outs = np.empty(shape, self.dtype) if host else self._cuda.device_array(shape, self.dtype)
        owned = isinstance(outs, np.ndarray)
        logs, batch = np.empty(vectors), self._batch(vectors, host, owned)
        for low in range(0, vectors, batch):
            high = min(low + batch, vectors)
            self._reserve(high - low, host, owned)
            theta = self._on_device(thetas, low, high)
            mu = self._on_device(outs, low, high, "marginals")
            self._launch(theta, mu, totals[low:high], high - low, maximize=0)
            logs[low:high] = self._logs(high - low)
            if owned and self.layout.cells:
                rows = outs.reshape(-1)[low * self.layout.cells : high * self.layout.cells]
                if rows.dtype == self.dtype:
                    mu.copy_to_host(rows)
                else:
                    rows[:] = mu.copy_to_host()
        self.calls += vectors
        return outs, logs

    def _launch(self, theta: Any, mu: Any, totals: np.ndarray, vectors: int, maximize: int) -> None:
        """Run one sweep. From the second sweep with the same arrays on, all its launches are one CUDA graph."""
        self._buffers["totals"][:vectors].copy_to_device(totals.astype(self.dtype))
        launch = partial(self._launch_all, theta, mu, vectors, maximize)
        key = (_address(theta), _address(mu), vectors, maximize)
        replay = self._replays.get(key)
        if key in self._replays:
            if replay is None:
                replay = self._replays[key] = captured(self._cuda, launch) or partial(launch, 0)
            replay()
            return
        if len(self._replays) >= REPLAYS:
            self._replays.clear()
        self._replays[key] = None
        launch(0)

    def _launch_all(self, theta: Any, mu: Any, vectors: int, maximize: int, stream: Any) -> None:
        with self._kernels.small_grids():
            self._launch_steps(theta, mu, vectors, maximize, stream)

    def _launch_steps(self, theta: Any, mu: Any, vectors: int, maximize: int, stream: Any) -> None:
        schedule, buffers, kernels = self.schedule, self._buffers, self._kernels
        arrays = (theta, mu, self.layout.cells, buffers["workspace"], schedule.work)
        arrays = (*arrays, buffers["logs"], schedule.roots, buffers["totals"], maximize)
        passes, operands, maps, blocks, steps = self._tables
        last = schedule.upward if maximize else len(schedule.steps) - 1
        fused_blocks = FUSED_BLOCKS if vectors < MANY_VECTORS else FUSED_BLOCKS_OF_MANY
        for low, high, fused in schedule.launches(0, last, fused_blocks):
            if fused:
                kernel = kernels.run_steps[(1, vectors), BLOCK_THREADS, stream]
                kernel(passes, operands, maps, blocks, steps, low, high, *arrays)
            else:
                first, end = (int(schedule.steps[step]) for step in (low, high))
                kernel = kernels.run_step[(end - first, vectors), BLOCK_THREADS, stream]
                kernel(passes, operands, maps, blocks, first, *arrays)

    def _logs(self, vectors: int) -> np.ndarray:
        """Return the log-partition functions, after the device has finished."""
        roots = self.schedule.roots
        found = self._buffers["logs"].copy_to_host()[: vectors * roots]
        return found.astype(np.float64).reshape(vectors, roots).sum(axis=1)


def _address(array: Any) -> int:
    """Return the address of an array on the device."""
    interface = getattr(array, "__cuda_array_interface__", None)
    return interface["data"][0] if interface is not None else id(array)


def _on_host(array: Any) -> np.ndarray:
    """Return the array in NumPy, as contiguous float64."""
    if not isinstance(array, np.ndarray):
        array = array.copy_to_host() if hasattr(array, "copy_to_host") else array.get()
    return np.ascontiguousarray(array, dtype=np.float64)
