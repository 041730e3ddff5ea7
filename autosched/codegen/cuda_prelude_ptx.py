"""The prelude's parts that are instructions of PTX which C has no words for.

What touches memory has a "memory" clobber, so that the compiler moves no access across it.
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
    void* to, const T* from, int at, bool taken) {
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

PTX_PARTS: dict[str, str] = {
    "ldg32": _LDG32,
    "cp_async": _CP_ASYNC,
    "cp_async_groups": _CP_ASYNC_GROUPS,
}
