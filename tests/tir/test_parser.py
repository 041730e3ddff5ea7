"""Text is read back as what was printed, and what cannot be read is refused at its place."""

import textwrap

import pytest

from autosched.errors import ConfigError
from autosched.tir import op
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import DType, float32, handle, int32, int64
from autosched.tir.equal import structural_equal
from autosched.tir.expr import (
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    IntImm,
    IterKind,
    IterVar,
    Let,
    Mod,
    Mul,
    Not,
    Ramp,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    Var,
    pointer,
)
from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.parser import ParseError, parse_expr, parse_func, parse_module
from autosched.tir.printer import to_text
from autosched.tir.stmt import BufferStore, Evaluate, For, SeqStmt
from autosched.tir.walk import all_exprs

I, J, W, F = Var("i"), Var("j"), Var("w", "int64"), Var("f", "float32")
A = decl_buffer((16, 16), name="A")
V = decl_buffer((4,), "float32x4", name="V")
NAMES: dict[str, Var | Buffer] = {"i": I, "j": J, "w": W, "f": F, "A": A, "V": V, "data": A.data}
FOUR = Ramp(J, IntImm(1), 4)

EXPRESSIONS = [
    I + J * 3 - (J - 2),
    (I + J) * J // 4 % (J + 1),
    Sub(I, IntImm(-1)),
    Mul(IntImm(-2), I),
    Div(I, J) + Mod(I, J),
    F / 2.0 - (F - F) / (F * F),
    op.min_(I, op.max_(J, 3)),
    op.and_(op.or_(I < 3, J >= 4), op.ne(I, J)),
    op.or_(op.and_(I < 3, J > 4), I <= J),
    op.eq(I < J, J < I),
    Not(Not(I < J)),
    op.eq(Not(I < J), I < J),
    W + op.const(5, "int64") * op.cast("int64", I),
    Cast(int64, IntImm(5)),
    Cast(float32, FloatImm(0.5, DType("float64"))),
    Cast(float32, Cast(int32, F)),
    op.const(2**40, "int64"),
    op.const(-(2**31)),
    op.const(7, "uint8"),
    op.const(-0.0),
    op.const(0.1),
    op.const(1e30),
    op.const(1e-8),
    op.const(16777216.0),
    op.const(0.1, "float64"),
    op.const(1 / 3, "float16"),
    op.const(1 / 3, "bfloat16"),
    op.const(1 / 3, "float8_e4m3fn"),
    op.const(-0.5, "custom[q]16"),
    op.cast("float32", op.cast("custom[q]8", F) * op.const(2, "custom[q]8")),
    op.cast("float8_e5m2x4", op.cast("float8_e4m3fnx4", FOUR)),
    op.const(float("-inf")),
    op.const(float("nan"), "float16"),
    op.const(True),
    Call(int32, "call_extern", (StringImm('a "quoted"\n\\ name'), I)),
    Call(float32, "reinterpret", (I,)),
    Call(handle, "tvm_thread_allreduce", (F, I < J)),
    Call(int32, "tvm_storage_sync", (StringImm("shared"),)),
    Call(float32, "call_llvm_intrin", ()),
    op.if_then_else(I < J, F, op.call("exp", F)),
    op.likely(I < J),
    Select(I < J, F, op.const(0.0)),
    A[I, J + 1],
    BufferLoad(A, (I, FOUR)),
    BufferLoad(A, (I, Ramp(IntImm(0), IntImm(1), 8))),
    BufferLoad(A, (I, Ramp(I * 4 + J, IntImm(1), 8))),
    BufferLoad(A, (I, Ramp(W, op.const(1, "int64"), 8))),
    BufferLoad(A, (I, Ramp(J, IntImm(2), 4))),
    BufferLoad(A, (I, FOUR), Broadcast(I, 4) > FOUR),
    V[I],
    Shuffle((FOUR, Broadcast(I, 4)), (IntImm(2), IntImm(7))),
    Call(handle, "address_of", (A[I, J],)),
    A.data,
]


@pytest.mark.parametrize("expr", EXPRESSIONS, ids=to_text)
def test_an_expression_is_the_same_object_again(expr: Expr) -> None:
    found = parse_expr(to_text(expr).replace("\n", " "), NAMES)
    if "nan" in to_text(expr) or expr is A.data:
        assert to_text(found) == to_text(expr)
    else:
        assert found is expr


def test_let_binds_a_new_variable() -> None:
    again = parse_expr(to_text(Let(I, J + 1, I * I) + J), {"j": J})
    assert to_text(again) == "(let i = j + 1 in i * i) + j"


# Every statement, and every field that differs from the usual.
TEXTS = {
    "loops": """
        def main(A: Buffer((64,), float32)):
            for i in range(4):
                for j in parallel(2, 2 + i):
                    for k in unrolled(i, i + j * 2, annotations={"a": 1, "b": [True, None, -2.5]}):
                        A[k] = 1.0
                for l in thread_binding(4, thread="threadIdx.x"):
                    A[l] = 0.0
            for w in range(int64(2), int64(6)):
                A[w] = 2.0
            while A[0] < 3.0:
                A[0] = A[0] + 1.0
            pass
        """,
    "branches and wrappers": """
        def main(A: Buffer((64,), float32), n: size(int32), p: pointer(int8, "shared"), h: handle):
            attrs(from_legacy_te_schedule=True, options={"k": expr(n + 1), "list": ["a", 2]})
            p = view(p, (n,), int8)
            assert n < 64, "n is \\"small\\""
            with m: int32 = n + 1:
                if likely(m < 5):
                    A[m] = 1.0
                else:
                    pass
            x = allocate((4, n), float32, "local", condition=n < 5, annotations={"z": 1})
            x_flat = view(x, (64,), int8, elem_offset=n, align=16, offset_factor=4)
            d = declare(x, (n,), float32, strides=(2,), pointer=pointer(float32, "local"))
            with c = constant((2,), int32, [1, -2]):
                A[c[0]] = d[0]
            x_flat[0] = p[1]
            x[0, 1] = 2.0
            evaluate(3)
            tvm_storage_sync("shared")
            store(A[n:n + 4], broadcast(1.0, 4), predicate=ramp(n, 1, 4) < broadcast(9, 4))
        """,
    "attributes": """
        def main(A: Buffer((64, 4), float32)):
            launch(blockIdx.x, 8)
            launch(tx, 4, tag="threadIdx.x", dom=0:4)
            virtual_thread(v, int64(2), kind="opaque", dtype=int32)
            pragma(gone, "auto_unroll_max_step", 16)
            attr(B, "double_buffer_scope", 1)
            with attr(data(b), "volatile_scope", 1):
                b = allocate((4,), float32, "")
                b[0] = A[tx, 0]
            attr(iter(r: int64, "reduce", tag="t", dom=0:4), "k", 1)
            attr(None, "k", "text")
            attr(["x", A], "k", 1)
            attr(reducer("sum", [x: float32], [y: float32], [x + y], [0.0]), "reduce_scope", 0)
            realize(B[tx:tx + 1, 0:4], float32, "shared", shape=(64, 4), condition=tx < 3)
            prefetch(A[tx:tx + 1, 0:4])
            for i in range(4):
                pragma(var(i), "x", i)
                B[tx, i] = A[tx, i]
            prefetch(address_of(B[tx, 0], dtype=handle), 0, 3, 1)
        """,
    "buffers": """
        def main[n: size(int32), m: int64](A: Buffer((n, 4), float32, scope="", element=int8, \
strides=(m, int64(1))), B: Buffer((2,), bool, data=A), C: Buffer((), int32, param="data"), \
D: Buffer((n,), int32, param=pointer(int32))):
            attrs(global_symbol=None)
            C[] = 1
            B[0] = True
        """,
    "blocks": """
        def main(A: Buffer((16, 16), float32), C: Buffer((16,), float32)):
            for i in range(16):
                with block("C"):
                    vi = axis.data_par(0:16, i)
                    vk = axis.reduce(0:16, i)
                    where(i < 3)
                    reads(A[vi:vi + 1, vk:vk + 1])
                    writes(C[vi:vi + 1])
                    annotations({"pragma": 1})
                    T = alloc((4,), float32, scope="local")
                    M = match(A[vi:vi + 1, 0:4], (4,), float32)
                    N = match[at: int64, s: int32](A[vi:vi + 1, 0:4], (1, 4), float32, \
strides=(s, 1), elem_offset=at, offset_factor=4, axis_separators=[1])
                    with init():
                        C[vi] = 0.0
                    C[vi] = C[vi] + A[vi, vk] + M[0] + T[0]
                with block("opaque", realized=False):
                    reads()
                    writes()
                    pass
        """,
}


def tidy(text: str) -> str:
    return textwrap.dedent(text).strip("\n").replace(", \\\n", ", ")


@pytest.mark.parametrize("name", TEXTS)
def test_a_function_prints_as_it_was_written(name: str) -> None:
    text = tidy(TEXTS[name])
    func = parse_func(text)
    assert to_text(func) == text
    # Attributes here name buffers that are declared further down, so as free ones.
    assert structural_equal(parse_func(text), func, map_free_vars=True)


def test_what_the_text_of_a_parameter_says() -> None:
    func = parse_func(TEXTS["buffers"])
    a, b, c, d = func.params
    A, B, C, D = (func.buffer_map[p] for p in func.params)
    n, four = A.shape
    assert isinstance(n, SizeVar) and four is IntImm(4) and D.shape == (n,)
    assert A.strides[0].dtype is int64 and A.data.element is DType("int8") and A.scope == ""
    assert B.data is A.data and c is C.data and a is not A.data and b.dtype is handle
    assert d.element is int32 and func.attrs == {}


def test_the_node_of_an_attribute_is_what_it_was() -> None:
    func = parse_func(TEXTS["attributes"])
    nodes, stmt = [], func.body
    while hasattr(stmt, "body") or isinstance(stmt, SeqStmt):
        nodes.append(getattr(stmt, "node", None))
        stmt = stmt.stmts[0] if isinstance(stmt, SeqStmt) else stmt.body
    gone, buffer = nodes[3], nodes[4]
    assert isinstance(gone, IterVar) and gone.kind == IterKind.DATA_PAR and gone.dom is None
    assert isinstance(buffer, Buffer) and buffer.scope == "shared"
    assert isinstance(nodes[6], Var) and nodes[6].scope == ""


def test_one_name_is_one_variable_and_one_buffer() -> None:
    func = parse_func("""
        def main(A: Buffer((4,), float32)):
            for i in range(4):
                A[i] = 0.0
            for i in range(2):
                A[i] = A[i + 2]
    """)
    assert isinstance(func.body, SeqStmt)
    first, second = func.body.stmts
    assert isinstance(first, For) and isinstance(second, For)
    assert first.loop_var is second.loop_var
    assert isinstance(first.body, BufferStore) and isinstance(second.body, BufferStore)
    assert first.body.buffer is second.body.buffer is func.buffers[0]


def test_odd_names_are_printed_as_names() -> None:
    odd = decl_buffer((4,), name="my tensor#1")
    param = pointer("for", handle)
    func = PrimFunc((param,), BufferStore(odd, op.const(1.0), (Var("2x"),)), {param: odd})
    text = to_text(func)
    assert "my_tensor_1[_2x] = 1.0" in text
    keyword = Var("in")
    stmt = PrimFunc((keyword,), Evaluate(keyword + 1), {}, {"global_symbol": "main"})
    assert to_text(stmt) == "def main(in_1: int32):\n    in_1 + 1"
    assert structural_equal(parse_func(to_text(stmt)), stmt)


def test_modules() -> None:
    text = tidy("""
        module_attrs({"k": 1})

        def f(n: int32):
            n + 1

        def g(n: int64):
            attrs(global_symbol="h")
            n + int64(1)
    """)
    module = parse_module(text)
    assert isinstance(module, IRModule) and list(module.functions) == ["f", "g"]
    assert module["g"].attrs == {"global_symbol": "h"} and to_text(module) == text
    with pytest.raises(ParseError, match="expected one function, found 2"):
        parse_func(text)
    with pytest.raises(ParseError, match="line 10, column 1: there is a function `f` above"):
        parse_module(text + "\n\ndef f():\n    pass")


HEAD = "def main(A: Buffer((4,), float32), n: int32):\n    "
ERRORS = {
    "A[0] = B[0]": (12, "unknown buffer `B`; known here: A"),
    "A[0] = x": (12, "unknown variable `x`; known here: A, n"),
    "A[nn] = 1.0": (7, "unknown variable `nn`; known here: n"),
    "A[0, 1] = 1.0": (5, "`A` has 1 dimensions, found 2 indices"),
    "A[0] = 1": (12, "`A` takes float32 here, found int32"),
    "A[0] = 1.0 + n": (16, "`+` of float32 and int32; expected one type, such as float32"),
    "A[0] = float32(n / 2)": (22, "`/` is for floats: write // or truncdiv"),
    "A[0] = expp(1.0)": (12, "unknown intrinsic `expp`; did you mean exp, "),
    "A[0] = Select(n < 2, 1.0)": (12, "`Select` takes 3 arguments, found 2"),
    "A[ramp(ramp(0, 1, 2), 1, 2)] = A[0]": (7, "`ramp` takes scalars, found ramp(0, 1, 2)"),
    "A[0] = broadcast(broadcast(1.0, 2), 2)": (12, "`broadcast` takes scalars, found"),
    "A[0:2] = shuffle([A[0:2]], [0, 2])": (14, "`shuffle` takes some of 2 lanes, found 2"),
    "A[0:2] = shuffle([A[0:2]], [-1, 0])": (14, "`shuffle` takes some of 2 lanes, found -1"),
    "A[0] = shuffle([A[0:2]], [])": (12, "`shuffle` takes some of 2 lanes, found none"),
    "A[0] = shuffle([], [0])": (12, "`shuffle` takes some of 0 lanes, found 0"),
    "A[0] = 1.0 2": (16, "expected the end of the line, found `2`"),
    "A[0] = $": (12, "expected TIR, found `$`"),
    "A[0 = 1.0": (9, "expected `]` or `,` after an item, found `=`"),
    "n = 1": (5, "a value is stored in a buffer, found n"),
    "3000000000": (5, "3000000000 is no int32; write its type, such as int64"),
    "int8(300)": (10, "300 is no int8"),
    "for i in ranges(4):\n        pass": (14, "expected one of range, parallel, "),
    "for i in range(4)\n        pass": (22, "expected `:` after the head of a loop, found the end"),
    "for i in range(4):\n    pass": ((3, 5), "expected an indented line, found `pass`"),
    "for i in range(2, n):\n        pass": (23, "expected the end of the range as 2 + LENGTH"),
    "for n in range(int64(4)):\n        pass": (9, "`n` is int32 above, int64 here"),
    "for for in range(4):\n        pass": (9, "expected a loop variable, found the keyword `for`"),
    "pass\n   pass": ((3, 4), "this line is indented like none before it"),
    "x = allocate((4,), float33, \"\")": (24, "expected a type such as float32, found `float33`"),
    "x = allocate((4,), int8, \"\", size=3)": (34, "allocate has no field `size`; expected one of"),
    "x = view(y, (4,), int8)\n    pass": (14, "unknown variable `y`"),
    "x = view(A, (q,), int8)\n    x[0] = int8(1)": (18, "`q` is bound nowhere"),
    "if n:\n        pass": (8, "expected a condition, found int32; compare it, e.g. with 0"),
    "while A[0]:\n        pass": (11, "expected a condition, found float32"),
    "A[0] = Select(not n, 1.0, 2.0)": (23, "expected a condition, found int32"),
    "for i in range(A[0]):\n        pass": (20, "expected an integer for a loop, found float32"),
    "for i in range(n < 3):\n        pass": (20, "expected an integer for a loop, found bool"),
    "x = allocate((-4,), int8, \"\")\n    pass": (18, "a size is negative"),
    "assert n < 3, n": (19, "expected a message in double quotes, found `n`"),
    "with pass:\n        pass": (10, "expected a statement, found the keyword `pass`"),
    "call_extern()": (5, "`call_extern` without arguments needs dtype="),
    "attrs(k=1)": (15, "expected a statement, found"),
    "": ((2, 5), "expected an indented line, found the end of the text"),
}  # fmt: skip


@pytest.mark.parametrize("text", ERRORS)
def test_what_cannot_be_read_is_refused_at_its_place(text: str) -> None:
    at, message = ERRORS[text]
    line, column = at if isinstance(at, tuple) else (2, at)
    with pytest.raises(ParseError) as caught:
        parse_func(HEAD + text)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"line {line}, column {column}: "), str(caught.value)
    source, mark = caught.value.__notes__[0].split("\n")
    assert source == [*(HEAD + text).split("\n"), ""][line - 1]
    assert mark == " " * (column - 1) + "^"


def test_classifications_of_floats_are_truth_values() -> None:
    text = "A[0:4] = Select(isnan(A[0:4]) or isinf(A[4:8]), A[0:4], A[8:12])"
    func = parse_func(f"def main(A: Buffer((16,), float32)):\n    {text}")
    calls = [e for e in all_exprs(func.body) if isinstance(e, Call)]
    assert {(e.op, e.dtype) for e in calls} == {(op, DType("boolx4")) for op in ("isnan", "isinf")}
    assert text in str(func)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"text of TIR: expected a str, found 3 \(int\)"):
        parse_func(3)  # type: ignore[arg-type]
