"""Buffer-access features and arithmetic intensity of one store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autosched.features.ansor.names import CURVE_POINTS, REUSE_TYPES
from autosched.features.ansor.stride import stride_along
from autosched.features.walk.access import ACCESS_TYPES
from autosched.features.walk.regions import first_extents, touch
from autosched.features.walk.scope import Access, Loop, f32

LOOP_MULTIPLE_READ, SERIAL_MULTIPLE_READ_WRITE, NO_REUSE = REUSE_TYPES


@dataclass(slots=True)
class AccessFeatures:
    """The features of one buffer slot, unscaled."""

    kind: str
    bytes: float
    unique_bytes: float
    lines: float
    unique_lines: float
    reuse_type: str
    reuse_dis_iter: float
    reuse_dis_bytes: float
    reuse_ct: float
    stride: float

    def columns(self) -> list[float]:
        """The 18 columns of a slot, in the order of `names`."""
        totals = (self.bytes, self.unique_bytes, self.lines, self.unique_lines)
        if self.reuse_ct > 0.5:
            per_reuse = [f32(x / self.reuse_ct) for x in totals]
        else:
            per_reuse = [f32(x * 2) for x in totals]
        return [
            *(float(self.kind == k) for k in ACCESS_TYPES),
            *totals,
            *(float(self.reuse_type == k) for k in REUSE_TYPES),
            self.reuse_dis_iter,
            self.reuse_dis_bytes,
            self.reuse_ct,
            *per_reuse,
            self.stride,
        ]


def analyse_store(
    accesses: Sequence[Access],
    loops: Sequence[Loop],
    outer_prod: float,
    float_ops: int,
    cache_line_bytes: int,
) -> tuple[list[AccessFeatures], list[float]]:
    """Slots of all accesses, unsorted, and the arithmetic-intensity curve.

    `accesses` are in Ansor's order (the stored buffer last), `loops` outermost first,
    `outer_prod` is the product of their extents, `float_ops` the float operations of one store.
    The touch tables of the loops gain this store's entries.
    """
    memory, regions = touch(accesses, loops)
    # Quirk of `ansor-0.19`: the contiguity of every buffer is judged by the stored buffer's region.
    last_region = regions[-1]
    slots = [
        _access(access, loops, outer_prod, last_region, cache_line_bytes) for access in accesses
    ]
    return slots, intensity_curve(float_ops, memory, loops)


def _access(
    access: Access,
    loops: Sequence[Loop],
    outer_prod: float,
    last_region: Sequence[int],
    cache_line_bytes: int,
) -> AccessFeatures:
    eb = access.info.bytes
    reuse_type, dis_iter, dis_bytes, count = reuse_of(access, loops)
    result = AccessFeatures(
        access.kind,
        f32(outer_prod * eb),
        float(eb),
        1.0,
        1.0,
        reuse_type,
        dis_iter,
        dis_bytes,
        count,
        0.0,
    )
    if not loops:
        return result
    shape = access.info.shape
    result.unique_bytes = f32(f32(loops[0].table[access.data][0][0]) * eb)
    stride, ratio = 0, 1
    for i in range(len(loops) - 1, -1, -1):
        stride = stride_along(access.indices, shape, loops[i].var)
        if stride != 0:
            result.stride = float(stride) if i == len(loops) - 1 else 0.0
            break
        ratio *= loops[-1].extent  # quirk: always the innermost extent
    fraction = min(1.0, f32(f32(f32(stride) * eb) / cache_line_bytes))
    result.lines = max(1.0, f32(f32(outer_prod / f32(ratio)) * fraction))
    contiguous = float(eb)
    for d in range(min(len(last_region), len(shape)) - 1, -1, -1):
        if last_region[d] == (shape[d] or 1):
            contiguous = f32(contiguous * last_region[d])
            break
    result.unique_lines = max(
        1.0, f32(result.unique_bytes / min(contiguous, float(cache_line_bytes)))
    )
    return result


def reuse_of(access: Access, loops: Sequence[Loop]) -> tuple[str, float, float, float]:
    """Reuse type, reuse distance in iterations and bytes, and reuse count, from the touch
    tables."""
    dis_iter, dis_bytes = 1.0, -1.0
    for loop in reversed(loops):
        table = loop.table
        if loop.var not in access.used:
            if dis_bytes < 0:
                dis_bytes = 0.0
                for entries in table.values():
                    for _, eb in entries:
                        dis_bytes = f32(dis_bytes + eb)
            return LOOP_MULTIPLE_READ, dis_iter, dis_bytes, float(loop.extent)
        dis_iter = f32(dis_iter * loop.extent)
        dis_bytes = _table_bytes(loop)
        mine = table[access.data]
        if len(mine) > 1:
            nearest = float(min(size for size, _ in mine))
            return (
                SERIAL_MULTIPLE_READ_WRITE,
                f32(nearest / loop.extent),
                f32(dis_bytes / loop.extent),
                float(len(mine) - 1),
            )
    return NO_REUSE, 0.0, 0.0, 0.0


def _table_bytes(loop: Loop) -> float:
    total = 0.0
    for entries in loop.table.values():
        for size, eb in entries:
            total = f32(total + f32(size * eb))
    return total


def intensity_curve(float_ops: int, memory: Sequence[int], loops: Sequence[Loop]) -> list[float]:
    """Operations per byte where k/10 of the operations are done, for k = 1..10.

    0 where the bytes are: an extent of 2**31 is 0 elements as an int32 (Ansor divides by them).
    """
    ops = float(float_ops)
    op_list: list[float] = []
    for extent in reversed(first_extents(loops)):
        ops *= extent
        op_list.append(f32(ops))
    if ops <= 0 or not loops:
        return [0.0] * CURVE_POINTS
    intensity = [f32(o / f32(m)) if m else 0.0 for o, m in zip(op_list, memory, strict=True)]
    curve = []
    at = 0
    for k in range(1, CURVE_POINTS + 1):
        x = f32(f32(op_list[-1] * f32(k)) / 10)
        while at + 1 < len(op_list) and op_list[at] < x - 1e-4:
            at += 1
        if at == 0:
            curve.append(intensity[0])
            continue
        rise = f32(intensity[at] - intensity[at - 1])
        gap = f32(op_list[at] - op_list[at - 1])  # 0 for a thread axis that runs once
        slope = f32(rise / (gap or 1.0))
        curve.append(f32(intensity[at - 1] + f32(slope * f32(x - op_list[at - 1]))))
    return curve
