"""What a build for CUDA hands on: kernels, the plan of launches, parameters."""

from __future__ import annotations

import pickle

import pytest

from autosched import te
from autosched.codegen.nvrtc import Compiled
from autosched.codegen.nvrtc_log import Resources
from autosched.driver import lower, lower_to_kernels
from autosched.errors import CompileError, MeasureError
from autosched.runtime.cuda_artifact import Alloc, CudaArtifact, Kernel, Launch, cuda_artifact
from autosched.target import cuda_target
from autosched.tir.parser import parse_func
from autosched.tir.stmt import Allocate
from autosched.tir.walk import stmts

TWO = """\
def main(A: Buffer((64,), float32), B: Buffer((8, 8), float32), z: float32):
    B_1 = view(B, (64,), float32)
    W = allocate((64,), float16, "global")
    with launch(threadIdx.x, 64):
        W[threadIdx.x] = float16(A[threadIdx.x] + z)
    launch(blockIdx.x, 2)
    launch(threadIdx.x_1, 32, tag="threadIdx.x")
    S = allocate((32,), float32, "shared")
    S[threadIdx.x_1] = float32(W[blockIdx.x * 32 + threadIdx.x_1])
    B_1[blockIdx.x * 32 + threadIdx.x_1] = S[threadIdx.x_1] * 2.0
"""


def artifact(text: str) -> CudaArtifact:
    return cuda_artifact(lower_to_kernels(parse_func(text)), "main")


def test_kernels_and_plan() -> None:
    found = artifact(TWO)
    assert found.kernels == (
        Kernel("main_kernel", (1, 1, 1), (64, 1, 1), 0, 0),
        Kernel("main_kernel_1", (2, 1, 1), (32, 1, 1), 128, 0),
    )
    assert found.plan == (
        Alloc("W", 128),
        Launch("main_kernel", ("A", "W", "z")),
        Launch("main_kernel_1", ("B", "W")),
    )
    assert "main_kernel_1(" in found.source


def test_what_kernels_store_to_is_output() -> None:
    specs = {p.name: (p.dtype, p.shape, p.is_output) for p in artifact(TWO).params}
    assert specs == {
        "A": ("float32", (64,), False),
        "B": ("float32", (8, 8), True),
        "z": ("float32", None, False),
    }


def test_a_workspace_that_is_called_like_a_parameter() -> None:
    func = parse_func(TWO)
    (memory,) = [s for s in stmts(func.body) if isinstance(s, Allocate)][:1]
    memory.buffer_var.name = "A"
    found = cuda_artifact(lower_to_kernels(func), "main")
    assert found.plan[:2] == (Alloc("A_1", 128), Launch("main_kernel", ("A", "A_1", "z")))


def test_arrays_of_one_name_are_told_apart() -> None:
    """te.placeholder calls all of them `placeholder`: launches were passed the last one twice."""
    a, b = te.placeholder((8,)), te.placeholder((8,))
    c = te.placeholder((8,), name="placeholder_1")
    d = te.compute((8,), lambda i: a[i] - b[i] * c[i], "placeholder")
    s = te.create_schedule(d.op)
    s[d].bind(d.op.axis[0], te.thread_axis("threadIdx.x"))
    func = lower(s, [a, b, c, d], cuda_target())
    found = cuda_artifact(lower_to_kernels(func), "main")
    names = ("placeholder", "placeholder_2", "placeholder_1", "placeholder_3")
    assert tuple(p.name for p in found.params) == names
    assert found.plan == (Launch("main_kernel", names),)


def test_bytes_and_back() -> None:
    compiled = Compiled(
        b"\x7fELF\0\1", "log", {"main_kernel": Resources(10, 0, 0, 0, 0)}, 0.1, "sm_80"
    )
    found = artifact(TWO).with_cubin(compiled)
    assert CudaArtifact.from_bytes(found.to_bytes()) == found
    assert pickle.loads(pickle.dumps(found)) == found
    assert found.cubins == {"sm_80": compiled.cubin}
    assert len(found.to_bytes()) < 4000


def test_other_bytes() -> None:
    with pytest.raises(MeasureError, match="not a compiled CUDA kernel"):
        CudaArtifact.from_bytes(b"ASCPU001")


REFUSED = {
    "a loop on the host": (
        """\
def main(A: Buffer((64,), float32)):
    for i in range(2):
        launch(threadIdx.x, 32)
        A[i * 32 + threadIdx.x] = 0.0
""",
        r"main: the host would have to do `for i in range\(2\)",
    ),
    "a size that is not known": (
        """\
def main(A: Buffer((64,), float32), n: int32):
    W = allocate((n,), float32, "global")
    with launch(threadIdx.x, 32):
        W[threadIdx.x] = A[threadIdx.x]
    launch(threadIdx.x_1, 32, tag="threadIdx.x")
    A[threadIdx.x_1] = W[threadIdx.x_1]
""",
        "the size of W must be constant",
    ),
    "a call of something else": (
        """\
def main(A: Buffer((64,), float32)):
    call_packed("other", A[0], dtype=int32)
""",
        'would have to call "other"',
    ),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_hosts_that_are_more_than_a_plan(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        artifact(text)
