"""The intrinsics that a Call may name, with their effects: one literal table."""

from __future__ import annotations

from enum import Enum


class Effect(Enum):
    """The side effects that a call may have."""

    PURE = "pure"
    ANNOTATION = "annotation"  # returns its argument and only marks it, as `likely`
    READ = "read"  # reads memory or state
    OPAQUE = "opaque"  # may do anything


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_UNARY_MATH = _names(
    "exp exp2 exp10 erf tanh sigmoid sqrt rsqrt log log2 log10 log1p expm1 fabs floor ceil round "
    "trunc nearbyint sin cos tan asin acos atan sinh cosh asinh acosh atanh clz popcount "
    "isnan isinf isfinite"
)
_BINARY_MATH = _names("pow fmod atan2 hypot copysign ldexp nextafter")
_BITWISE = _names("bitwise_and bitwise_or bitwise_xor bitwise_not shift_left shift_right")
_PURE = _names(
    "if_then_else reinterpret call_pure_extern call_llvm_pure_intrin q_multiply_shift fma "
    "isnullptr address_of large_uint_imm vscale tuple ptx_lane_id"
)
_READ = _names("tvm_struct_get tvm_access_ptr tvm_warp_activemask")
_OPAQUE = _names(
    "call_extern call_llvm_intrin call_packed call_cpacked call_packed_lowered "
    "tvm_storage_sync tvm_thread_allreduce tvm_thread_invariant tvm_thread_context "
    "tvm_warp_shuffle tvm_warp_shuffle_up tvm_warp_shuffle_down "
    "tvm_struct_set tvm_stack_alloca tvm_stack_make_shape tvm_stack_make_array "
    "ptx_cp_async ptx_commit_group ptx_wait_group ptx_ldmatrix ptx_mma ptx_ldg32 "
    "ptx_mma_fill ptx_mma_store ptx_wgmma ptx_wgmma_wait "
    "tvm_load_matrix_sync tvm_mma_sync tvm_fill_fragment tvm_store_matrix_sync "
    "tvm_throw_last_error nd_mem_alloc_with_scope ret prefetch "
    "start_profile_intrinsic end_profile_intrinsic call_cpacked_lowered tvm_context_id "
    "TVMBackendAllocWorkspace TVMBackendFreeWorkspace "
    "dma_copy dma_wait dma_start_group dma_end_group"
)

POINTER_OFFSETS: dict[str, tuple[tuple[int, int], ...]] = {
    "ptx_cp_async": ((0, 1), (2, 3)),
    "ptx_ldmatrix": ((3, 4), (5, 6)),
    "ptx_mma": ((6, 7), (8, 9), (10, 11)),
    "ptx_mma_fill": ((1, 2),),
    "ptx_mma_store": ((0, 1), (3, 4)),
    "ptx_wgmma": ((5, 6), (7, 8), (9, 10)),
}
"""For calls that take pointers with offsets in elements: the argument positions of each pair."""

UNARY_MATH = frozenset(_UNARY_MATH)
BINARY_MATH = frozenset(_BINARY_MATH)
BITWISE = frozenset(_BITWISE)

EFFECTS: dict[str, Effect] = {
    **dict.fromkeys((*_UNARY_MATH, *_BINARY_MATH, *_BITWISE, *_PURE), Effect.PURE),
    "likely": Effect.ANNOTATION,
    **dict.fromkeys(_READ, Effect.READ),
    **dict.fromkeys(_OPAQUE, Effect.OPAQUE),
}


def effect(op: str) -> Effect:
    """The effect of intrinsic `op`; KeyError when there is no such intrinsic."""
    return EFFECTS[op]


def is_pure(op: str) -> bool:
    """True when a call of `op` may be moved, repeated or dropped."""
    return EFFECTS[op] in (Effect.PURE, Effect.ANNOTATION)
