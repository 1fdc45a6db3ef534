"""Capturing the launches of a sweep as one CUDA graph: launching a kernel from Python takes longer than most steps."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any


def captured(cuda: ModuleType, launch: Callable[[Any], None]) -> Callable[[], None] | None:
    """Return a function that does, on the default stream, everything that `launch` does on the stream it is given.

    The kernels must have run before, because they cannot be loaded during the capture. The function works on the arrays
    that `launch` uses now. Return None if numba cannot capture: in its simulator, and before numba-cuda 0.29.
    """
    if not hasattr(cuda.cudadrv.driver, "GraphBuilder"):
        return None
    from cuda.core import Device  # pyright: ignore[reportMissingImports]

    device = Device()
    device.set_current()
    builder = device.create_graph_builder()
    builder.begin_building("relaxed")
    launch(builder)
    graph = builder.end_building().complete()
    return lambda: graph.launch(device.default_stream)
