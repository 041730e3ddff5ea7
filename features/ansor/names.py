"""The 164 columns of feature set `ansor-0.19`, in order, by group.

Every value except the one-hot columns and `is_gpu` is log-scaled: log2(x + 1) for x >= 0.

computation (0-56)      operation counts over all stores to the buffer, times the enclosing loops;
                        vectorised, unrolled and parallel loops; GPU launch extents
buffer access (57-146)  the five buffers with most cache lines, in falling order: access type,
                        bytes, cache lines, reuse type, distance and count, stride of the innermost
                        loop
arithmetic intensity    (147-156) operations per byte at ten points from inner to outer loops
allocation (157-160)    size and number of allocations of the stored buffer
outer scope (161-163)   product and number of enclosing loops, auto_unroll_max_step
"""

from __future__ import annotations

from autosched.features.walk.access import ACCESS_TYPES

SCHEMA = "ansor-0.19"
SCHEMA_VERSION = 1

OP_COUNTERS = (
    *(f"float_{k}" for k in ("mad", "addsub", "mul", "divmod", "cmp", "mathfunc", "otherfunc")),
    *(f"int_{k}" for k in ("mad", "addsub", "mul", "divmod", "cmp", "mathfunc", "otherfunc")),
    "bool_op",
    "select_op",
)

POSITIONS = (
    "kPosNone",
    "kPosInnerSpatial",
    "kPosMiddleSpatial",
    "kPosOuterSpatial",
    "kPosInnerReduce",
    "kPosMiddleReduce",
    "kPosOuterReduce",
    "kPosMixed",
)

LAUNCH = (
    "is_gpu",
    "blockIdx_x_len",
    "blockIdx_y_len",
    "blockIdx_z_len",
    "threadIdx_x_len",
    "threadIdx_y_len",
    "threadIdx_z_len",
    "vthread_len",
)

REUSE_TYPES = ("kLoopMultipleRead", "kSerialMultipleReadWrite", "kNoReuse")

_BUFFER = (
    *(f"acc_type.{k}" for k in ACCESS_TYPES),
    *("bytes", "unique_bytes", "lines", "unique_lines"),
    *(f"reuse_type.{k}" for k in REUSE_TYPES),
    *("reuse_dis_iter", "reuse_dis_bytes", "reuse_ct"),
    *("bytes_d_reuse_ct", "unique_bytes_d_reuse_ct", "lines_d_reuse_ct", "unique_lines_d_reuse_ct"),
    "stride",
)

MAX_BUFFERS = 5
CURVE_POINTS = 10
ALLOCATION = ("alloc_size", "alloc_prod", "alloc_outer_prod", "alloc_inner_prod")
OUTER_SCOPE = ("outer_prod", "num_loops", "auto_unroll_max_step")


def _annotation(kind: str) -> tuple[str, ...]:
    return (
        *(f"{kind}_{k}" for k in ("num", "prod", "len")),
        *(f"{kind}_type.{p}" for p in POSITIONS),
    )


GROUPS: dict[str, tuple[str, ...]] = {
    "computation": (
        *OP_COUNTERS,
        *_annotation("vec"),
        *_annotation("unroll"),
        *_annotation("parallel"),
        *LAUNCH,
    ),
    "buffer access": tuple(f"B{b}.{k}" for b in range(MAX_BUFFERS) for k in _BUFFER),
    "arithmetic intensity": tuple(f"arith_intensity_curve_{k}" for k in range(CURVE_POINTS)),
    "allocation": ALLOCATION,
    "outer scope": OUTER_SCOPE,
}

FEATURE_NAMES: tuple[str, ...] = tuple(name for names in GROUPS.values() for name in names)
NUM_FEATURES = len(FEATURE_NAMES)
BUFFER_WIDTH = len(_BUFFER)

# Columns that are not log-scaled: one-hots and is_gpu.
UNSCALED: tuple[int, ...] = tuple(
    i for i, name in enumerate(FEATURE_NAMES) if "_type." in name or name == "is_gpu"
)
