"""Tensor expressions: declaring tensor programs and scheduling them."""

from operator import add as add
from operator import mul as multiply
from operator import sub as subtract

from autosched.te import hybrid
from autosched.te.bounds.scan_fix_point import scan_fix_points
from autosched.te.intrin.registry import statements as tensor_instruction
from autosched.te.operations import elementwise as elementwise
from autosched.te.operations.compute import (
    compute,
    placeholder,
    reduce_axis,
    size_var,
    thread_axis,
    var,
)
from autosched.te.operations.extern import extern
from autosched.te.operations.intrinsics import (
    acos,
    acosh,
    address_of,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    call_extern,
    ceil,
    clz,
    copysign,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    exp10,
    expm1,
    floor,
    fmod,
    hypot,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    nearbyint,
    popcount,
    power,
    round,
    rsqrt,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
)
from autosched.te.operations.operation import ComputeOp, ExternOp, Operation, PlaceholderOp, ScanOp
from autosched.te.operations.other_names import OF_TE
from autosched.te.operations.reduction import comm_reducer, max, min, prod, sum
from autosched.te.operations.scan import scan
from autosched.te.operations.tensor import Tensor, TensorRegion
from autosched.te.operations.tensor_compute import IntrinCall, TensorComputeOp
from autosched.te.operations.tensor_intrin import TensorIntrin, decl_tensor_intrin
from autosched.te.schedule.matrix_stages import MatrixTile
from autosched.te.schedule.schedule import Schedule, Stage, create_schedule
from autosched.tir.buffer import decl_buffer
from autosched.tir.op import (
    abs_ as abs,
)
from autosched.tir.op import (
    all_ as all,
)
from autosched.tir.op import (
    any_ as any,
)
from autosched.tir.op import (
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    cast,
    const,
    eq,
    floordiv,
    floormod,
    if_then_else,
    likely,
    max_value,
    min_value,
    ne,
    select,
    shift_left,
    shift_right,
    truncdiv,
    truncmod,
)
from autosched.tir.op import (
    not_ as logical_not,
)
from autosched.words import missing

div = truncdiv
fabs = abs
indexdiv = floordiv
indexmod = floormod
logical_and = all
logical_or = any
pow = power

__all__ = [
    "ComputeOp",
    "ExternOp",
    "IntrinCall",
    "MatrixTile",
    "Operation",
    "PlaceholderOp",
    "ScanOp",
    "Schedule",
    "Stage",
    "Tensor",
    "TensorComputeOp",
    "TensorIntrin",
    "TensorRegion",
    "abs",
    "acos",
    "acosh",
    "add",
    "address_of",
    "all",
    "any",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "call_extern",
    "cast",
    "ceil",
    "clz",
    "comm_reducer",
    "compute",
    "const",
    "copysign",
    "cos",
    "cosh",
    "create_schedule",
    "decl_buffer",
    "decl_tensor_intrin",
    "div",
    "eq",
    "erf",
    "exp",
    "exp2",
    "exp10",
    "expm1",
    "extern",
    "fabs",
    "floor",
    "floordiv",
    "floormod",
    "fmod",
    "hybrid",
    "hypot",
    "if_then_else",
    "indexdiv",
    "indexmod",
    "isfinite",
    "isinf",
    "isnan",
    "likely",
    "log",
    "log1p",
    "log2",
    "log10",
    "logical_and",
    "logical_not",
    "logical_or",
    "max",
    "max_value",
    "min",
    "min_value",
    "multiply",
    "ne",
    "nearbyint",
    "placeholder",
    "popcount",
    "pow",
    "power",
    "prod",
    "reduce_axis",
    "round",
    "rsqrt",
    "scan",
    "scan_fix_points",
    "select",
    "shift_left",
    "shift_right",
    "sigmoid",
    "sin",
    "sinh",
    "size_var",
    "sqrt",
    "subtract",
    "sum",
    "tan",
    "tanh",
    "tensor_instruction",
    "thread_axis",
    "trunc",
    "truncdiv",
    "truncmod",
    "var",
]


def __getattr__(name: str) -> object:
    """Raise an AttributeError that says what to write for a name of TVM's te or of NumPy."""
    raise missing("autosched.te", name, OF_TE)
