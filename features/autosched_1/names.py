"""The columns of feature set `autosched-1` by group, each with its meaning.

Columns marked with `=` are shares or one-hots and are not scaled; the others are log2(x + 1).
Below, L1, L2 and L3 are the caches of the record's target (`Target.caches`); on a GPU, L1 is the
shared memory of a block and L3 the device's memory behind L2.
"""

from __future__ import annotations

from autosched.features.ansor.names import (
    CURVE_POINTS,
    OP_COUNTERS,
    POSITIONS,
    REUSE_TYPES,
)
from autosched.features.walk.access import ACCESS_TYPES

SCHEMA = "autosched-1"
SCHEMA_VERSION = 14
MAX_BUFFERS = 5
CACHES = ("l1", "l2", "l3")
ANNOTATIONS = {"vec": "vectorised", "unroll": "unrolled", "parallel": "parallel"}
SCOPES = ("global", "shared", "local")

_ACCESS = {
    **{f"acc_type.{k}=": f"access: {k[1:]}" for k in ACCESS_TYPES},
    **{f"scope.{k}=": f"storage: {k}" for k in SCOPES},
    "bytes": "bytes accessed over all iterations, repetitions counted",
    "unique_bytes": "bytes accessed, each counted once",
    "lines": "cache lines moved over all iterations if only the last iteration's are kept",
    "unique_lines": "cache lines accessed, each counted once",
    **{f"reuse_type.{k}=": f"why an element is accessed again: {k[1:]}" for k in REUSE_TYPES},
    "reuse_dis_iter": "iterations between two accesses to an element",
    "reuse_dis_bytes": "bytes touched between two accesses to an element",
    "reuse_ct": "how often an element is accessed again",
    "bytes_d_reuse_ct": "bytes / reuse_ct",
    "lines_d_reuse_ct": "lines / reuse_ct",
    "stride": "elements between accesses of consecutive iterations of the innermost loop",
    "vec_stride": "elements between neighbouring lanes of a vector (else of the innermost loop)",
    "lanes.invariant=": "all lanes of a vector access one element",
    "lanes.contiguous=": "neighbouring lanes access neighbouring elements",
    "lanes.strided=": "neighbouring lanes access elements that are not neighbours",
    "run_bytes": "contiguous bytes of the region that is accessed",
    "sectors": "memory transactions of one warp (GPU, global memory)",
    "bank_conflicts": "most words of one bank accessed at a time (GPU, shared memory)",
}


def _annotation(kind: str) -> dict[str, str]:
    word = ANNOTATIONS[kind]
    return {
        f"{kind}_num": f"number of {word} loops around the store",
        f"{kind}_prod": f"product of the extents of the {word} loops",
        f"{kind}_len": f"extent of the innermost {word} loop",
        **{f"{kind}_type.{p}=": f"position of the {word} loops: {p[4:]}" for p in POSITIONS},
    }


def _operation(name: str) -> str:
    kind, _, what = name.partition("_")
    words = {
        "mad": "multiply-adds (a sum with a product)",
        "addsub": "additions and subtractions, multiply-adds left out",
        "mul": "multiplications, multiply-adds left out",
        "divmod": "divisions and remainders",
        "cmp": "comparisons, minima and maxima",
        "mathfunc": "calls of mathematical functions",
        "otherfunc": "other calls",
    }
    text = (
        f"{kind} {words[what]}"
        if what in words
        else {"bool": "and, or, not"}.get(kind, "selections")
    )
    return f"{text}, over all stores and iterations"


_CACHE_NAMES = {"l1": "L1", "l2": "L2", "l3": "L3"}
_WALKED = {
    **{
        f"walk_{c}_lines": f"lines moved into {_CACHE_NAMES[c]} in the loop order of the code"
        for c in CACHES
    },
    **{f"walk_{c}_runs": f"runs of neighbouring lines in walk_{c}_lines" for c in CACHES},
    "walk_tlb_pages": "pages that the first level of the TLB does not hold",
    "walk_stlb_pages": "pages that the second level of the TLB does not hold",
}

_GROUPS: dict[str, dict[str, str]] = {
    "computation": {
        **{name: _operation(name) for name in OP_COUNTERS},
        **_annotation("vec"),
        **_annotation("unroll"),
        **_annotation("parallel"),
        "parallel_balance=": "share of the threads that are busy when all chunks take equally long",
    },
    "buffer access": {
        f"B{b}.{name}": f"buffer {b} (the one with most lines is 0): {text}"
        for b in range(MAX_BUFFERS)
        for name, text in _ACCESS.items()
    },
    "locality": {
        **{f"{c}_traffic": f"bytes that move into {_CACHE_NAMES[c]}" for c in CACHES},
        **{f"{c}_iterations": f"iterations whose data fit {_CACHE_NAMES[c]}" for c in CACHES},
        **{
            f"{c}_intensity": f"operations per byte moved into {_CACHE_NAMES[c]}" for c in CACHES
        },
        "lanes_invariant=": "share of the accesses whose lanes access one element",
        "lanes_contiguous=": "share of the accesses whose lanes access neighbouring elements",
        "lanes_strided=": "share of the accesses whose lanes access other elements",
    },
    "walk": {
        **_WALKED,
        **{f"{name}_intensity": f"operations / {name}" for name in _WALKED},
        "walk_cycles": "predicted cycles of the busiest thread for the traffic of this group",
        "walk_cycles_per_op": "100 * walk_cycles / operations",
        "bound_cycles_per_op": "100 * the larger of compute_cycles and walk_cycles, per operation",
    },
    "arithmetic intensity": {
        f"arith_intensity_curve_{k}": f"float operations per byte where {k + 1}/10 of them are done"
        for k in range(CURVE_POINTS)
    },
    "registers": {
        "nest_depth": "loops around this store that the code generator arranges together",
        "nest_iterations": "iterations of that nest",
        "lanes=": "share of a vector register that the predicted lanes fill",
        "vec_excess": "vector registers that a vectorised loop needs",
        "folded=": "the predicted lanes run along the reduction",
        "gathers": "reads whose predicted lanes access elements that are not neighbours",
        "accumulators": "vectors of outputs that a register tile holds",
        "register_share=": "registers that the tile and its operands need, as a share of all",
        "tile_cycles": "10 * the predicted cycles for one vector of one iteration",
        "written_tile": "iterations of the loops inside the innermost reduction loop",
        "inner_len": "extent of the innermost loop",
        "inner_reduce=": "the innermost loop is a reduction",
        "inner_reduce_len": "extent of the innermost reduction loop",
        "unrolled_body": "iterations of the innermost loops that unroll together",
    },
    "predicates": {
        "guards": "conditions around the store",
        "guard_inner=": "there is a condition inside all loops",
        "guarded": "checks of conditions over all iterations",
        "within=": "least ratio of a dimension's extent to what loops reach along it, at most 1",
    },
    "gpu": {
        "is_gpu=": "1 on a GPU",
        "blocks": "thread blocks",
        "block_threads": "threads of a block",
        "vthreads": "virtual threads of a thread",
        "warp_fill=": "threads of a block, as a share of those that its warps have room for",
        "shared_bytes": "shared memory of a block",
        "local_bytes": "local storage of a thread",
        "occupancy=": "resident threads of a multiprocessor, as a share of its limit",
    },
    "allocation": {
        "alloc_size": "bytes allocated for the stored buffer",
        "alloc_prod": "elements allocated, times the loops around the allocation",
        "alloc_outer_prod": "product of the extents of the loops around the allocation",
        "alloc_inner_prod": "iterations of the store in one allocation",
    },
    "outer scope": {
        "outer_prod": "product of the extents of all loops around the store",
        "num_loops": "number of loops around the store",
        "auto_unroll_max_step": "the unroll pragma around the store",
    },
    "estimate": {
        "compute_cycles": "predicted cycles of the busiest thread if all data were in L1",
        "memory_cycles": "predicted cycles of the busiest thread to move its data",
        "cycles_per_op": "100 * predicted cycles / operations",
        "cycles_share=": "predicted cycles of this row, as a share of the program's",
        "ops_share=": "operations of this row, as a share of the program's",
        "iterations_share=": "iterations of this row, as a share of the program's",
    },
    "program": {
        "rows": "number of stored buffers of the program",
        "program_ops": "operations of the program",
        "program_cycles": "predicted cycles of the program",
        "program_memory": "predicted cycles of the program to move data",
        "program_cycles_per_op": "100 * predicted cycles of the program / operations",
        "program_traffic_l1": "bytes that the program moves into L1 / bytes that it must move",
        "program_traffic_l2": "bytes that the program moves into L2 / bytes that it must move",
        "program_alloc": "bytes of the program's intermediate buffers",
        "program_walk": "sum of the walk_cycles of all rows",
        "program_walk_per_op": "100 * program_walk / operations",
        "program_bound": "sum over all rows of the larger of compute_cycles and walk_cycles",
        "program_bound_per_op": "100 * program_bound / operations",
    },
}  # fmt: skip

_MARKED = [name for group in _GROUPS.values() for name in group]
GROUPS: dict[str, tuple[str, ...]] = {
    group: tuple(name.rstrip("=") for name in names) for group, names in _GROUPS.items()
}
COLUMNS: tuple[str, ...] = tuple(name.rstrip("=") for name in _MARKED)
SCALED: tuple[int, ...] = tuple(k for k, name in enumerate(_MARKED) if not name.endswith("="))
ACCESS_WIDTH = len(_ACCESS)
_MEANINGS = {name.rstrip("="): text for group in _GROUPS.values() for name, text in group.items()}


def meaning(column: str) -> str:
    """Describe `column` in one phrase."""
    return _MEANINGS[column]
