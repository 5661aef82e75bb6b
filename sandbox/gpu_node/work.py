"""What the GPU pods of `make gpu-node` run: adds two arrays on each of its GPUs, again and again, and looks at each sum.

A program of its own, on Python's library and the driver's libcuda alone: the kernel is PTX, which the driver compiles. Each round
is a line, so that whoever reads the pod's log sees that it still computes. It ends with 1 at the first wrong sum or error, and
with 0 after as many rounds as its first argument says; without one it goes on until SIGTERM.

With two arguments more it keeps a ledger: a file, in which it signs in before it begins. At SIGTERM it computes on for so many
seconds, as one that has to come to the end of something, and only then signs off. Who is killed before that can write nothing.
"""

import array
import ctypes
import signal
import sys
import time
import uuid
from pathlib import Path

COUNT, BLOCK = 1 << 20, 256
PAUSE_SECONDS = 0.25
KERNEL = b"""\
.version 6.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .f32 %f<4>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<11>;
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    ld.param.u64 %rd3, [c];
    ld.param.u32 %r2, [n];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.s32 %r1, %r3, %r4, %r5;
    setp.ge.u32 %p1, %r1, %r2;
    @%p1 bra DONE;
    cvta.to.global.u64 %rd4, %rd1;
    cvta.to.global.u64 %rd5, %rd2;
    cvta.to.global.u64 %rd6, %rd3;
    mul.wide.u32 %rd7, %r1, 4;
    add.s64 %rd8, %rd4, %rd7;
    add.s64 %rd9, %rd5, %rd7;
    add.s64 %rd10, %rd6, %rd7;
    ld.global.f32 %f1, [%rd8];
    ld.global.f32 %f2, [%rd9];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%rd10], %f3;
DONE:
    ret;
}
"""


class Cuda:
    """The driver's functions; an answer other than 0 is an error."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")

    def __call__(self, function: str, *arguments: object) -> None:
        """Call one; it ends the program where that fails."""
        code = self.answer(function, *arguments)
        if code:
            sys.exit(f"{function} answers {code}")

    def answer(self, function: str, *arguments: object) -> int:
        """Call one; returns what it answers."""
        return int(getattr(self._library, function)(*arguments))


def start(cuda: Cuda) -> list[int]:
    """The GPUs that there are, as the driver numbers them."""
    count = ctypes.c_int()
    cuda("cuInit", 0)
    cuda("cuDeviceGetCount", ctypes.byref(count))
    return list(range(count.value))


def take(cuda: Cuda, index: int) -> tuple[ctypes.c_void_p, str]:
    """Have the calls that follow mean this GPU; returns its context, and its UUID as NVML writes it."""
    device, context, identity = ctypes.c_int(), ctypes.c_void_p(), (ctypes.c_ubyte * 16)()
    cuda("cuDeviceGet", ctypes.byref(device), index)
    cuda("cuDeviceGetUuid_v2", identity, device)
    cuda("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    cuda("cuCtxSetCurrent", context)
    return context, f"GPU-{uuid.UUID(bytes=bytes(identity))}"


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def on_gpu(cuda: Cuda, content: bytes) -> ctypes.c_uint64:
    """Memory of the GPU with a content."""
    pointer = ctypes.c_uint64()
    cuda("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(len(content)))
    cuda("cuMemcpyHtoD_v2", pointer, content, ctypes.c_size_t(len(content)))
    return pointer


class Adding:
    """Two arrays on a GPU, and the kernel that adds them."""

    def __init__(self, cuda: Cuda, index: int) -> None:
        """Put them there."""
        self._cuda = cuda
        self._context, self.uuid = take(cuda, index)
        module, self._kernel = ctypes.c_void_p(), ctypes.c_void_p()
        cuda("cuModuleLoadData", ctypes.byref(module), KERNEL)
        cuda("cuModuleGetFunction", ctypes.byref(self._kernel), module, b"add")
        a = on_gpu(cuda, array.array("f", [1.0] * COUNT).tobytes())
        b = on_gpu(cuda, array.array("f", [2.0] * COUNT).tobytes())
        self._right, self._found = array.array("f", [3.0] * COUNT).tobytes(), ctypes.create_string_buffer(4 * COUNT)
        self._sum = on_gpu(cuda, bytes(len(self._right)))
        self._values = (a, b, self._sum, ctypes.c_uint32(COUNT))

    def is_right(self) -> bool:
        """Add them; whether the sum is what it must be."""
        cuda, size = self._cuda, ctypes.c_size_t(len(self._right))
        arguments = (ctypes.c_void_p * len(self._values))(
            *(ctypes.cast(ctypes.byref(one), ctypes.c_void_p) for one in self._values)
        )
        cuda("cuCtxSetCurrent", self._context)
        # What the last round left must not pass for this one's.
        cuda("cuMemcpyHtoD_v2", self._sum, bytes(len(self._right)), size)
        cuda("cuLaunchKernel", self._kernel, (COUNT + BLOCK - 1) // BLOCK, 1, 1, BLOCK, 1, 1, 0, None, arguments, None)
        cuda("cuCtxSynchronize")
        cuda("cuMemcpyDtoH_v2", self._found, self._sum, size)
        return self._found.raw == self._right


class Leaving:
    """When to end: at once after SIGTERM, or so many seconds later."""

    def __init__(self, seconds: float) -> None:
        """Not yet. The first process of a container is sent nothing that it does not ask for."""
        self._seconds, self._end = seconds, float("inf")
        signal.signal(signal.SIGTERM, self._told)

    def _told(self, *_: object) -> None:
        self._end = min(self._end, time.monotonic() + self._seconds)

    @property
    def is_due(self) -> bool:
        """Whether it is time."""
        return time.monotonic() >= self._end


def main(rounds: float, ledger: "Path | None" = None, seconds: float = 0) -> None:
    """Compute so many rounds, or until told to end and so many seconds after that; keep a ledger, where there is one."""
    leaving = Leaving(seconds)
    if ledger:
        ledger.write_text("begun")
    cuda = Cuda()
    gpus = [Adding(cuda, index) for index in start(cuda)]
    say(f"begins on {', '.join(gpu.uuid for gpu in gpus)}")
    number = 0
    while number < rounds and not leaving.is_due:
        for gpu in gpus:
            if not gpu.is_right():
                sys.exit(f"round {number}: a wrong sum on {gpu.uuid}")
        number += 1
        say(f"round {number} is right")
        time.sleep(PAUSE_SECONDS)
    if ledger:
        ledger.write_text("saved")


if __name__ == "__main__":
    match sys.argv[1:]:
        case [until, file, after]:
            main(float(until), Path(file), float(after))
        case [until]:
            main(float(until))
        case _:
            main(float("inf"))
