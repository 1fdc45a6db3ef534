"""Finding the device and its kernels, at first use: nothing here is imported with pgmest."""

from __future__ import annotations

from functools import cache
from types import ModuleType

from pgmest._base.errors import DeviceError

REMEDY = (
    'pip install "pgmest[gpu]" brings what an NVIDIA GPU needs beside its driver (for CUDA 13: pip install '
    '"numba-cuda[cu13]"); oracle="exact" runs on the processor.'
)


@cache
def load_device_kernels() -> ModuleType:
    """The kernels; compiled at the first call with arrays of each precision, read from the cache on disk later.

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
    """numba's CUDA target, with a device behind it.

    Raises:
        DeviceError: there is no device.
    """
    return load_device_kernels().cuda


def free_bytes(cuda: ModuleType) -> float:
    """The device's free memory, once what numba keeps for a later release is released."""
    context = cuda.current_context()
    pending = getattr(context, "deallocations", None) or getattr(
        getattr(context, "memory_manager", None), "deallocations", None
    )
    if pending is not None:
        pending.clear()
    return context.get_memory_info().free
