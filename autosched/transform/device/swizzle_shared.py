"""SwizzleShared: permute elements within the rows of a shared tile: columns then meet all banks.

before:
    def main(A: Buffer((2048,), float16), B: Buffer((2048,), float16)):
        launch(threadIdx.x, 32)
        S = allocate((2048,), float16, "shared")
        pragma(None, "swizzle", "3 3 6")
        for i in range(8):
            S[(i * 32 + threadIdx.x) * 8:(i * 32 + threadIdx.x) * 8 + 8] = A[(i * 32 + threadIdx.x)
                    * 8:(i * 32 + threadIdx.x) * 8 + 8]
        tvm_storage_sync("shared")
        for i in range(64):
            B[i * 32 + threadIdx.x] = S[threadIdx.x * 64 + i]
after:
    def main(A: Buffer((2048,), float16), B: Buffer((2048,), float16)):
        launch(threadIdx.x, 32)
        S = allocate((2048,), float16, "shared")
        for i in range(8):
            S[bitwise_xor((i * 32 + threadIdx.x) * 8, (i * 32 + threadIdx.x) * 8 // 64 % 8 *
                    8):bitwise_xor((i * 32 + threadIdx.x) * 8, (i * 32 + threadIdx.x) * 8 // 64 % 8
                    * 8) + 8] = A[(i * 32 + threadIdx.x) * 8:(i * 32 + threadIdx.x) * 8 + 8]
        tvm_storage_sync("shared")
        for i in range(64):
            B[i * 32 + threadIdx.x] = S[bitwise_xor(threadIdx.x * 64 + i, (threadIdx.x * 64 + i) //
                    64 % 8 * 8)]
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

from autosched.arith import Analyzer
from autosched.errors import ScheduleError
from autosched.tir.buffer import Buffer
from autosched.tir.constants import is_one
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, Ramp, StringImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.intrin import POINTER_OFFSETS
from autosched.tir.stmt import Allocate, AttrStmt, BufferStore, Stmt
from autosched.tir.swizzle import Swizzle
from autosched.tir.walk import map_children, map_expr_children, stmts
from autosched.tir.warpgroup_matrix import (
    WGMMA_SWIZZLED,
    WGMMA_TILES,
    group_product_of,
    wgmma_swizzle,
)
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

KEY = "pragma_swizzle"
_SHARED = ("shared", "shared.dyn")


@dataclass(frozen=True)
class SwizzleShared(FunctionPass):
    """Apply the pragma `swizzle` to the buffers in shared memory that are stored to inside it.

    The value of the pragma is a text of three numbers, `bits base source`. For all reads and
    writes, element e is stored at

        e ^ ((e >> source) % 2**bits << base)

    Raises ScheduleError if the size of such a buffer is no multiple of 2**(source + bits), if its
    pointer is used without an offset or for strided rows, or if one access moves elements that the
    swizzle separates.
    """

    name: ClassVar[str] = "SwizzleShared"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        pragmas = [s for s in stmts(func.body) if isinstance(s, AttrStmt) and s.key == KEY]
        if not pragmas:
            return func
        marked: dict[Var, Swizzle] = {}
        for s in pragmas:
            wanted = _swizzle(s.value, func.name)
            for inner in stmts(s.body):
                if isinstance(inner, BufferStore) and inner.buffer.scope in _SHARED:
                    marked[inner.buffer.data] = wanted
        return func.with_body(_Swizzler(func.name, marked).stmt(func.body))


def _swizzle(value: Expr, function: str) -> Swizzle:
    text = value.value if isinstance(value, StringImm) else repr(value)
    try:
        return Swizzle.from_text(text)
    except ValueError as error:
        raise ScheduleError(f"SwizzleShared: {function}: {error}") from None


def _moved_at_once(e: Call) -> float:
    """The bytes that a call moves from one address on; infinite for calls on strided rows."""
    match e:
        case Call(op="ptx_ldmatrix"):
            return 16
        case Call(op="ptx_cp_async", args=(_, _, _, _, IntImm(value=size), *_)):
            return size
    return inf


class _Swizzler:
    def __init__(self, function: str, marked: dict[Var, Swizzle]) -> None:
        self.function = function
        self.marked = marked
        self.analyzer = Analyzer()
        self.memo: dict[Expr, Expr] = {}

    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case AttrStmt(key="pragma_swizzle"):
                return self.stmt(s.body)
            case Allocate() if s.buffer_var in self.marked:
                self._check_size(s)
        new = map_children(s, self.stmt, self.expr)
        if isinstance(new, BufferStore) and new.buffer.data in self.marked:
            (index,) = new.indices
            place = self._placed(new.buffer, index)
            return BufferStore(new.buffer, new.value, (place,), new.predicate)
        return new

    def _check_size(self, s: Allocate) -> None:
        swizzle = self.marked[s.buffer_var]
        sizes = [e.value for e in s.extents if isinstance(e, IntImm)]
        if len(sizes) != 1 or len(s.extents) != 1 or sizes[0] % swizzle.period:
            raise ScheduleError(
                f"SwizzleShared: {self.function}: {s.buffer_var.name} has {s.extents} elements, "
                f"expected a multiple of {swizzle.period}, the number that is permuted together"
            )

    def expr(self, e: Expr) -> Expr:
        done = self.memo.get(e)
        if done is None:
            done = self.memo[e] = self._rewritten(e)
        return done

    def _rewritten(self, e: Expr) -> Expr:
        if isinstance(e, Call) and e.op == "ptx_wgmma":
            return self._product(e)
        if isinstance(e, Call) and e.op in POINTER_OFFSETS:
            return self._call(e)
        match e:
            case Call(op="address_of", args=(BufferLoad() as load,)):
                self._check_pointer(load.buffer.data)
            case Var():
                self._check_pointer(e)
        new = map_expr_children(e, self.expr)
        if isinstance(new, BufferLoad) and new.buffer.data in self.marked:
            (index,) = new.indices
            return BufferLoad(new.buffer, (self._placed(new.buffer, index),), new.predicate)
        return new

    def _call(self, e: Call) -> Expr:
        args = list(e.args)
        pairs = POINTER_OFFSETS[e.op]
        pointers = {k for k, _ in pairs}
        args = [
            a if k in pointers and isinstance(a, Var) else self.expr(a) for k, a in enumerate(args)
        ]
        for k, at in pairs:
            data = args[k]
            if isinstance(data, Var) and data in self.marked:
                swizzle = self.marked[data]
                if _moved_at_once(e) > e.dtype.bytes << swizzle.base:
                    raise ScheduleError(
                        f"SwizzleShared: {self.function}: {e.op} of {data.name} moves more than "
                        f"the {1 << swizzle.base} elements of the swizzle {swizzle} that stay "
                        "together"
                    )
                args[at] = swizzle.place(args[at])
        return Call(e.dtype, e.op, tuple(args))

    def _check_pointer(self, data: Var) -> None:
        if data in self.marked:
            raise ScheduleError(
                f"SwizzleShared: {self.function}: the address of {data.name} is used as a value, "
                "so that its elements cannot change places"
            )

    def _product(self, e: Call) -> Expr:
        """A call of wgmma on swizzled tiles: the instruction applies the swizzle itself."""
        product = group_product_of(e.args)
        if isinstance(product, str):
            raise ScheduleError(f"SwizzleShared: {self.function}: ptx_wgmma: {product}: {e!r}")
        pointers = (e.args[k] for k in WGMMA_TILES)
        tiles = [self.marked.get(data) for data in pointers if isinstance(data, Var)]
        wanted = wgmma_swizzle(product.left)
        if any(swizzle != wanted for swizzle in tiles):
            raise ScheduleError(
                f"SwizzleShared: {self.function}: wgmma reads tiles of {product.left} with the "
                f"swizzle {wanted}, found {', '.join(map(str, tiles))}"
            )
        args = [a if k in WGMMA_TILES else self.expr(a) for k, a in enumerate(e.args)]
        args[WGMMA_SWIZZLED] = IntImm(1)
        return Call(e.dtype, e.op, tuple(args))

    def _placed(self, buffer: Buffer, index: Expr) -> Expr:
        swizzle = self.marked[buffer.data]
        if buffer.elem_offset is not None or buffer.strides:
            raise ScheduleError(
                f"SwizzleShared: {self.function}: {buffer.name} does not begin where its memory "
                "does, or has strides; flatten storage first"
            )
        if index.dtype.lanes == 1:
            return swizzle.place(index)
        together = 1 << swizzle.base
        if isinstance(index, Ramp) and is_one(index.stride):
            first = self.analyzer.modular_set(index.base)
            lanes = index.lanes
            whole = together % lanes == 0 and first.coeff % lanes == 0 and first.base % lanes == 0
            if whole:
                return Ramp(swizzle.place(index.base), index.stride, lanes)
        raise ScheduleError(
            f"SwizzleShared: {self.function}: {buffer.name} is accessed at {index!r}, which is not "
            f"within {together} elements that stay together; vectorize less"
        )
