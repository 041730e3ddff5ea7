"""Calls that are instructions of PTX: guarded loads, asynchronous copies, tensor cores."""

from __future__ import annotations

from autosched.codegen.cuda_memory import address_of
from autosched.codegen.cuda_types import is_half, memory_type
from autosched.codegen.cuda_writer import Handler, Text, Writer
from autosched.errors import CompileError
from autosched.tir.constants import is_zero
from autosched.tir.dtype import DType, float32
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, StringImm, Var
from autosched.tir.float_bits import bits_type
from autosched.tir.op import add, const, mul
from autosched.tir.warp_matrix import FRAGMENT_SHAPE, FRAGMENT_VALUES, product_of, short_names
from autosched.tir.warpgroup_matrix import WGMMA_TILES, group_product_of

READ_POINTERS = {
    "ptx_cp_async": (2,),
    "ptx_ldg32": (2,),
    "ptx_ldmatrix": (5,),
    "ptx_mma": (6, 8),
    "ptx_mma_store": (3,),
    "ptx_wgmma": WGMMA_TILES,
    "tvm_load_matrix_sync": (5,),
}
"""By call, the positions of the pointer arguments that the call only reads through."""


def _ldg32(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    target, condition, load, at = e.args
    if not isinstance(load, BufferLoad):
        raise CompileError(f"ptx_ldg32 takes a load, found {load!r}")
    to = f"&{_element(w, target, at, load.dtype)}"
    return w.call("ldg32", to, w.text(condition), address_of(w, load).text)


def _cp_async(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    target, to, source, at, size = e.args[:5]
    w.use("cp_async")
    bytes_ = _constant(e, size)
    where = f"&{_element(w, target, to, None)}"
    if len(e.args) == 5:
        return Text(f"cp_async<{bytes_}>({where}, &{_element(w, source, at, None)}, true)")
    base = _pointer(w, source)[0]
    return Text(f"cp_async_if<{bytes_}>({where}, {base}, {w.text(at)}, {w.text(e.args[5])})")


def _commit(w: Writer, e: Expr) -> Text:
    w.use("cp_async_groups")
    return Text("cp_async_commit()")


def _wait(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    w.use("cp_async_groups")
    return Text(f"cp_async_wait<{_constant(e, e.args[0])}>()")


# -- matrices of a warp -----------------------------------------------------------------------

_FRAGMENT = {
    "wmma.matrix_a": "fragment_a",
    "wmma.matrix_b": "fragment_b",
    "wmma.accumulator": "fragment_c",
}


def _ldmatrix(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    transposed, number, _, target, to, source, at = e.args
    part = f"ldmatrix_x{_constant(e, number)}"
    w.use(part)
    turned = "true" if _constant(e, transposed) else "false"
    into = f"&{_element(w, target, to, e.dtype)}"
    return Text(f"{part}<{turned}>({into}, {_address(w, source, at, e.dtype)})")


def _mma(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    product = product_of(e.args)
    if isinstance(product, str):
        raise CompileError(f"ptx_mma: {product}: {e!r}")
    atom = product.atom
    kinds = (atom.left, atom.right, atom.result)
    for k, wanted in zip((6, 8, 10), kinds, strict=True):
        found = _pointer(w, e.args[k])[1]
        as_bits = wanted.is_float and wanted.bits == 16 and found is bits_type(wanted)
        if found is not wanted and not as_bits:
            raise CompileError(f"argument {k} of ptx_mma holds {found}, not {wanted}: {e!r}")
    a, b, c = (f"&{_element(w, e.args[k], e.args[k + 1], None)}" for k in (6, 8, 10))
    return w.call(f"mma_{product.name}", a, b, c)


def _wgmma(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    product = group_product_of(e.args)
    if isinstance(product, str):
        raise CompileError(f"ptx_wgmma: {product}: {e!r}")
    if not product.swizzled:
        raise CompileError(f"wgmma reads tiles that SwizzleShared swizzled: {e!r}")
    kinds = (product.left, product.right)
    short = "_".join(short_names(*(str(getattr(x, "value", "")) for x in e.args[1:3])))
    name = f"wgmma_n{product.columns}_{short}"
    w.use(name)
    c = f"&{_element(w, e.args[5], e.args[6], None)}"
    places = zip(WGMMA_TILES, kinds, strict=True)
    a, b = (_address(w, e.args[k], e.args[k + 1], dtype) for k, dtype in places)
    by_rows, by_columns = product.layout_a == "mk", product.layout_b == "kn"
    slab = product.slab * product.left.bytes
    words = (str(by_rows).lower(), str(by_columns).lower(), str(slab), str(product.pending))
    return Text(f"{name}<{', '.join(words)}>({c}, {a}, {b})")


def _wgmma_wait(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    w.use("wgmma_wait")
    return Text(f"wgmma_wait<{_constant(e, e.args[0])}>()")


def _lane_id(w: Writer, e: Expr) -> Text:
    return w.call("lane_of_warp")


def _mma_fill(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    count, data, at = e.args
    name, _ = _pointer(w, data)
    w.use("mma_fill")
    return Text(f"mma_fill<{_constant(e, count)}>(&{name}[{w.text(at)}])")


def _mma_store(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    target, to, stride, source, at = e.args
    into = _address(w, target, to, e.dtype)
    return w.call("mma_store", into, w.text(stride), f"&{_element(w, source, at, None)}")


def _fill_fragment(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    w.use("fragments")
    return Text(f"fragment_fill({_values(w, e, 0, 4)}, {w.text(e.args[5])})")


def _move_fragment(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    data, stride, layout = e.args[0], w.text(e.args[6]), e.args[7]
    values = _values(w, e, 0, 4)
    if not isinstance(layout, StringImm) or layout.value not in ("row_major", "col_major"):
        raise CompileError(f"{e.op}: the layout is row_major or col_major: {e!r}")
    steps = f"{stride}, 1" if layout.value == "row_major" else f"1, {stride}"
    assert isinstance(data, Var) and data.element is not None
    memory = _address(w, e.args[5], None, data.element)
    w.use("fragments")
    which = _FRAGMENT[data.scope]
    if e.op == "tvm_load_matrix_sync":
        return Text(f"fragment_load<{which}>({values}, {memory}, {steps})")
    return Text(f"fragment_store<{which}>({values}, {memory}, {steps})")


def _mma_fragments(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    d, a, b, c = (_values(w, e, k, k + 1, shape=False) for k in (0, 2, 4, 6))
    kinds = [_pointer(w, e.args[k])[1] for k in (0, 2, 4, 6)]
    if kinds[1] is not kinds[2] or not is_half(kinds[1]) or {kinds[0], kinds[3]} != {float32}:
        raise CompileError(f"{e.op} of {', '.join(map(str, kinds))} is not known: {e!r}")
    return w.call(f"fragment_mma_{memory_type(kinds[1])}", d, a, b, c)


def _values(w: Writer, e: Call, k: int, at: int, shape: bool = True) -> str:
    """The address of a lane's values of fragment number `args[at]` in `args[k]`."""
    data = e.args[k]
    if not isinstance(data, Var) or data.scope not in _FRAGMENT:
        raise CompileError(f"argument {k} of {e.op} must be a fragment: {e!r}")
    if shape:
        found = tuple(_constant(e, size) for size in e.args[1:4])
        if found != FRAGMENT_SHAPE:
            raise CompileError(f"{e.op}: fragments are of 16 x 16 x 16, found {found}: {e!r}")
    return f"&{_element(w, data, mul(e.args[at], FRAGMENT_VALUES), None)}"


def _address(w: Writer, pointer: Expr, offset: Expr | None, dtype: DType) -> str:
    """The address `offset` elements of `dtype` after a pointer."""
    zero = offset is None or is_zero(offset)
    match pointer:
        case Var():
            return f"&{_element(w, pointer, const(0) if offset is None else offset, dtype)}"
        case Call(op="tvm_access_ptr", args=(kind, data, at, *_)) if kind.dtype is dtype:
            return f"&{_element(w, data, at if offset is None else add(at, offset), dtype)}"
        case Call(op="address_of", args=(BufferLoad() as load,)) if load.dtype is dtype:
            first = address_of(w, load).text
            return first if zero or offset is None else f"({first}) + ({w.text(offset)})"
    raise CompileError(f"{pointer!r} is no pointer to {dtype}")


def _pointer(w: Writer, e: Expr) -> tuple[str, DType]:
    """The name of a pointer that a call gets, and the type of the elements it points to."""
    found = w.pointers.get(e) if isinstance(e, Var) else None
    if found is None:
        raise CompileError(f"the pointer {e!r} is used where it is not allocated")
    return found


def _element(w: Writer, pointer: Expr, offset: Expr, dtype: DType | None) -> str:
    """The element `offset` elements after a pointer, as one of `dtype`; None keeps its own type."""
    name, own = _pointer(w, pointer)
    if dtype is not None and dtype is not own:
        if is_half(dtype):
            w.use(memory_type(dtype))
        assert isinstance(pointer, Var)
        name = w.pointer_as(pointer, name, dtype)
    return f"{name}[{w.text(offset)}]"


def _constant(e: Call, value: Expr) -> int:
    if not isinstance(value, IntImm):
        raise CompileError(f"{e.op} needs a constant, found {value!r}: {e!r}")
    return value.value


PTX_CALLS: dict[str, Handler] = {
    "ptx_ldg32": _ldg32,
    "ptx_cp_async": _cp_async,
    "ptx_commit_group": _commit,
    "ptx_wait_group": _wait,
    "ptx_ldmatrix": _ldmatrix,
    "ptx_mma": _mma,
    "ptx_mma_fill": _mma_fill,
    "ptx_mma_store": _mma_store,
    "ptx_wgmma": _wgmma,
    "ptx_wgmma_wait": _wgmma_wait,
    "ptx_lane_id": _lane_id,
    "tvm_fill_fragment": _fill_fragment,
    "tvm_load_matrix_sync": _move_fragment,
    "tvm_store_matrix_sync": _move_fragment,
    "tvm_mma_sync": _mma_fragments,
}
