"""Registers of floats of one width, and the instructions that their polynomials need."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autosched.codegen.llvm_builder import FunctionBuilder
from autosched.codegen.llvm_types import constant, llvm_type, splat, suffix
from autosched.tir.dtype import DType, bool_

_TABLE = 16
"""Lanes of an AVX-512 register of float32, and entries of a table that it holds."""


class Lanes:
    """Writes the instructions that polynomials of float32 or float64 registers need.

    All registers have one width. Tables and `limit_size` are for float32.
    """

    def __init__(self, b: FunctionBuilder, dtype: DType) -> None:
        self.b = b
        self.dtype = dtype
        self.kind = llvm_type(dtype)
        self.ints = DType(f"int{dtype.bits}").with_lanes(dtype.lanes)
        self.int_kind = llvm_type(self.ints)
        self.flags = llvm_type(bool_.with_lanes(dtype.lanes))
        self.field = 23 if dtype.bits == 32 else 52  # bits below the exponent
        # Adding this number to a float rounds the float to a whole number, which stands in the last
        # bits of the sum.
        self.whole = 1.5 * 2.0**self.field

    def const(self, value: float) -> str:
        """The literal with `value` in each lane."""
        return splat(value, self.dtype)

    def int_const(self, value: int) -> str:
        """The literal with the integer `value` in each lane."""
        return splat(value, self.ints)

    def _op(self, name: str, x: str, y: str) -> str:
        return self.b.emit(f"{name} {self.kind} {x}, {y}")

    def add(self, x: str, y: str) -> str:
        """x + y."""
        return self._op("fadd", x, y)

    def sub(self, x: str, y: str) -> str:
        """x - y."""
        return self._op("fsub", x, y)

    def mul(self, x: str, y: str) -> str:
        """x y."""
        return self._op("fmul", x, y)

    def div(self, x: str, y: str) -> str:
        """x / y."""
        return self._op("fdiv", x, y)

    def neg(self, x: str) -> str:
        """-x."""
        return self.b.emit(f"fneg {self.kind} {x}")

    def fma(self, x: str, y: str, z: str) -> str:
        """x y + z, fused where the machine can."""
        name = f"llvm.fmuladd.{suffix(self.dtype)}"
        return self.b.call(name, self.kind, [(self.kind, v) for v in (x, y, z)])

    def intrinsic(self, name: str, *args: str) -> str:
        """LLVM's function of that name."""
        full = f"llvm.{name}.{suffix(self.dtype)}"
        return self.b.call(full, self.kind, [(self.kind, v) for v in args])

    def test(self, relation: str, x: str, y: str) -> str:
        """The lanes for which `fcmp` holds."""
        return self.b.emit(f"fcmp {relation} {self.kind} {x}, {y}")

    def choose(self, test: str, x: str, y: str) -> str:
        """x where `test` holds, else y."""
        return self.b.emit(f"select {self.flags} {test}, {self.kind} {x}, {self.kind} {y}")

    def both(self, x: str, y: str) -> str:
        """The lanes for which both tests hold."""
        return self.b.emit(f"and {self.flags} {x}, {y}")

    def either(self, x: str, y: str) -> str:
        """The lanes for which one test holds or both do."""
        return self.b.emit(f"or {self.flags} {x}, {y}")

    def int_op(self, name: str, x: str, y: str) -> str:
        """An operation on integers."""
        return self.b.emit(f"{name} {self.int_kind} {x}, {y}")

    def int_test(self, relation: str, x: str, y: str) -> str:
        """The lanes for which `icmp` holds."""
        return self.b.emit(f"icmp {relation} {self.int_kind} {x}, {y}")

    def bits(self, x: str) -> str:
        """The bits of x as integers."""
        return self.b.emit(f"bitcast {self.kind} {x} to {self.int_kind}")

    def from_bits(self, x: str) -> str:
        """The floats that have those bits."""
        return self.b.emit(f"bitcast {self.int_kind} {x} to {self.kind}")

    def clamp(self, x: str, low: float, high: float) -> str:
        """x limited to [low, high]; NaN becomes `low`."""
        x = self.choose(self.test("ogt", x, self.const(low)), x, self.const(low))
        return self.choose(self.test("olt", x, self.const(high)), x, self.const(high))

    def limit(self, x: str, low: float, high: float) -> str:
        """x limited to [low, high]; NaN stays.

        Each limit is one instruction, which returns its second operand if one of them is NaN.
        """
        x = self.choose(self.test("ogt", self.const(low), x), self.const(low), x)
        return self.choose(self.test("olt", self.const(high), x), self.const(high), x)

    @property
    def scales_at_once(self) -> bool:
        """Whether an instruction multiplies by powers of two."""
        return self.b.module.scales and self.dtype.lanes > 1

    def scale(self, x: str, n: str) -> str:
        """x 2**n for whole numbers n, in registers of 128 to 512 bits; needs `scales_at_once`."""
        bits = self.dtype.bits
        width = next((w for w in (128 // bits, 256 // bits) if self.dtype.lanes <= w), 512 // bits)
        part, rest = self._register(width), _unmasked(width * bits, width)

        def scaled(registers: Sequence[str]) -> str:
            name = f"llvm.x86.avx512.mask.scalef.{'ps' if bits == 32 else 'pd'}.{bits * width}"
            operands = [(part, register) for register in registers]
            return self.b.call(name, part, [*operands, (part, "zeroinitializer"), *rest])

        return self._in_registers((x, n), width, scaled)

    @property
    def scale_bias(self) -> int:
        """By how much the exponents for `scale_by_bits` are too large: the bias of two floats."""
        return 254 if self.dtype.bits == 32 else 2046

    def scale_by_bits(self, x: str, n: str) -> str:
        """x 2**k in six instructions, where the last bits of the floats n hold k + `scale_bias`.

        The whole number k reaches from below the exponent of half the least subnormal to that of
        infinity.

        2**k may not be a float, so that it is applied in two halves, k >> 1 and the rest. The bits
        of n moved to the exponent, one place further right, are the exponent of the first half.
        Below it stands the last bit of k, which is cleared. The second half is what the first
        leaves of k. NaN stays NaN whatever n is.
        """
        bits = self.bits(n)
        first = self.int_op("shl", bits, self.int_const(self.field - 1))
        first = self.int_op("and", first, self.int_const(-(1 << self.field)))
        both = self.int_op("shl", bits, self.int_const(self.field))
        second = self.int_op("sub", both, first)
        return self.mul(self.mul(x, self.from_bits(first)), self.from_bits(second))

    @property
    def has_tables(self) -> bool:
        """Whether a register can hold a table of sixteen numbers, and over eight lanes use it."""
        of_floats = self.dtype.bits == 32 and self.dtype.lanes > _TABLE // 2
        return self.b.module.scales and of_floats

    def look_up(self, table: Sequence[float], x: str) -> str:
        """The entries of `table`, which has sixteen, at the last four bits of each lane of x."""
        part = self._register(_TABLE)
        entries = f"<{', '.join(f'float {constant(v, self.dtype.element)}' for v in table)}>"

        def found(registers: Sequence[str]) -> str:
            ints = f"<{_TABLE} x i32>"
            number = self.b.emit(f"bitcast {part} {registers[0]} to {ints}")
            name = "llvm.x86.avx512.permvar.sf.512"
            return self.b.call(name, part, [(part, entries), (ints, number)])

        return self._in_registers((x,), _TABLE, found)

    def limit_size(self, x: str, most: float) -> str:
        """x limited to [-most, most] in one instruction; NaN becomes one of the limits."""
        part = self._register(_TABLE)
        bound = splat(most, self.dtype.element.with_lanes(_TABLE))

        def limited(registers: Sequence[str]) -> str:
            smaller = ("i32", "2")  # the smaller magnitude, with the sign of the first operand
            operands = [(part, registers[0]), (part, bound), smaller, (part, "zeroinitializer")]
            name = "llvm.x86.avx512.mask.range.ps.512"
            return self.b.call(name, part, [*operands, *_unmasked(512, _TABLE)])

        return self._in_registers((x,), _TABLE, limited)

    def _in_registers(
        self, values: Sequence[str], width: int, one: Callable[[Sequence[str]], str]
    ) -> str:
        """The result of `one` for all lanes of `values`, in registers of `width` lanes each."""
        lanes, total = self.dtype.lanes, ""
        for start in range(0, lanes, width):
            parts = [self._shuffle(v, lanes, range(start, start + width)) for v in values]
            total = self._joined(total, one(parts), start, width)
        return self._shuffle(total, -(-lanes // width) * width, range(lanes))

    def _joined(self, total: str, part: str, count: int, width: int) -> str:
        """The `count` lanes of `total`, and the lanes of `part` behind them."""
        if not count:
            return part
        both, wide = self._register(count), self._shuffle(part, width, range(count))
        order = ", ".join(f"i32 {k}" for k in range(count + width))
        return self.b.emit(
            f"shufflevector {both} {total}, {both} {wide}, <{count + width} x i32> <{order}>"
        )

    def _shuffle(self, x: str, lanes: int, order: range) -> str:
        """The lanes `order` of x, which has `lanes` lanes; lanes beyond these are undefined."""
        if order == range(lanes):
            return x
        chosen = ", ".join(f"i32 {k}" if k < lanes else "i32 poison" for k in order)
        kind = self._register(lanes)
        return self.b.emit(
            f"shufflevector {kind} {x}, {kind} poison, <{len(order)} x i32> <{chosen}>"
        )

    def _register(self, lanes: int) -> str:
        return f"<{lanes} x {llvm_type(self.dtype.element)}>"

    def keep_nan(self, x: str, y: str) -> str:
        """y, but x where x is NaN."""
        return self.choose(self.test("uno", x, x), x, y)

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """The polynomial at x by Horner's rule; coefficients come highest power first."""
        total = self.const(coefficients[0])
        for c in coefficients[1:]:
            total = self.fma(total, x, self.const(c))
        return total


def _unmasked(bits: int, lanes: int) -> list[tuple[str, str]]:
    """The last operands of AVX-512's functions on registers of `bits` bits.

    They select all lanes and the default rounding.
    """
    mask = ("i16" if lanes == 16 else "i8", "-1")
    return [mask, ("i32", "4")] if bits == 512 else [mask]
