"""CUDA C as text, and that NVRTC compiles it."""

from __future__ import annotations

import textwrap
from dataclasses import replace

import numpy as np
import pytest

from autosched.codegen.cuda import Launch, emit_cuda, launch_of
from autosched.codegen.cuda_float8 import float8_conversions
from autosched.codegen.cuda_names import Names
from autosched.codegen.cuda_prelude import PARTS, prelude
from autosched.codegen.cuda_types import float_constant, int_constant
from autosched.codegen.nvrtc import Nvrtc, load_nvrtc
from autosched.errors import CompileError
from autosched.tir.dtype import DType
from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.stmt import AttrStmt, BufferStore
from autosched.tir.walk import stmts
from autosched.transform.framework.passes import Sequential
from autosched.transform.pipeline import DEVICE_PIPELINE, GPU_PIPELINE
from kit.warp_kernels import MMA, Kernel, fragments, ldmatrix

HEAD = "def k(A: Buffer((64,), {t}), B: Buffer((64,), {t}), n: int32, x: {t}):\n"


@pytest.fixture(scope="module")
def nvrtc() -> Nvrtc:
    return load_nvrtc("sm_80")


def kernel(body: str, dtype: str = "float32") -> PrimFunc:
    text = textwrap.dedent(body)
    if "launch" not in text:
        text = "launch(blockIdx.x, 2)\nlaunch(threadIdx.x, 32)\n" + text
    text = HEAD.format(t=dtype) + textwrap.indent(text, "    ")
    return parse_func(text).with_attrs(global_symbol="k_kernel", calling_conv=2)


def lines(body: str, dtype: str = "float32") -> list[str]:
    """The lines between the braces of the kernel."""
    text = emit_cuda([kernel(body, dtype)]).text
    return [line.strip() for line in text[text.index("k_kernel(") :].split("\n")[1:-2]]


STATEMENTS = {
    "a loop": ("for i in range(4):\n    B[i] = A[i]", "for (int i = 0; i < 4; ++i) {"),
    "a barrier": ('tvm_storage_sync("shared")', "__syncthreads();"),
    "a barrier of a warp": ('tvm_storage_sync("warp")', "__syncwarp();"),
    "an unrolled loop": ("for i in unrolled(4):\n    B[i] = A[i]", "#pragma unroll"),
    "a minimum of a loop": (
        "for i in range(n, n + 3):\n    B[i] = A[i]",
        "for (int i = n; i < n + 3; ++i) {",
    ),
    "a branch": ("if threadIdx.x < n:\n    B[0] = x", "if ((int)threadIdx.x < n) {"),
    "shared memory": (
        'S = allocate((4, 8), float32, "shared")\nB[0] = x',
        "__shared__ __align__(16) float S[32];",
    ),
    "dynamic memory": (
        'S = allocate((8,), float32, "shared.dyn")\nB[0] = x',
        "extern __shared__ __align__(128) unsigned char S[];",
    ),
    "registers": ('L = allocate((8,), float32, "local")\nB[0] = x', "float L[8];"),
    "a let": ("t: float32 = A[0]\nB[1] = t", "const float t = A[0];"),
    "a vector": ("B[0:4] = A[4:8]", None),
    "constants": (
        "T = constant((2,), int32, [3, 4])\nB[0] = float32(T[n])",
        "static const int T[2] = {3, 4};",
    ),
    "constants read as vectors": (
        "T = constant((4,), float32, [1.0, 2.0, 3.0, 4.0])\nB[0:4] = T[0:4]",
        "static const __align__(16) float T[4] = {1.0f, 2.0f, 3.0f, 4.0f};",
    ),
    "constants read as another type": (
        "T = constant((2,), float32, [1.0, 2.0])\nV = view(T, (2,), int32)\nB[0] = float32(V[n])",
        "B[0] = (float)reinterpret_cast<const int*>(T)[n];",
    ),
    "an axis of one": ("launch(threadIdx.x, 1)\nB[threadIdx.x] = x", "B[0] = x;"),
}


@pytest.mark.parametrize(("body", "expected"), STATEMENTS.values(), ids=STATEMENTS)
def test_statements(body: str, expected: str | None, nvrtc: Nvrtc) -> None:
    expected = expected or (
        "*reinterpret_cast<vec<float, 4>*>(B + 0) = *reinterpret_cast<const vec<float, 4>*>(A + 4);"
    )
    assert expected in lines(body)
    nvrtc.compile(emit_cuda([kernel(body)]).text, "sm_80")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("choice", ["if_then_else(n < 3, A[{}], 0)", "Select(n < 3, 1, 0)"])
def test_lanes_of_few_bits_are_not_narrowed_from_int(dtype: str, choice: str, nvrtc: Nvrtc) -> None:
    """Between braces C++ does not allow it; NVRTC warned."""
    constant = choice.replace("0)", f"{dtype}(0))").replace(" 1,", f" {dtype}(1),")
    lanes = ", ".join(constant.format(k) for k in range(4))
    source = emit_cuda([kernel(f"B[0:4] = shuffle([{lanes}], [0, 1, 2, 3])", dtype)]).text
    assert "warning" not in nvrtc.compile(source, "sm_80").log


WRAPPED = "(int)((unsigned)A[0] * (unsigned)A[1] + (unsigned)n)"
EXPRESSIONS = {
    "sums keep their order": ("float32", "A[0] + (A[1] + A[2])", "A[0] + (A[1] + A[2])"),
    "precedence": ("float32", "(A[0] + A[1]) * A[2] - x", "(A[0] + A[1]) * A[2] - x"),
    "indices are not unsigned": ("float32", "A[n * 2 + 1]", "A[n * 2 + 1]"),
    "data wraps": (
        "int32",
        "A[0] * A[1] + 3",
        "(int)((unsigned)A[0] * (unsigned)A[1] + (unsigned)3)",
    ),
    "small types wrap": ("int8", "A[0] + A[1]", "(signed char)((unsigned)A[0] + (unsigned)A[1])"),
    "truncating division": ("int32", "truncdiv(A[0], 3)", "A[0] / 3"),
    "a quotient by data": (
        "int8",
        "truncdiv(A[0], A[1])",
        "quotient_int((signed char)A[0], (signed char)A[1])",
    ),
    "a remainder by data": ("int32", "truncmod(3, A[0])", "remainder_int((int)3, (int)A[0])"),
    "floor division of floats": ("float32", "A[0] // x", "floordiv_f32(A[0], x)"),
    "a floor remainder of doubles": ("float64", "A[0] % x", "floormod_f64(A[0], x)"),
    "a floor remainder of halves": (
        "float16",
        "A[0] % x",
        "f32_to_f16(floormod_f32(f16_to_f32(A[0]), f16_to_f32(x)))",
    ),
    "floor division, not fused": (
        "float32",
        "(A[0] * x + A[1]) // x * x",
        "floordiv_f32(__fadd_rn(__fmul_rn(A[0], x), A[1]), x) * x",
    ),
    "a quotient by an index": ("int32", "truncdiv(A[0], n)", "quotient_int((int)A[0], (int)n)"),
    "a mask": ("int32", "bitwise_and(n + 1, 7)", "(n + 1) & 7"),
    "a shift": ("int32", "shift_right(n, 3) + 1", "(n >> 3) + 1"),
    "a shift to the left": ("int32", "shift_left(A[0], n)", "(int)((unsigned)A[0] << (n & 31))"),
    "a shift by more than all bits": ("int32", "shift_right(A[0], 40)", "A[0] >> 8"),
    "a shift of a small int": ("int8", "shift_right(A[0], 9)", "(signed char)(A[0] >> 1)"),
    "a shift by less than nothing": (
        "int64",
        "shift_left(A[0], int64(-1))",
        "(long long)((unsigned long long)A[0] << 63)",
    ),
    "maximum": ("float32", "max(A[0], x)", "max_f32(A[0], x)"),
    "extrema of conditions": (
        "bool",
        "min(A[0] or x, max(Select(x, A[1], A[2]), A[3] and x))",
        "(A[0] != 0 || x) && ((x ? A[1] != 0 : A[2] != 0) || A[3] != 0 && x)",
    ),
    "maximum of doubles": ("float64", "max(A[0], x)", "max_f64(A[0], x)"),
    "maximum of ints": ("int32", "max(A[0], 0)", "max(A[0], 0)"),
    "select": ("float32", "Select(x > A[0], x, A[0])", "x > A[0] ? x : A[0]"),
    "exp": ("float32", "exp(x)", "expf(x)"),
    "exp of doubles": ("float64", "exp(x)", "exp(x)"),
    "sigmoid": ("float32", "sigmoid(x)", "1.0f / (1.0f + expf(-(x)))"),
    "to int": ("int32", "int32(float32(A[0]))", "f32_to_i32((float)A[0])"),
    "to a small int": (
        "int8",
        "int8(float32(A[0]))",
        "(signed char)max(-128, min(127, f32_to_i32((float)A[0])))",
    ),
    "to int, not fused": (
        "int32",
        "int32(float32(A[0]) * float32(B[0]) + float32(A[1]))",
        "f32_to_i32(__fadd_rn(__fmul_rn((float)A[0], (float)B[0]), (float)A[1]))",
    ),
    "a comparison, not fused": (
        "float32",
        "Select(A[0] * x - A[1] > x, A[0] * x + A[1], x)",
        "__fsub_rn(__fmul_rn(A[0], x), A[1]) > x ? A[0] * x + A[1] : x",
    ),
    "a rounding, not fused": (
        "float64",
        "floor(A[0] * x) + nearbyint(A[0] * x + x)",
        "floor(__dmul_rn(A[0], x)) + rint(__dadd_rn(__dmul_rn(A[0], x), x))",
    ),
    "a remainder, not fused": (
        "float32",
        "fmod(A[0] * x, x) * x + truncmod(A[0] * x, x)",
        "fmodf(__fmul_rn(A[0], x), x) * x + fmodf(__fmul_rn(A[0], x), x)",
    ),
    "half": ("float16", "A[0] + x", "f32_to_f16(f16_to_f32(A[0]) + f16_to_f32(x))"),
    "double to half": ("float16", "float16(float64(A[0]))", "f64_to_f16((double)f16_to_f32(A[0]))"),
    "brain float": ("bfloat16", "exp(x)", "f32_to_bf16(expf(bf16_to_f32(x)))"),
    "float8": ("float8_e4m3fn", "exp(x)", "f32_to_f8e4m3(expf(f8e4m3_to_f32(x)))"),
    "another float8": (
        "float8_e5m2",
        "A[0] + x",
        "f32_to_f8e5m2(f8e5m2_to_f32(A[0]) + f8e5m2_to_f32(x))",
    ),
    "a condition": ("bool", "A[0] and not x", "A[0] != 0 && !x"),
    "bits": ("int32", "reinterpret(float32(A[0]), dtype=int32)", "bit_cast<int>((float)A[0])"),
    "leading zeros": ("int32", "clz(A[0])", "__clz((unsigned)A[0])"),
    "fma": ("float32", "fma(x, A[0], A[1])", "fmaf(x, A[0], A[1])"),
}


@pytest.mark.parametrize(("dtype", "text", "expected"), EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_expressions(dtype: str, text: str, expected: str, nvrtc: Nvrtc) -> None:
    body = f"B[0] = {text}"
    assert f"B[0] = {expected};" in lines(body, dtype)
    nvrtc.compile(emit_cuda([kernel(body, dtype)]).text, "sm_80")


def test_what_a_jump_reads_through_a_variable_is_not_fused() -> None:
    found = lines("t: float32 = A[0] * x + x\nu: float32 = t * x\nB[1] = floor(u) + t * x")
    assert found[-3:] == [
        "const float t = __fadd_rn(__fmul_rn(A[0], x), x);",
        "const float u = __fmul_rn(t, x);",
        "B[1] = floorf(u) + t * x;",
    ]


def test_what_a_jump_reads_from_memory_is_not_fused() -> None:
    """What is added to a sum may be; vectors are stored and named whole."""
    found = lines("""\
L = allocate((4,), float32, "local")
S = allocate((1,), float32, "local")
S[0] = S[0] + A[0] * x
v: float32x4 = shuffle([A[0] * x + x, x, x, x], [0, 1, 2, 3])
L[0:4] = v
B[0] = floor(L[0]) + floor(S[0])""")
    assert found[-4:] == [
        "S[0] = S[0] + A[0] * x;",
        "const vec<float, 4> v = vec<float, 4>{{__fadd_rn(__fmul_rn(A[0], x), x), x, x, x}};",
        "*reinterpret_cast<vec<float, 4>*>(L + 0) = v;",
        "B[0] = floorf(L[0]) + floorf(S[0]);",
    ]


def test_what_a_jump_reads_from_another_kernel_is_not_fused() -> None:
    both = kernel("B[0] = A[0] * x + x\nA[1] = floor(B[0])")
    grid = both.body
    assert isinstance(grid, AttrStmt)
    block = grid.body
    assert isinstance(block, AttrStmt)
    kernels = [
        both.with_body(replace(grid, body=replace(block, body=part)))
        for part in stmts(block.body)
        if isinstance(part, BufferStore)
    ]
    apart = [emit_cuda([single]).text for single in kernels]
    assert "B[0] = A[0] * x + x;" in apart[0]
    assert "B[0] = __fadd_rn(__fmul_rn(A[0], x), x);" in emit_cuda(kernels).text


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_the_whole_prelude_compiles(arch: str, nvrtc: Nvrtc) -> None:
    conversions = {f"{a}_to_{b}" for a in KINDS for b in KINDS}
    parts = {part for part in PARTS if arch == "sm_90" or not part.startswith("wgmma")}
    source = prelude({*parts, *conversions}) + float8_conversions(conversions)
    assert nvrtc.compile(source, arch).cubin.startswith(b"\x7fELF")


def test_the_offset_of_a_guarded_copy_has_64_bits(nvrtc: Nvrtc) -> None:
    text = """
    S = allocate((32,), float32, "shared")
    ptx_cp_async(S, 0, A, int64(n) * int64(4294967296), 4, n < 5, dtype=float32)
    """
    ptx = nvrtc.ptx(emit_cuda([kernel(text)]).text, "sm_80")
    assert "shl.b64" in ptx, "the product is not cut off to 32 bits, which would be 0"


KINDS = ("f32", "f16", "bf16", "f8e4m3", "f8e5m2")
FLOATS = [0.0, -0.0, 1.0, 0.5, 1 / 3, 3.4028234663852886e38, 1e-45, 2.0**-126, 1e20, -7.25, 0.1]


@pytest.mark.parametrize("value", FLOATS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_constants_of_floats_are_exact(value: float, dtype: str) -> None:
    text = float_constant(value, DType(dtype)).strip("()")
    assert text.endswith("f") == (dtype == "float32")
    digits = text.rstrip("f") if dtype == "float32" else text
    back = float.fromhex(digits) if "0x" in digits else float(digits)
    wanted = np.dtype(dtype).type(value)
    assert np.dtype(dtype).type(back).tobytes() == wanted.tobytes()


def test_constants_that_are_no_numbers() -> None:
    assert float_constant(np.inf, DType("float32")) == "__int_as_float(0x7f800000)"
    assert float_constant(-np.inf, DType("float32")) == "__int_as_float(0xff800000)"
    assert float_constant(np.nan, DType("float32")) == "__int_as_float(0x7fc00000)"
    nan64 = float_constant(np.nan, DType("float64"))
    assert nan64 == "__longlong_as_double(0x7ff8000000000000LL)"
    assert float_constant(1.0, DType("float16")) == "f16{0x3c00}"
    assert float_constant(1.0, DType("bfloat16")) == "bf16{0x3f80}"


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (5, "int32", "5"),
        (-5, "int32", "(-5)"),
        (-(2**31), "int32", "(-2147483647 - 1)"),
        (-(2**63), "int64", "(-9223372036854775807LL - 1)"),
        (2**32 - 1, "uint32", "4294967295u"),
        (2**64 - 1, "uint64", "18446744073709551615uLL"),
        (-128, "int8", "(-128)"),
        (1, "bool", "true"),
    ],
)
def test_constants_of_ints(value: int, dtype: str, expected: str) -> None:
    assert int_constant(value, DType(dtype)) == expected


def test_names() -> None:
    names = Names()
    hints = ["i.j.fused", "i_j_fused", "double", "threadIdx", "expf", "vec", "7x", "", "a__b", "é"]
    macros = ["NULL", "cudaStreamLegacy", "CUDART_CB", "CUDART_CB", "cubic"]
    wanted = ["NULL_1", "v_cudaStreamLegacy", "v_CUDART_CB", "v_CUDART_CB_1", "cubic"]
    assert [Names().new(hint) for hint in macros[:3]] == wanted[:3]
    others = Names()
    assert [others.new(hint) for hint in macros] == wanted
    assert [names.new(hint) for hint in hints] == [
        *("i_j_fused", "i_j_fused_1", "double_1", "threadIdx_1", "expf_1", "vec_1"),
        *("v7x", "v", "a_b", "v_1"),
    ]


def test_parameters() -> None:
    head = emit_cuda([kernel("B[0] = A[0]")]).text
    assert "const float* __restrict__ A," in head
    assert "    float* __restrict__ B," in head
    assert "int n," in head
    aliased = kernel("B[0] = A[0]").with_attrs(**{"tir.noalias": False})
    assert "__restrict__" not in emit_cuda([aliased]).text
    half = emit_cuda([kernel("B[0] = x", "float16")]).text
    assert "unsigned short x_bits" in half
    assert "const f16 x = f16{x_bits};" in half


def test_the_launch_stands_above_the_kernel_and_bounds_its_threads() -> None:
    func = kernel("""\
launch(blockIdx.x, 4)
launch(threadIdx.y, 8)
launch(threadIdx.x, 16)
S = allocate((128,), float32, "shared")
B[threadIdx.x] = A[threadIdx.x]
""")
    text = emit_cuda([func]).text
    assert "// grid (4, 1, 1), block (16, 8, 1), 512 bytes shared (static)\n" in text
    assert "__launch_bounds__(128) k_kernel(" in text
    assert launch_of(func) == Launch((4, 1, 1), (16, 8, 1), 512, 0)
    bounded = emit_cuda([func.with_attrs(min_blocks=2)]).text
    assert "__launch_bounds__(128, 2) k_kernel(" in bounded


def test_a_line_says_what_it_was_made_from(nvrtc: Nvrtc) -> None:
    source = emit_cuda([kernel("for i in range(4):\n    B[i] = max(A[i], x)")])
    number = next(
        n for n, line in enumerate(source.text.split("\n"), 1) if line.strip().startswith("B[i]")
    )
    assert source.statements[number] == "k_kernel / for i / B[...] = ..."
    broken = source.text.replace("B[i] = ", "B[missing] = ")
    with pytest.raises(CompileError, match="made from: k_kernel / for i / B") as caught:
        nvrtc.compile(broken, "sm_80", statements=source.statements)
    assert caught.value.line == number


REFUSED = {
    "a thread axis beyond the limit": ("launch(threadIdx.x, 2048)\nB[0] = x", "is 2048, 1 to 1024"),
    "too many threads": (
        "launch(threadIdx.x, 64)\nlaunch(threadIdx.y, 64)\nB[0] = x",
        "4096 threads in a block",
    ),
    "too many rows of blocks": ("launch(blockIdx.y, 65536)\nB[0] = x", "is 65536, 1 to 65535"),
    "an extent that varies": ("launch(threadIdx.x, n)\nB[0] = x", "must be constant, found n"),
    "loops of two lengths": (
        "launch(threadIdx.x, 8)\nlaunch(threadIdx.x, 16)\nB[0] = x",
        "is 8 in one place and 16 in another; bind only loops of the same length to threadIdx.x",
    ),
    "floor division": ("B[n // 3] = x", "FloorDiv reached CUDA code generation"),
    "a vectorized loop": ("for i in vectorized(4):\n    B[i] = x", "the loop i is vectorized"),
    "a barrier of the grid": ('tvm_storage_sync("global")', "a barrier of scope 'global'"),
    "a function from outside": ('B[0] = call_extern("f", x, dtype=float32)', "the function f is"),
    "global memory": ('W = allocate((8,), float32, "global")\nB[0] = x', "only shared and local"),
    "an unaligned vector": ("B[ramp(n, 1, 4)] = A[0:4]", "may be misaligned"),
    "arithmetic on vectors": ("B[0:4] = A[0:4] + A[4:8]", "a computation on vectors"),
}


@pytest.mark.parametrize(("body", "message"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_meaning_on_a_gpu(body: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        emit_cuda([kernel(body)])


def test_assertions_are_left_out() -> None:
    plain = emit_cuda([kernel("B[0] = x")]).text
    assert emit_cuda([kernel('assert n < 4, "small"\nB[0] = x')]).text == plain


PRODUCTS = {
    **{name: (kernel, "mma.sync.aligned.m", 1) for name, kernel in MMA.items()},
    "ldmatrix": (ldmatrix(), "ldmatrix.sync.aligned.m8n8.x", 2),
    "ldmatrix of one and two": (ldmatrix(2, 1), "ldmatrix.sync.aligned.m8n8.x", 4),
    "fragments": (fragments("col_major"), "mma.sync.aligned.m16n8k16.row.col.f32.bf16", 4),
}


@pytest.mark.parametrize(("product", "wanted", "times"), PRODUCTS.values(), ids=PRODUCTS)
def test_products_of_a_warp(product: Kernel, wanted: str, times: int, nvrtc: Nvrtc) -> None:
    """They compile to the instructions meant, with all values in registers."""
    text = emit_cuda(kernels_of(product.func)).text
    assert nvrtc.ptx(text, "sm_80").count(wanted) == times
    assert nvrtc.compile(text, "sm_80").resources["main_kernel"].stack == 0
    assert text.count("__syncthreads") == ("ldmatrix" in wanted)
    assert "const" in text[text.index("main_kernel(") :].split("\n")[1], "operands are only read"


def kernels_of(func: PrimFunc) -> list[PrimFunc]:
    """The kernels of a function as they are printed."""
    lowered = Sequential(GPU_PIPELINE)(func)
    module = Sequential(DEVICE_PIPELINE)(IRModule({lowered.name: lowered}))
    return [f for f in module.functions.values() if f.attrs.get("calling_conv") == 2]


UNKNOWN_PRODUCTS = {
    "an atom there is not": ("m16n8k16", "m8n8k4", "the atom m8n8k4 of fp16"),
    "the other order": ('"row", "col"', '"col", "row"', "must be row and col"),
    "operands of another type": ("float16", "bfloat16", "holds bfloat16, not float16"),
}


@pytest.mark.parametrize("case", UNKNOWN_PRODUCTS.values(), ids=UNKNOWN_PRODUCTS)
def test_unknown_products(case: tuple[str, str, str]) -> None:
    old, new, message = case
    func = parse_func(MMA["float16"].text.replace(old, new))
    with pytest.raises(CompileError, match=message):
        emit_cuda(kernels_of(func))
