"""The types of a built-in of built_ins.py; runs in the peer's interpreter alone."""

from __future__ import annotations

from typing import Any, NamedTuple

from tvm import te, tir


class Types(NamedTuple):
    """Of inputs, of the second operand of a product, of sums and of outputs."""

    inputs: str
    weights: str
    acc: str
    out: str

    def wide(self, element: Any) -> Any:
        """An element in the type of sums."""
        return element.astype(self.acc)

    def sum(self, left: Any, right: Any, axes: list[Any]) -> Any:
        """The sum of products."""
        return te.sum(self.wide(left) * self.wide(right), axes)

    def narrow(self, element: Any) -> Any:
        """An element in the type of outputs; integers that do not fit become the nearest."""
        given = element.dtype
        if "int" in given and "int" in self.out:
            low, high = (int(f(self.out).value) for f in (te.min_value, te.max_value))
            if int(te.max_value(given).value) > high:
                element = te.min(element, tir.const(high, given))
            if int(te.min_value(given).value) < low:
                element = te.max(element, tir.const(low, given))
        return element.astype(self.out)

    def before(self, name: str) -> str:
        """What the sum is called that the output `name` is made of."""
        return name if self.acc == self.out else f"{name}_acc"

    def output(self, total: Any, name: str) -> Any:
        """The sums in the type of outputs."""
        if self.acc == self.out:
            return total
        axes = [axis.var.name for axis in total.op.axis]
        names: dict[str, Any] = {"f": lambda *at: self.narrow(total(*at))}
        element = eval(f"lambda {', '.join(axes)}: f({', '.join(axes)})", names)
        return te.compute(total.shape, element, name=name)


FLOAT32 = Types("float32", "float32", "float32", "float32")
