"""Compiles PTX instructions to Python source: copies, guarded loads, matrix fragments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from autosched.tir.buffer import Buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, StringImm, Var
from autosched.tir.float_bits import bits_type
from autosched.tir.interp_access import flat_index
from autosched.tir.interp_counts import AccessCount
from autosched.tir.interp_memory import InterpreterError
from autosched.tir.interp_value import ATOM
from autosched.tir.stmt import BufferStore, IfThenElse
from autosched.tir.warp_matrix import FRAGMENT_MAPS, FRAGMENT_SHAPE, FRAGMENTS, product_of
from autosched.tir.warpgroup_matrix import WGMMA_TILES, group_product_of

if TYPE_CHECKING:
    from autosched.tir.interp_stmt import StmtCompiler


def _inside(c: StmtCompiler, call: Call) -> None:
    if not c.in_kernel:
        raise InterpreterError(f"{call.op} outside of a kernel")


# -- copies and loads


def _cp_async(c: StmtCompiler, call: Call) -> None:
    _inside(c, call)
    target, to, source, at, size = call.args[:5]
    taken = c.expr(call.args[5]).text if len(call.args) > 5 else "True"
    if not isinstance(size, IntImm) or size.value not in (4, 8, 16):
        raise InterpreterError(f"ptx_cp_async copies 4, 8 or 16 bytes, found {size!r}")
    wide = size.value // call.dtype.bytes
    fields = []
    for pointer, offset in ((target, to), (source, at)):
        if not isinstance(pointer, Var) or pointer not in c.memory:
            raise InterpreterError(f"ptx_cp_async of an unknown pointer: {call!r}")
        memory, index = c.memory[pointer], c.expr(offset)
        text = f"{memory.storage(memory.dtype)}"
        if memory.dtype.element is not call.dtype.element:
            # Offsets into merged memory are in elements of that memory, which are bytes.
            part = call.dtype.bytes // memory.dtype.bytes
            text = f"{text}.view({c.constant(call.dtype.numpy)})"
            index = index._replace(text=f"in_elements({index.text}, {part}, {wide})", strength=ATOM)
        fields += [text, index.text]
    counted = f"({_counter(c, call, target, store=True)}, {_counter(c, call, source, store=False)})"
    c.emit(f"L.copies.start({', '.join(fields)}, {size.value}, {taken}, {counted}, {c.mask})")


def _commit_group(c: StmtCompiler, call: Call) -> None:
    _inside(c, call)
    c.emit(f"L.copies.commit({c.mask})")


def _wait_group(c: StmtCompiler, call: Call) -> None:
    _inside(c, call)
    c.emit(f"L.copies.wait({c.expr(call.args[0]).text}, {c.mask})")


def _ldg32(c: StmtCompiler, call: Call) -> None:
    """Compile ptx_ldg32 as the guarded load and store that it is."""
    _inside(c, call)
    pointer, condition, value, at = call.args
    if not isinstance(pointer, Var) or not isinstance(value, BufferLoad):
        raise InterpreterError(f"ptx_ldg32 takes a pointer, a condition, a load, a place: {call!r}")
    target = Buffer(pointer, value.dtype, (IntImm(1),), name=pointer.name)
    c.stmt(IfThenElse(condition, BufferStore(target, value, (at,))))


# -- matrices of a warp


def _ldmatrix(c: StmtCompiler, call: Call) -> None:
    _inside(c, call)
    transposed, number, _, target, to, source, at = call.args
    size = call.dtype.bytes
    if not isinstance(number, IntImm) or number.value not in (1, 2, 4):
        raise InterpreterError(f"ptx_ldmatrix loads 1, 2 or 4 matrices, found {number!r}")
    if not isinstance(transposed, IntImm) or (transposed.value and size != 2):
        raise InterpreterError(f"ptx_ldmatrix transposes elements of 2 bytes: {call!r}")
    if size not in (1, 2, 4):
        raise InterpreterError(f"ptx_ldmatrix moves elements of 1, 2 or 4 bytes: {call!r}")
    into = _place(c, call, target, call.dtype, to)
    out_of = _place(c, call, source, call.dtype, at)
    if scope_of(source) not in ("shared", "shared.dyn"):
        raise InterpreterError(f"ptx_ldmatrix loads shared memory: {call!r}")
    turned = bool(transposed.value)
    counted = _counter(c, call, source, store=False)
    c.emit(f"L.warps.load_rows({into}, {out_of}, {number.value}, {turned}, {counted}, {c.mask})")


def _mma(c: StmtCompiler, call: Call) -> None:
    _inside(c, call)
    product = product_of(call.args)
    if isinstance(product, str):
        raise InterpreterError(f"ptx_mma: {product}: {call!r}")
    atom = product.atom
    places = [
        _place(c, call, call.args[k], dtype, call.args[k + 1])
        for k, dtype in ((6, atom.left), (8, atom.right), (10, atom.result))
    ]
    fields = [c.constant(atom), *places, places[2], c.mask]
    c.emit(f"L.warps.multiply({', '.join(fields)})")


def _mma_fill(c: StmtCompiler, call: Call) -> None:
    """Compile ptx_mma_fill: set the values of each lane, from an offset on, to zero."""
    _inside(c, call)
    count, data, at = call.args
    if not isinstance(count, IntImm):
        raise InterpreterError(
            f"ptx_mma_fill needs a constant number of values, found {count}: {call!r}"
        )
    c.emit(f"L.warps.zero({_place(c, call, data, call.dtype, at)}, {count.value}, {c.mask})")


def _mma_store(c: StmtCompiler, call: Call) -> None:
    """Compile ptx_mma_store: store a result to rows of memory `stride` elements apart."""
    _inside(c, call)
    target, to, stride, source, at = call.args
    into = _place(c, call, target, call.dtype, to)
    out_of = _place(c, call, source, call.dtype, at)
    counted = _counter(c, call, target, store=True)
    fields = [out_of, into, c.expr(stride).text, counted, c.mask]
    c.emit(f"L.warps.store_result({', '.join(fields)})")


def _wgmma(c: StmtCompiler, call: Call) -> None:
    _inside(c, call)
    product = group_product_of(call.args)
    if isinstance(product, str):
        raise InterpreterError(f"ptx_wgmma: {product}: {call!r}")
    if any(scope_of(call.args[k]) not in ("shared", "shared.dyn") for k in WGMMA_TILES):
        raise InterpreterError(f"ptx_wgmma multiplies tiles in shared memory: {call!r}")
    kinds = (call.dtype, product.left, product.right)
    places = [
        _place(c, call, call.args[k], dtype, call.args[k + 1])
        for k, dtype in zip((5, *WGMMA_TILES), kinds, strict=True)
    ]
    c.emit(f"L.groups.multiply({c.constant(product)}, {', '.join(places)}, {c.mask})")


def _wgmma_wait(c: StmtCompiler, call: Call) -> None:
    _inside(c, call)
    (pending,) = call.args
    if not isinstance(pending, IntImm):
        raise InterpreterError(f"ptx_wgmma_wait needs a constant number, found {pending}: {call!r}")
    c.emit(f"L.groups.wait({pending.value})")


def _counter(c: StmtCompiler, call: Call, pointer: Expr, store: bool) -> str:
    """The text of the Counter of a call's accesses through `pointer`: (count, scope), or None."""
    watch = c.run.watch
    if watch is None or not watch.counting or c.current is None:
        return "None"
    count = watch.counts.setdefault((c.current, _name_of(pointer), store), AccessCount())
    return f"({c.constant(count)}, {scope_of(pointer) or 'global'!r})"


def _fill_fragment(c: StmtCompiler, call: Call) -> None:
    _inside(c, call)
    value = c.expr(call.args[5])
    _, fragment = _fragment(c, call, 0, 4)
    _check_shape(call)
    c.emit(f"L.warps.fill({fragment}, {value.text}, {c.mask})")


def _move_fragment(c: StmtCompiler, call: Call) -> None:
    _inside(c, call)
    scope, fragment = _fragment(c, call, 0, 4)
    _check_shape(call)
    data = call.args[0]
    assert isinstance(data, Var) and data.element is not None
    memory = _place(c, call, call.args[5], data.element, IntImm(0))
    stride, layout = c.expr(call.args[6]).text, call.args[7]
    named = layout.value if isinstance(layout, StringImm) else ""
    if named not in ("row_major", "col_major"):
        raise InterpreterError(f"{call.op}: the layout is row_major or col_major: {call!r}")
    steps = f"({stride}, 1)" if named == "row_major" else f"(1, {stride})"
    does = "load" if call.op == "tvm_load_matrix_sync" else "store"
    c.emit(f"L.warps.{does}({scope!r}, {fragment}, {memory}, {steps}, {c.mask})")


def _mma_fragments(c: StmtCompiler, call: Call) -> None:
    _inside(c, call)
    places, types = [], []
    for k, wanted in ((0, "accumulator"), (2, "matrix_a"), (4, "matrix_b"), (6, "accumulator")):
        scope, place = _fragment(c, call, k, k + 1, values=8)
        if scope != f"wmma.{wanted}":
            raise InterpreterError(f"argument {k} of {call.op} must be wmma.{wanted}: {call!r}")
        places.append(place)
        data = call.args[k]
        assert isinstance(data, Var)
        types.append(str(data.element))
    atom = FRAGMENTS.get(types[1])
    if atom is None or types[1] != types[2] or {types[0], types[3]} != {"float32"}:
        raise InterpreterError(f"{call.op} of {', '.join(types)} is not known: {call!r}")
    d, a, b, acc = places
    c.emit(f"L.warps.multiply({c.constant(atom)}, {a}, {b}, {acc}, {d}, {c.mask})")


def scope_of(pointer: Expr) -> str:
    """The storage scope that a pointer, or the address of an element, points to."""
    match pointer:
        case Var():
            return pointer.scope
        case Call(op="address_of", args=(BufferLoad() as load,)):
            return load.buffer.scope
        case Call(op="tvm_access_ptr", args=(_, Var() as data, *_)):
            return data.scope
    return ""


def _name_of(pointer: Expr) -> str:
    match pointer:
        case Var():
            return pointer.name
        case Call(op="address_of", args=(BufferLoad() as load,)):
            return load.buffer.name
        case Call(op="tvm_access_ptr", args=(_, Var() as data, *_)):
            return data.name
    return ""


def _place(c: StmtCompiler, call: Call, pointer: Expr, dtype: DType, offset: Expr) -> str:
    """The text (storage, index) of the element `offset` elements of `dtype` after a pointer."""
    match pointer:
        case Var() if pointer in c.memory:
            memory = c.memory[pointer]
            storage, base = memory.storage(memory.dtype), None
            found = memory.dtype.element
        case Call(op="address_of", args=(BufferLoad() as load,)):
            place = c.place(load.buffer)
            storage, base = place.storage, flat_index(c, place, load.indices).text
            found = load.buffer.dtype.element
        case Call(op="tvm_access_ptr", args=(kind, Var() as data, at, *_)) if data in c.memory:
            memory = c.memory[data]
            view = c.constant(kind.dtype.numpy)
            storage, base = f"{memory.storage(memory.dtype)}.view({view})", c.expr(at).text
            found = kind.dtype.element
        case _:
            raise InterpreterError(f"{call.op} of an unknown pointer {pointer!r}: {call!r}")
    if found is not dtype:
        if base is not None and found is not bits_type(dtype):
            raise InterpreterError(
                f"{call.op} takes {dtype} behind {pointer!r}, found {found}: {call!r}"
            )
        storage = f"{storage}.view({c.constant(dtype.numpy)})"
    index = c.expr(offset).text
    return f"({storage}, {index if base is None else f'{base} + ({index})'})"


def _fragment(c: StmtCompiler, call: Call, k: int, at: int, values: int = 1) -> tuple[str, str]:
    """The scope of a fragment's memory, and the text (storage, fragment number * `values`).

    Argument `k` of the call is the memory, argument `at` the number of the fragment.
    """
    data, number = call.args[k], call.args[at]
    if not isinstance(data, Var) or data not in c.memory or data.scope not in FRAGMENT_MAPS:
        raise InterpreterError(f"argument {k} of {call.op} must be a fragment: {call!r}")
    memory = c.memory[data]
    index = c.expr(number).text
    times = "" if values == 1 else f" * {values}"
    return data.scope, f"({memory.storage(memory.dtype)}, ({index}){times})"


def _check_shape(call: Call) -> None:
    shape = tuple(e.value for e in call.args[1:4] if isinstance(e, IntImm))
    if shape != FRAGMENT_SHAPE:
        raise InterpreterError(f"{call.op}: fragments are of 16 x 16 x 16, found {shape}: {call!r}")


TYPED_POINTERS = {"ptx_cp_async": (0, 2), "ptx_ldg32": (0,), "ptx_ldmatrix": (3, 5)}
"""The arguments of calls that are pointers to elements of the call's type."""

PTX_CALLS: dict[str, Callable[[StmtCompiler, Call], None]] = {
    "ptx_cp_async": _cp_async,
    "ptx_commit_group": _commit_group,
    "ptx_wait_group": _wait_group,
    "ptx_ldg32": _ldg32,
    "ptx_ldmatrix": _ldmatrix,
    "ptx_mma": _mma,
    "ptx_mma_fill": _mma_fill,
    "ptx_mma_store": _mma_store,
    "ptx_wgmma": _wgmma,
    "ptx_wgmma_wait": _wgmma_wait,
    "tvm_fill_fragment": _fill_fragment,
    "tvm_load_matrix_sync": _move_fragment,
    "tvm_store_matrix_sync": _move_fragment,
    "tvm_mma_sync": _mma_fragments,
}
