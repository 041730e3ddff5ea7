"""Hand-written kernels for GPU passes that no `te` schedule exercises."""

from __future__ import annotations

from autosched.tir.swizzle import swizzle_for

GPU_CONFIG = {"tir.use_async_copy": True, "tir.ptx_ldg32": True}
"""The settings under which every pass of the pipeline runs."""

GPU_TEXTS: dict[str, str] = {
    "copies in the stages of a pipeline": """\
def main(A: Buffer((512,), float32), B: Buffer((512,), float32)):
    launch(threadIdx.x, 64)
    pragma(None, "software_pipeline", 3)
    for k in range(8):
        S = allocate((64,), float32, "shared")
        S[threadIdx.x] = A[k * 64 + threadIdx.x]
        B[k * 64 + threadIdx.x] = S[63 - threadIdx.x]
""",
    "a tile whose columns meet no bank twice": f"""\
def main(A: Buffer((1024,), float16), B: Buffer((1024,), float16)):
    launch(threadIdx.x, 32)
    S = allocate((1024,), float16, "shared")
    pragma(None, "swizzle", "{swizzle_for(32, 2)}")
    for i in range(4):
        S[ramp((i * 32 + threadIdx.x) * 8, 1, 8)] = A[ramp((i * 32 + threadIdx.x) * 8, 1, 8)]
    for i in range(4):
        B[ramp((threadIdx.x * 4 + i) * 8, 1, 8)] = S[ramp((threadIdx.x * 4 + i) * 8, 1, 8)]
""",
    "memory of a warp": """\
def main(A: Buffer((64,), float32), B: Buffer((64,), float32)):
    launch(threadIdx.y, 2)
    launch(threadIdx.x, 32)
    W = allocate((32,), float32, "warp")
    W[threadIdx.x] = A[threadIdx.y * 32 + threadIdx.x]
    B[threadIdx.y * 32 + threadIdx.x] = W[31 - threadIdx.x]
""",
    "more shared memory than a kernel may declare": """\
def main(A: Buffer((13000,), float32), B: Buffer((13000,), float32)):
    launch(threadIdx.x, 650)
    S = allocate((13000,), float32, "shared")
    for i in range(20):
        S[i * 650 + threadIdx.x] = A[i * 650 + threadIdx.x]
    for i in range(20):
        B[i * 650 + threadIdx.x] = S[12999 - i * 650 - threadIdx.x]
""",
    "copies marked as asynchronous": """\
def main(A: Buffer((256,), float32), B: Buffer((256,), float32)):
    launch(threadIdx.x, 64)
    S = allocate((256,), float32, "shared")
    with attr(S, "async_scope", 1):
        S[threadIdx.x * 4:threadIdx.x * 4 + 4] = A[threadIdx.x * 4:threadIdx.x * 4 + 4]
    ptx_commit_group(dtype=int32)
    ptx_wait_group(0)
    B[threadIdx.x] = S[255 - threadIdx.x]
""",
    "memory used in turns": """\
def main(A: Buffer((128,), float32), B: Buffer((128,), float32)):
    launch(threadIdx.x, 64)
    S = allocate((64,), float32, "shared")
    T = allocate((64,), float16, "shared")
    for i in range(2):
        S[threadIdx.x] = A[i * 64 + threadIdx.x]
        B[i * 64 + threadIdx.x] = S[63 - threadIdx.x]
        T[threadIdx.x] = float16(A[i * 64 + threadIdx.x])
        B[i * 64 + threadIdx.x] = B[i * 64 + threadIdx.x] + float32(T[63 - threadIdx.x])
""",
    "a guarded load": """\
def main(A: Buffer((64,), float32), B: Buffer((64,), float32)):
    launch(threadIdx.x, 64)
    L = allocate((3,), float32, "local")
    for i in range(3):
        L[i] = if_then_else(threadIdx.x + i < 64, A[threadIdx.x + i], 0.0)
    B[threadIdx.x] = L[0] + L[1] + L[2]
""",
    "fragments": """\
def main(A: Buffer((256,), float16), B: Buffer((256,), float16), C: Buffer((256,), float32)):
    launch(threadIdx.x, 32)
    a = allocate((256,), float16, "wmma.matrix_a")
    b = allocate((256,), float16, "wmma.matrix_b")
    c = allocate((256,), float32, "wmma.accumulator")
    tvm_fill_fragment(c, 16, 16, 16, 0, 0.0, dtype=handle)
    tvm_load_matrix_sync(a, 16, 16, 16, 0, address_of(A[0]), 16, "row_major", dtype=handle)
    tvm_load_matrix_sync(b, 16, 16, 16, 0, address_of(B[0]), 16, "row_major", dtype=handle)
    tvm_mma_sync(c, 0, a, 0, b, 0, c, 0, dtype=handle)
    tvm_store_matrix_sync(c, 16, 16, 16, 0, address_of(C[0]), 16, "row_major", dtype=handle)
""",
}
