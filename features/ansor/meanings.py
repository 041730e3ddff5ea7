"""The meaning of each column of feature set `ansor-0.19`, in words."""

from __future__ import annotations

_OPS = {
    "mad": "multiply-adds (never counted in this set: always 0)",
    "addsub": "additions and subtractions",
    "mul": "multiplications",
    "divmod": "divisions and remainders",
    "cmp": "comparisons, minima and maxima",
    "mathfunc": "calls of mathematical functions",
    "otherfunc": "other calls",
}
_LOOPS = {"vec": "vectorised", "unroll": "unrolled", "parallel": "parallel"}
_LOOP_NUMBERS = {
    "num": "number of {} loops around the store",
    "prod": "product of the extents of the {} loops",
    "len": "extent of the innermost {} loop",
}
_BUFFER = {
    "acc_type": "access of the buffer: {}",
    "bytes": "bytes accessed over all iterations, repetitions counted",
    "unique_bytes": "bytes accessed, each counted once",
    "lines": "cache lines accessed over all iterations",
    "unique_lines": "cache lines accessed, each counted once",
    "reuse_type": "why an element is accessed again: {}",
    "reuse_dis_iter": "iterations between two accesses to an element",
    "reuse_dis_bytes": "bytes touched between two accesses to an element",
    "reuse_ct": "how often an element is accessed again",
    "bytes_d_reuse_ct": "bytes / reuse_ct",
    "unique_bytes_d_reuse_ct": "unique_bytes / reuse_ct",
    "lines_d_reuse_ct": "lines / reuse_ct",
    "unique_lines_d_reuse_ct": "unique_lines / reuse_ct",
    "stride": "elements between accesses of consecutive innermost iterations",
}
_OTHER = {
    "bool_op": "and, or, not",
    "select_op": "selections",
    "is_gpu": "1 on a GPU",
    "vthread_len": "product of virtual thread extents",
    "alloc_size": "bytes allocated for the stored buffer",
    "alloc_prod": "elements allocated, times the loops around the allocation",
    "alloc_outer_prod": "product of the extents of the loops around the allocation",
    "alloc_inner_prod": "iterations of the store in one allocation",
    "outer_prod": "product of the extents of all loops around the store",
    "num_loops": "number of loops around the store",
    "auto_unroll_max_step": "the unroll pragma around the store",
}


def meaning(column: str) -> str:
    """Describe `column` in one phrase; counts and sizes are log2(x + 1), one-hot columns plain."""
    if column in _OTHER:
        return _OTHER[column]
    if column.startswith("B") and "." in column:
        slot, _, rest = column.partition(".")
        base, _, value = rest.partition(".")
        return (
            f"buffer {slot[1:]} (the one with most cache lines is 0): {_BUFFER[base].format(value)}"
        )
    if column.startswith("arith_intensity_curve_"):
        tenth = int(column.rpartition("_")[2]) + 1
        return f"float operations per byte where {tenth}/10 of the operations are done"
    if column.endswith("_len"):
        kind = _LOOPS.get(column.removesuffix("_len"))
        if kind is None:
            return f"extent of {column.removesuffix('_len').replace('_', '.')}"
    base, _, position = column.partition(".")
    kind, _, what = base.partition("_")
    if what == "type":
        return f"position of the {_LOOPS[kind]} loop: {position.removeprefix('kPos')}"
    if kind in _LOOPS:
        return _LOOP_NUMBERS[what].format(_LOOPS[kind])
    return f"{kind} {_OPS[what]}, over all stores and iterations"
