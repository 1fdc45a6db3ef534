"""A sweep of many launches as one CUDA graph: to launch a kernel from Python takes longer than many a step runs."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any


def captured(cuda: ModuleType, launch: Callable[[Any], None]) -> Callable[[], None] | None:
    """What does on the default stream all that `launch` does on the stream that it is given.

    The kernels must have run before, as they cannot be loaded meanwhile; arrays are those of now. None where numba
    cannot capture: in its simulator, and before numba-cuda 0.29.
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
