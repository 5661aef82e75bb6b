"""A client of MPS that says what it may have: how many multiprocessors, and which allocations it gets.

A process of its own, since a client's limits are those of the moment when it starts: `python -m sandbox.gpu_node.mps_client
MIB …` tries to allocate each amount by itself, and gives it back. It prints one JSON object.
"""

from __future__ import annotations

import ctypes
import json
import sys

from sandbox.gpu_node.work import Cuda, start, take

_MULTIPROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
_MIB = 1 << 20


def main(amounts: list[int]) -> None:
    """Look, and print it."""
    cuda = Cuda()
    start(cuda)
    take(cuda, 0)
    count, free, total = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_size_t()
    cuda("cuDeviceGetAttribute", ctypes.byref(count), _MULTIPROCESSORS, 0)
    cuda("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    found = {"multiprocessors": count.value, "totalMiB": total.value // _MIB, "answers": [_answer(cuda, mib) for mib in amounts]}
    sys.stdout.write(json.dumps(found) + "\n")


def _answer(cuda: Cuda, mib: int) -> int:
    """The driver's answer to an allocation: 0 where it is given, 2 (CUDA_ERROR_OUT_OF_MEMORY) where there is no room."""
    pointer = ctypes.c_uint64()
    code = cuda.answer("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(mib * _MIB))
    if code == 0:
        cuda("cuMemFree_v2", pointer)
    return code


if __name__ == "__main__":
    main([int(amount) for amount in sys.argv[1:]])
