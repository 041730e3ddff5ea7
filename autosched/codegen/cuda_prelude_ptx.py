"""Parts of the prelude for instructions of PTX that C cannot express.

Instructions that touch memory have a "memory" clobber, so that the compiler moves no access across
them.
"""

from __future__ import annotations

_LDG32 = """\
template <class T> __device__ __forceinline__ void ldg32(T* to, bool taken, const T* from) {
  unsigned bits;
  memcpy(&bits, to, 4);
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %1, 0; @p ld.global.nc.b32 %0, [%2]; }"
      : "+r"(bits) : "r"((int)taken), "l"(__cvta_generic_to_global(from)) : "memory");
  memcpy(to, &bits, 4);
}"""

_CP_ASYNC = """\
template <int N> __device__ __forceinline__ void cp_async(void* to, const void* from, bool taken) {
#if __CUDA_ARCH__ >= 800
  unsigned at = (unsigned)__cvta_generic_to_shared(to);
  size_t source = __cvta_generic_to_global(from);
  int size = taken ? N : 0;
  if (N == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(at), "l"(source), "r"(size) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :: "r"(at), "l"(source), "n"(N), "r"(size) : "memory");
  }
#else
#pragma unroll
  for (int i = 0; i < N / 4; ++i) {
    ((unsigned*)to)[i] = taken ? ((const unsigned*)from)[i] : 0u;
  }
#endif
}
template <int N, class T> __device__ __forceinline__ void cp_async_if(
    void* to, const T* from, long long at, bool taken) {
  cp_async<N>(to, taken ? from + at : from, taken);
}"""

_CP_ASYNC_GROUPS = """\
__device__ __forceinline__ void cp_async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int N> __device__ __forceinline__ void cp_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
#endif
}"""

_LDMATRIX = """\
template <bool TRANSPOSED> __device__ __forceinline__ void ldmatrix_x1(
    void* to, const void* row) {
  unsigned r[1], at = (unsigned)__cvta_generic_to_shared(row);
  if (TRANSPOSED) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(r[0]) : "r"(at) : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(r[0]) : "r"(at) : "memory");
  }
  memcpy(to, r, sizeof(r));
}"""


def _wider(count: int) -> str:
    """ldmatrix of `count` matrices."""
    places = ", ".join(f"%{k}" for k in range(count))
    outputs = ", ".join(f'"=r"(r[{k}])' for k in range(count))
    text = _LDMATRIX.replace("x1", f"x{count}").replace("r[1]", f"r[{count}]")
    return text.replace('"=r"(r[0])', outputs).replace("{%0}, [%1]", f"{{{places}}}, [%{count}]")


def _mma(shape: str, kind: str, result: str, register: str, a: int, b: int) -> str:
    """mma.sync of `a` and `b` registers of operands; operands of tf32 are rounded first.

    `kind` is the type of both operands, or the types of A and B (u8_s8).
    """
    name = f"mma_{shape}_{kind}"
    left_type, _, right_type = kind.partition("_")
    c, first, last = ("%0, %1, %2, %3", 4, 4 + a)
    left = ", ".join(f"%{first + k}" for k in range(a))
    right = ", ".join(f"%{last + k}" for k in range(b))
    outputs = ", ".join(f'"+{register}"(c[{k}])' for k in range(4))
    inputs = ", ".join(f'"r"({x}[{k}])' for x, n in (("p", a), ("q", b)) for k in range(n))
    rounding = ""
    if kind == "tf32":
        rounding = (
            "#pragma unroll\n"
            "  for (int i = 0; i < 4; ++i) to_tf32(p[i]);\n"
            "#pragma unroll\n"
            "  for (int i = 0; i < 2; ++i) to_tf32(q[i]);\n"
        )
    types = f"{result}.{left_type}.{right_type or left_type}.{result}"
    c_type = "float" if result == "f32" else "int"
    return (
        f"__device__ __forceinline__ void {name}(const void* a, const void* b, {c_type}* c) {{\n"
        f"  unsigned p[{a}], q[{b}];\n"
        "  memcpy(p, a, sizeof(p));\n"
        "  memcpy(q, b, sizeof(q));\n"
        f"{rounding}"
        f'  asm volatile("mma.sync.aligned.{shape}.row.col.{types} "\n'
        f'               "{{{c}}}, {{{left}}}, {{{right}}}, {{{c}}};"\n'
        f"               : {outputs}\n"
        f"               : {inputs});\n"
        "}"
    )


_WGMMA = """\
__device__ __forceinline__ unsigned long long wgmma_tile(
    unsigned at, unsigned long long slab, unsigned long long eight_rows) {
  return (at & 0x3ffffull) >> 4 | slab >> 4 << 16 | eight_rows >> 4 << 32 | 1ull << 62;
}
// The tile of the first of the four warps, each of which has 16 of 64 rows.
template <bool ROWS> __device__ __forceinline__ unsigned wgmma_rows(const void* own) {
  unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  return (unsigned)__cvta_generic_to_shared(own) - thread / 32 % 4 * (ROWS ? 2048 : 32);
}
// What was stored to shared memory may be read by wgmma behind the next barrier.
__device__ __forceinline__ void wgmma_fence_stores() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}"""

_WGMMA_WAIT = """\
template <int N> __device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory");
}"""


def _wgmma(columns: int, kind: str) -> str:
    """wgmma of 64 rows, `columns` columns and 128 bytes of terms: four asynchronous instructions.

    `kind` is the type of both operands, or the types of A and B (u8_s8). Operands of bytes cannot
    be transposed.
    """
    left, _, right = kind.partition("_")
    of_bytes = left in ("s8", "u8")
    count = columns // 2
    sums = ", ".join(f"%{k}" for k in range(count))
    register, result, terms = ("r", "s32", 32) if of_bytes else ("f", "f32", 16)
    outputs = ", ".join(f'"+{register}"(c[{k}])' for k in range(count))
    a, b, turned_a, turned_b = (f"%{count + k}" for k in range(4))
    scales = "1" if of_bytes else f"1, 1, 1, {turned_a}, {turned_b}"
    turns = "" if of_bytes else ', "n"(ROWS ? 0 : 1), "n"(COLUMNS ? 1 : 0)'
    types = f"{result}.{left}.{right or left}"
    return (
        "template <bool ROWS, bool COLUMNS, int SLAB, int PENDING>\n"
        f"__device__ __forceinline__ void wgmma_n{columns}_{kind}(\n"
        f"    {'int' if of_bytes else 'float'}* c, const void* own_a, const void* own_b) {{\n"
        "  unsigned a = wgmma_rows<ROWS>(own_a);\n"
        "  unsigned b = (unsigned)__cvta_generic_to_shared(own_b);\n"
        '  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");\n'
        "#pragma unroll\n"
        "  for (int k = 0; k < 4; ++k) {\n"
        "    unsigned long long p = wgmma_tile(a + k * (ROWS ? 32 : 2048), 16, 1024);\n"
        "    unsigned long long q =\n"
        "        wgmma_tile(b + k * (COLUMNS ? 2048 : 32), COLUMNS ? SLAB : 16, 1024);\n"
        f'    asm volatile("wgmma.mma_async.sync.aligned.m64n{columns}k{terms}.{types} "\n'
        f'                 "{{{sums}}}, "\n'
        f'                 "{a}, {b}, {scales};"\n'
        f"                 : {outputs}\n"
        f'                 : "l"(p), "l"(q){turns});\n'
        "  }\n"
        '  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");\n'
        "  wgmma_wait<PENDING>();\n"
        "}"
    )


_HALVES = ("f16", "bf16")
_WGMMA_KINDS = (*_HALVES, "s8", "u8", "s8_u8", "u8_s8")
_WGMMA_COLUMNS = (64, 128, 192, 256)

_TO_TF32 = """\
__device__ __forceinline__ void to_tf32(unsigned& x) {
  asm("cvt.rna.tf32.f32 %0, %0;" : "+r"(x));
}"""

_LANE = """\
__device__ __forceinline__ int lane_of_warp() {
  int lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}"""

_FRAGMENTS = """\
struct fragment_a {
  static __device__ __forceinline__ int row(int i) { return lane_of_warp() / 4 + i / 2 % 2 * 8; }
  static __device__ __forceinline__ int column(int i) {
    return lane_of_warp() % 4 * 2 + i % 2 + i / 4 * 8;
  }
};
struct fragment_b {
  static __device__ __forceinline__ int row(int i) {
    return lane_of_warp() % 4 * 2 + i % 2 + i / 2 % 2 * 8;
  }
  static __device__ __forceinline__ int column(int i) { return lane_of_warp() / 4 + i / 4 * 8; }
};
using fragment_c = fragment_a;
template <class T> __device__ __forceinline__ void fragment_fill(T* fragment, T value) {
#pragma unroll
  for (int i = 0; i < 8; ++i) fragment[i] = value;
}
template <class F, class T> __device__ __forceinline__ void fragment_load(
    T* fragment, const T* from, int down, int right) {
#pragma unroll
  for (int i = 0; i < 8; ++i) fragment[i] = from[F::row(i) * down + F::column(i) * right];
}
template <class F, class T> __device__ __forceinline__ void fragment_store(
    const T* fragment, T* to, int down, int right) {
#pragma unroll
  for (int i = 0; i < 8; ++i) to[F::row(i) * down + F::column(i) * right] = fragment[i];
}"""

_MMA_FILL = """\
template <int N, class T> __device__ __forceinline__ void mma_fill(T* values) {
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = 0;
}"""

_MMA_STORE = """\
template <class T> struct __align__(2 * sizeof(T)) mma_pair { T v[2]; };
template <class T> __device__ __forceinline__ void mma_store(T* to, int stride, const T* values) {
  T* row = to + lane_of_warp() / 4 * stride + lane_of_warp() % 4 * 2;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    mma_pair<T> pair = {{values[2 * i], values[2 * i + 1]}};
    *reinterpret_cast<mma_pair<T>*>(row + i * 8 * stride) = pair;
  }
}"""

_FRAGMENT_MMA = """\
__device__ __forceinline__ void fragment_mma_f16(
    float* d, const f16* a, const f16* b, const float* c) {
  float sum[8];
  memcpy(sum, c, sizeof(sum));
  mma_m16n8k16_f16(a, b, sum);
  mma_m16n8k16_f16(a, b + 4, sum + 4);
  memcpy(d, sum, sizeof(sum));
}"""

PTX_PARTS: dict[str, str] = {
    "ldg32": _LDG32,
    "cp_async": _CP_ASYNC,
    "cp_async_groups": _CP_ASYNC_GROUPS,
    **{f"ldmatrix_x{n}": _wider(n) for n in (1, 2, 4)},
    "mma_m16n8k16_f16": _mma("m16n8k16", "f16", "f32", "f", 4, 2),
    "mma_m16n8k16_bf16": _mma("m16n8k16", "bf16", "f32", "f", 4, 2),
    "to_tf32": _TO_TF32,
    "mma_m16n8k8_tf32": _mma("m16n8k8", "tf32", "f32", "f", 4, 2),
    **{
        f"mma_m16n8k32_{kind}": _mma("m16n8k32", kind, "s32", "r", 4, 2)
        for kind in ("s8", "u8", "s8_u8", "u8_s8")
    },
    "wgmma": _WGMMA,
    "wgmma_wait": _WGMMA_WAIT,
    **{f"wgmma_n{n}_{kind}": _wgmma(n, kind) for n in _WGMMA_COLUMNS for kind in _WGMMA_KINDS},
    "lane_of_warp": _LANE,
    "mma_fill": _MMA_FILL,
    "mma_store": _MMA_STORE,
    "fragments": _FRAGMENTS,
    "fragment_mma_f16": _FRAGMENT_MMA,
    "fragment_mma_bf16": _FRAGMENT_MMA.replace("f16", "bf16"),
}
PTX_NEEDS = {
    **{
        f"wgmma_n{n}_{kind}": (*((kind,) if kind in _HALVES else ()), "wgmma", "wgmma_wait")
        for n in _WGMMA_COLUMNS
        for kind in _WGMMA_KINDS
    },
    "mma_m16n8k8_tf32": ("to_tf32",),
    "mma_store": ("lane_of_warp",),
    "fragments": ("lane_of_warp",),
    **{f"fragment_mma_{t}": (t, f"mma_m16n8k16_{t}") for t in ("f16", "bf16")},
}
"""The parts that each part needs."""
