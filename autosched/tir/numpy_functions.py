"""The behaviour of NumPy's operators and functions on expressions and tensors."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

_OPERATORS = {
    "add": ("__add__", "__radd__"),
    "subtract": ("__sub__", "__rsub__"),
    "multiply": ("__mul__", "__rmul__"),
    "divide": ("__truediv__", "__rtruediv__"),
    "floor_divide": ("__floordiv__", "__rfloordiv__"),
    "remainder": ("__mod__", "__rmod__"),
    "power": ("__pow__", "__rpow__"),
    "bitwise_and": ("__and__", "__rand__"),
    "bitwise_or": ("__or__", "__ror__"),
    "bitwise_xor": ("__xor__", "__rxor__"),
    "left_shift": ("__lshift__", "__rlshift__"),
    "right_shift": ("__rshift__", "__rrshift__"),
    "equal": ("__eq__", "__eq__"),
    "not_equal": ("__ne__", "__ne__"),
    "less": ("__lt__", "__gt__"),
    "less_equal": ("__le__", "__ge__"),
    "greater": ("__gt__", "__lt__"),
    "greater_equal": ("__ge__", "__le__"),
    "negative": ("__neg__", ""),
    "absolute": ("__abs__", ""),
    "invert": ("__invert__", ""),
}
"""For each ufunc: the method of the first operand, and of the second if the first is NumPy's."""

_SAME = (
    "exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan sinh cosh tanh floor ceil trunc fmod "
    "hypot copysign isnan isinf isfinite logical_and logical_or logical_not"
)
_HERE = {
    **{name: name for name in _SAME.split()},
    **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2")},
    "rint": "nearbyint",
    "round": "nearbyint",
    "fabs": "abs",
    "maximum": "max",
    "minimum": "min",
    "clip": "max and te.min",
    "where": "if_then_else",
    "sum": "sum over a te.reduce_axis",
    "prod": "prod over a te.reduce_axis",
    "max": "max over a te.reduce_axis",
    "min": "min over a te.reduce_axis",
    "mean": "sum over a te.reduce_axis",
    "dot": "sum of products over a te.reduce_axis",
    "matmul": "sum of products over a te.reduce_axis",
    "argmax": "comm_reducer",
    "argmin": "comm_reducer",
    "cumsum": "scan",
    "concatenate": "if_then_else of the indices",
}
"""For each NumPy function: the name of its counterpart in te."""


class NumpyFunctions:
    """The base of classes whose instances are operands beside NumPy's numbers, but no arrays.

    Without it NumPy would treat an instance as an element of an object array.
    """

    __slots__ = ()
    __array_priority__: ClassVar[float] = 1000.0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """The result of the operator that `ufunc` stands for; TypeError for other ufuncs."""
        methods = _OPERATORS.get(ufunc.__name__)
        if methods is None or method != "__call__" or options:
            raise TypeError(_refusal(ufunc.__name__, inputs))
        first, *others = map(_plain, inputs)
        if isinstance(first, NumpyFunctions):
            return getattr(first, methods[0])(*others)
        return getattr(others[0], methods[1])(first)

    def __array_function__(
        self, function: Any, types: Any, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        """Raise a TypeError that says what to write instead of a NumPy function."""
        raise TypeError(_refusal(function.__name__, args))


def _plain(value: Any) -> Any:
    """A NumPy number, or a zero-dimensional array, as a Python number; others unchanged."""
    return value.item() if isinstance(value, np.generic) or _is_number(value) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 0


def _refusal(name: str, args: tuple[Any, ...]) -> str:
    own = ", ".join(repr(a) for a in args if isinstance(a, NumpyFunctions))
    remedy = f"te.{_HERE[name]}" if name in _HERE else "the functions of te"
    return f"numpy.{name} takes arrays, found {own}; write {remedy}"
