"""UseInstruction: compute reductions by a tensor instruction of the target.

One sketch for each tile of accumulators that fits the registers. For C = A * B with the
instruction vpdpbusd and a tile of 6 x 4 calls:

    B.pack = ...                                  packed, at the root; the search may move it inside
    for m.0, n.0, m.1, n.1:                       tiles, sizes open
      for k: for 6 x 4: C.tile += vpdpbusd        unrolled: accumulators stay in registers
      for 6 x 4 x 16: C = C.tile                  and what is computed from C, element by element

Signed bytes of A are packed with 128 added. What this adds to the columns of a block is computed
once before the rows of the block; where images or batches are around the rows, once for all of
them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from autosched.errors import ScheduleError
from autosched.search.rules.instruction_tiles import few_registers, tiles_of, tiles_over_rows
from autosched.search.rules.protocol import Context, Decision, FunctionRule, Next
from autosched.state import queries
from autosched.state.iterator import Annotation, IterKind
from autosched.state.state import State
from autosched.state.steps import AnnotationStep, InstructionStep, SplitStep, Step
from autosched.te.intrin.instruction import Instruction
from autosched.te.intrin.operand import is_computed
from autosched.te.intrin.product import Product, as_product, extent
from autosched.te.intrin.registry import statements
from autosched.te.intrin.turn import WORDS, turn_of
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.operation import ComputeOp, PlaceholderOp
from autosched.te.schedule.use_instruction import (
    can_pack,
    instruction_of,
    reads_in_place,
)
from autosched.tir.expr import (
    Call,
    CompareExpr,
    Expr,
    FloorMod,
    IntImm,
    IterVar,
    ProducerLoad,
    Select,
    Var,
)
from autosched.tir.walk import free_vars, loads, pre_order

_LARGE = 1 << 16
"""From so many multiply-adds on no other sketch is tried: an instruction does them several times as
fast, which a cost model that has seen none does not predict."""
_MANY_ROWS = 256
"""From so many rows of a product on, packing B in each thread pays for itself."""
_STEPS = 2
"""Steps of the reduction that are unrolled where tiles are small: the loop takes a tenth of the
instructions of one step."""
_PRODUCTS_FOR_A_COPY = 16
"""About so many multiply-adds by an instruction take as long as packing one element."""
_PRODUCTS_FOR_A_VALUE = 32
"""The same for an element that is computed: at 512 columns and terms, weights of bytes as bfloat16
take 1.3 times as long with an instruction for 16 rows, 0.6 for 24."""
_FEW_ROWS, _LARGE_B = 64, 1 << 18
"""Limits of `_columns_first`: rows of an image, and bytes of B."""


def _product(context: Context, state: State, stage_id: int) -> tuple[Product, Instruction] | None:
    op = state.stages[stage_id].op
    if not isinstance(op, ComputeOp) or instruction_of(op) is not None:
        return None
    found = [(product, it) for it in context.instructions if (product := as_product(op, it))]
    # What is computed fits several types, and is packed slower than what is copied.
    for product, it in sorted(found, key=lambda each: each[0].computed()):
        # A result narrower than one call leaves most of it idle.
        if it.mixes_rows or _widened_already(product, it):
            continue
        if extent(product.n) >= it.extent("n"):
            tiles = tiles_of(product, it)
            if tiles and all(_reads(product, it, rows) for rows, _ in tiles):
                return product, it
    return None


def _widened_already(product: Product, it: Instruction) -> bool:
    """Whether a stage computes A, float32 already, although the instruction reads bfloat16.

    Stages of bfloat16 are computed and kept as float32.
    """
    staged = isinstance(product.a.producer.op, ComputeOp) and not is_computed(product.a)
    return staged and it.extent("k") == 1 and it.a.dtype.name == "bfloat16"


def _reads(product: Product, it: Instruction, rows: int) -> bool:
    if _packs_much(product, product.b):
        return False
    return reads_in_place(product, it, rows) or _can_pack_a(product, it)


def _can_pack_a(product: Product, it: Instruction) -> bool:
    return can_pack(product, it) and not _packs_much(product, product.a)


def _packs_much(product: Product, load: ProducerLoad) -> bool:
    """Whether what need not be packed takes longer to pack than the product.

    Of an operand of which data choose parts, experts of a mixture or rows of a table, that is what
    nothing reads; of a computed one all, as other sketches compute it where they multiply it.
    """
    axes = product.op.root_iter_vars
    held = math.prod(e.value for e in load.producer.shape if isinstance(e, IntImm))
    products = math.prod(map(extent, axes))
    if is_computed(load):
        return held > products // _PRODUCTS_FOR_A_VALUE
    if all(next(loads(index), None) is None for index in load.indices):
        return False
    read = math.prod(extent(iv) for iv in axes if _indexes(load, iv.var))
    return held - read > products // _PRODUCTS_FOR_A_COPY


def _condition(context: Context, state: State, stage_id: int) -> Decision:
    if queries.is_tiled(state, stage_id) or queries.has_cache_write(state, stage_id):
        return Decision.SKIP
    if not _states(context, state, stage_id):
        return Decision.SKIP
    op, found = state.stages[stage_id].op, _product(context, state, stage_id)
    if found is None or found[1].extent("k") == 1 or _has_holes(found[0]):
        return Decision.APPLY  # other sketches do the same arithmetic, or less of it
    work = math.prod(map(extent, op.root_iter_vars))
    return Decision.APPLY if work < _LARGE else Decision.APPLY_AND_SKIP_REST


def _has_holes(product: Product) -> bool:
    """Whether an operand is 0 where a condition of several axes or of a remainder says so.

    Loops leave out the terms that this makes 0, an instruction multiplies them: three quarters of a
    transposed convolution, half of a triangle. A border, a condition of one axis, is small.
    """
    made = [load.producer.op for load in (product.a, product.b)]
    bodies = [body for op in made if isinstance(op, ComputeOp) for body in op.body]
    chosen = (e for body in bodies for node in pre_order(body) for e in _conditions(node))
    return any(
        isinstance(e, FloorMod) or (isinstance(e, CompareExpr) and len(free_vars(e)) > 1)
        for condition in chosen
        if next(loads(condition), None) is None
        for e in pre_order(condition)
    )


def _conditions(e: Expr) -> tuple[Expr, ...]:
    """The condition by which `e` chooses between two values."""
    match e:
        case Select(condition) | Call("if_then_else", (condition, *_)):
            return (condition,)
    return ()


def _apply(context: Context, state: State, stage_id: int) -> Next:
    return [(made, stage_id - 1) for made in _states(context, state, stage_id)]


@lru_cache(maxsize=1)  # `_condition` calls it first, `_apply` right after it
def _states(context: Context, state: State, stage_id: int) -> tuple[State, ...]:
    """The sketches: one for each tile of the instruction, and way of packing A, that lowers."""
    found = _product(context, state, stage_id)
    if found is None:
        return ()
    product, it = found
    ways = [
        (tile, pack_a, False)
        for tile in tiles_of(product, it)
        for pack_a in _packings(product, it, tile[0])
    ]
    if _can_pack_a(product, it):
        ways = [*((tile, True, True) for tile in tiles_over_rows(product, it)), *ways]
    made = (_tiled(state, stage_id, product, it, *way) for way in ways)
    return tuple(each for each in made if _can_be_lowered(context, each))


def _can_be_lowered(context: Context, state: State) -> bool:
    """Whether the instruction matches the statements, if all open lengths are 1."""
    steps = [
        step.with_lengths(tuple([length or 1 for length in step.lengths]))
        if isinstance(step, SplitStep)
        else step
        for step in state.steps
    ]
    try:
        schedule_to_prim_func(*context.dag.apply_steps(steps))
    except ScheduleError:
        return False
    return True


USE_INSTRUCTION = FunctionRule("UseInstruction", _condition, _apply)


def _packings(product: Product, it: Instruction, rows: int) -> list[bool]:
    """Whether A is packed: the only way possible, or both where rows of a tile lie far apart."""
    plain = isinstance(product.a.producer.op, PlaceholderOp)
    in_place = plain and reads_in_place(product, it, rows)
    both = it.extent("m") > 1 and _can_pack_a(product, it)
    return [False, True] if in_place and both else [not in_place]


def _tiled(
    state: State,
    stage_id: int,
    product: Product,
    it: Instruction,
    tile: tuple[int, int],
    pack_a: bool,
    over: bool,
) -> State:
    rows, columns = tile
    target = queries.has_single_elementwise_matched_consumer(state, stage_id)
    state = _border_inlined(state, product, pack_a)
    state, tiles = state.use_instruction(stage_id, it.name, rows, columns, pack_a, over)
    if pack_a and it.extent("m") > 1:
        # Rows a power of two apart fall into the same few sets of the cache.
        line = 64 // it.a.dtype.bytes
        state = state.storage_align(stage_id, state.stages[stage_id].iters[-2], 2 * line, line)
    height = it.extent("m")
    copy = tiles + 1 + (height > 1)
    if target >= 0:
        state = state.compute_inline(copy)
        target += copy - stage_id
    else:
        target = copy
    above = product.over() if over else None
    m, h = (product.op.axis.index(iv) if iv else -1 for iv in (product.m, above))
    iters = state.stages[target].iters
    others = [it_ for k, it_ in enumerate(iters) if k not in (m, h, len(iters) - 1)]
    stored = height > 1 and target == copy and _stores_whole(product, it, tile, above)
    if above is None:
        state, (down, inner_m) = state.split(target, iters[m], [rows * height])
        inner = [inner_m]
    else:
        state, (down, inner_m) = state.split(target, iters[h], [rows])
        inner = [inner_m, iters[m]]
    last, width = state.stages[target].iters[-1], columns * it.extent("n")
    lengths = [width] if stored else [columns, it.extent("n")]
    state, (across, *inner_n) = state.split(target, last, lengths)
    state = _tensorized(state, tiles, _STEPS if few_registers(it) else 1)
    for before in range(stage_id, tiles):
        if instruction_of(state.stages[before].op) is not None:
            state = _tensorized(_in_words(state, before, it, columns), before)
    state, (m0, m1) = state.split(target, down, [None])
    state, (n0, n1) = state.split(target, across, [None])
    if _columns_first(product, it):
        outer = [n0, *others, m0, n1, m1]
    elif _share_rows(product, it):
        outer = [*others, m0, n0, m1, n1]
    else:
        outer = [*others, n0, m0, n1, m1]
    state = state.reorder(target, [*outer, *inner, *inner_n])
    if stored:
        state = _annotated(state.compute_inline(tiles + 1), target, inner_m.name)
    elif height > 1:
        state = _tensorized(state, tiles + 1).compute_at(tiles + 1, target, outer[-1])
    else:
        # Sums stay in registers if they are read at constant indices.
        for unrolled in (inner_m, inner_n[0]):
            state, _ = state.unroll(target, unrolled)
    if it.offset and math.prod(map(extent, product.others()[0])) == 1:
        state = state.compute_at(tiles - 1, target, n0)  # once for the columns of a block
    return state.compute_at(tiles, target, outer[-1])


def _share_rows(product: Product, it: Instruction) -> bool:
    """Whether threads divide the rows of tiles among them, so that each packs B for itself.

    Threads that divide columns write parts of the same pages of the result, and each core
    prefetches what the other one writes: 0.057 ms instead of 0.038 for 512 x 512 x 512 bytes with B
    packed ahead. For few rows, packing B in each thread does not pay off, least of all where B is
    turned.
    """
    if it.extent("m") == 1:
        return True
    by_columns = {var for index in product.b.indices for var in free_vars(index)}
    rows = [iv for iv in (*product.others()[0], product.m) if iv.var not in by_columns]
    turned = product.b.indices[-1] is product.k.var
    return math.prod(map(extent, rows)) >= (2 if turned else 1) * _MANY_ROWS


def _columns_first(product: Product, it: Instruction) -> bool:
    """Whether the loop over blocks of columns is around the loops over images and their rows.

    Otherwise, where rows are few and B is larger than half a second cache, the rows of each image
    read all of B from the third cache again, half of it packed by the other core: on a Zen 4, whose
    second cache has 1 MiB, int8 conv2d 14x14x256 took 0.37 to 0.40 ms instead of 0.26.
    """
    if it.extent("m") > 1 or not product.others()[0]:
        return False
    columns = [iv.var for iv in product.op.axis if _indexes(product.b, iv.var)]
    size = math.prod(extent(iv) for iv in (product.n, product.k, *product.others()[1]))
    alone = columns == [product.n.var]
    return alone and extent(product.m) < _FEW_ROWS and size * it.b.held.bytes > _LARGE_B


def _indexes(load: ProducerLoad, var: Var) -> bool:
    return any(var in free_vars(index) for index in load.indices)


def _border_inlined(state: State, product: Product, pack_a: bool) -> State:
    """Inline A into its packing, if it is a copy with a border, so that it is copied once."""
    source = product.a.producer.op
    if not pack_a or not isinstance(source, ComputeOp) or source.reduce_axis:
        return state
    if is_computed(product.a):  # no stage
        return state
    number = next(k for k, stage in enumerate(state.stages) if stage.op is source)
    one_reader = queries.single_consumer_id(state, number) >= 0
    inlined = state.stages[number].is_inlined or queries.is_output(state, number)
    return state.compute_inline(number) if one_reader and not inlined else state


def _stores_whole(
    product: Product, it: Instruction, tile: tuple[int, int], above: IterVar | None
) -> bool:
    """Whether tiles are stored to the result directly: they divide its rows and columns."""
    sizes = extent(product.m), extent(product.n)
    calls = it.extent("m"), it.extent("n")
    if above is not None:
        axes = product.op.axis
        beside = len(axes) > 2 and axes[-3] is above and axes[-2] is product.m
        return beside and sizes[0] == calls[0] and sizes[1] % (calls[1] * tile[1]) == 0
    whole = all(
        size % (call * count) == 0 for size, call, count in zip(sizes, calls, tile, strict=True)
    )
    return whole and product.op.axis[-2] is product.m


def _in_words(state: State, stage_id: int, it: Instruction, columns: int) -> State:
    """Split the steps of B's packing by sixteen, if it turns (transposes) vectors of words."""
    stage = state.stages[stage_id]
    turn = statements(it.name).get(turn_of(columns))
    if turn is None or instruction_of(stage.op) is not turn:
        return state
    return state.split(stage_id, stage.iters[-3], [WORDS])[0]


def _tensorized(state: State, stage_id: int, steps: int = 1) -> State:
    """Tensorize the innermost loops of the stage by its instruction, and unroll those of a tile.

    `steps` of the reduction are unrolled, too, where they divide it.
    """
    op = state.stages[stage_id].op
    intrin = instruction_of(op)
    assert intrin is not None and isinstance(op, ComputeOp) and isinstance(intrin.op, ComputeOp)
    inside = len(intrin.op.axis)
    iters = state.stages[stage_id].iters
    reduce = [it for it in iters if it.kind is IterKind.REDUCTION]
    spatial = [it for it in iters if it.kind is not IterKind.REDUCTION]
    first = len(spatial) - inside
    if reduce:
        tile = [it for it in spatial[:first] if it.name in ("mt", "nt")]
        outer = spatial[: first - len(tile)]
        held = len(intrin.op.reduce_axis)
        done = [*spatial[first:], *reduce[len(reduce) - held :]]
        around = reduce[: len(reduce) - held]
        if steps > 1 and (around[-1].extent or 1) % steps == 0:
            state, around[-1:] = state.split(stage_id, around[-1], [steps])
            tile = [around.pop(), *tile]
        state = state.reorder(stage_id, [*outer, *around, *tile, *done])
        for it in tile:
            state, _ = state.unroll(stage_id, it)
    return _annotated(state, stage_id, spatial[first].name)


def _annotated(state: State, stage_id: int, name: str) -> State:
    """Tensorize the loop of the stage that is called `name`."""
    names = [it.name for it in state.stages[stage_id].iters]
    return state.apply(AnnotationStep(stage_id, names.index(name), Annotation.TENSORIZE))


def fixed_splits(steps: Sequence[Step]) -> frozenset[int]:
    """The indices of splits by the tile of an instruction, whose lengths must not change.

    They stand between its InstructionStep and the first tensorized loop, or make a tensorized loop
    (`_in_words`).
    """
    fixed: set[int] = set()
    inside = False
    for k, step in enumerate(steps):
        if isinstance(step, InstructionStep):
            inside = True
        elif isinstance(step, AnnotationStep) and step.annotation is Annotation.TENSORIZE:
            inside = False
            before = steps[k - 1]
            if isinstance(before, SplitStep) and before.stage_id == step.stage_id:
                fixed.add(k - 1)
        elif inside and isinstance(step, SplitStep):
            fixed.add(k)
    return frozenset(fixed)
