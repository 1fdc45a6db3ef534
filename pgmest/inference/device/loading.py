"""Finding the GPU and loading its kernels at first use; `import pgmest` imports neither."""

from __future__ import annotations

from functools import cache
from types import ModuleType

from pgmest.errors import DeviceError

REMEDY = (
    'pip install "pgmest[gpu]" installs what an NVIDIA GPU needs beside its driver (for CUDA 13: pip install '
    '"numba-cuda[cu13]"); oracle="exact" runs on the processor. The GPU oracle is experimental: no kernel has run on a '
    "device yet."
)


@cache
def load_device_kernels() -> ModuleType:
    """Return the module of the kernels.

    The kernels are compiled at the first call with arrays of each precision, and read from the cache on disk later.
    They are experimental: no kernel has run on a device yet.

    Raises:
        DeviceError: numba's CUDA target is not installed, or finds no device.
    """
    try:
        from pgmest.inference.device import kernels
    except ImportError as error:
        raise DeviceError(f'oracle="gpu" needs numba\'s CUDA target ({error}). {REMEDY}') from None
    if not kernels.cuda.is_available():
        reason = " ".join(str(kernels.cuda.cuda_error() or "there is no NVIDIA GPU, or no driver for it").split())
        raise DeviceError(f'oracle="gpu" finds no device ({reason}). {REMEDY}')
    return kernels


def load_device() -> ModuleType:
    """Return numba's CUDA target after checking that there is a device.

    Raises:
        DeviceError: there is no device.
    """
    return load_device_kernels().cuda


def free_bytes(cuda: ModuleType) -> float:
    """Return the device's free memory in bytes, after releasing what numba keeps for a later release."""
    context = cuda.current_context()
    pending = getattr(context, "deallocations", None) or getattr(
        getattr(context, "memory_manager", None), "deallocations", None
    )
    if pending is not None:
        pending.clear()
    return context.get_memory_info().free
