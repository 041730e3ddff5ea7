"""How a kernel is called: arguments by position or by name, outputs that may be left out.

This file needs the standard library only, because exported modules hold a copy of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

Refusal = Callable[[str], Exception]
"""Creates the exception of a refused call from its message."""


class Spec(Protocol):
    """A parameter of a kernel: `shape` is None for a number."""

    @property
    def name(self) -> str:
        """The tensor's name."""

    @property
    def dtype(self) -> str:
        """The name of the element type."""

    @property
    def shape(self) -> tuple[Any, ...] | None:
        """The extents: numbers, or names of sizes."""

    @property
    def is_output(self) -> bool:
        """Whether the kernel writes it."""


def no_copy() -> TypeError:
    """The error that says why a kernel cannot be pickled or copied."""
    return TypeError(
        "a loaded kernel is machine code of this process, which cannot be pickled or copied; "
        "make it where it is called: autosched.load_best(FILE), or import the exported module"
    )


def arrange(
    symbol: str,
    specs: Sequence[Spec],
    args: Sequence[Any],
    named: Mapping[str, Any],
    allocate: Callable[[Spec], Any],
    refusal: Refusal,
) -> tuple[list[Any], list[Any]]:
    """Assign a call's arguments to the parameters.

        kernel(a, b, c)    kernel(a, b)    kernel(A=a, B=b, C=c)    kernel(a, b, out=c)

    Returns one value for each parameter, and the outputs among them that `allocate` made because
    the call left them out. Positional arguments are all parameters in order, or only the inputs in
    order. `out` is the output, a tuple of several, or None. Raises the exception that `refusal`
    makes for a name that is unknown or given twice, and when an input or some of the outputs are
    missing.
    """
    outputs = [i for i, spec in enumerate(specs) if spec.is_output]
    inputs = [i for i, spec in enumerate(specs) if not spec.is_output]
    positions = {spec.name: i for i, spec in enumerate(specs)}
    places = inputs if len(args) <= len(inputs) else range(len(specs))
    if len(args) > len(specs):
        raise refusal(_count(symbol, specs, len(args) + len(named)))
    values: dict[int, Any] = dict(zip(places, args, strict=False))
    for name, value in _outputs_named(symbol, specs, named, outputs, refusal).items():
        if name not in positions:
            known = ", ".join(positions)
            raise refusal(f"{symbol} has no argument {name!r}; its arguments are {known}")
        place = positions[name]
        if place in values:
            raise refusal(
                f"{symbol}: argument {place + 1} ({name}) is given twice, by position and by name"
            )
        values[place] = value
    made = []
    if any(i not in values for i in inputs):
        raise refusal(_count(symbol, specs, len(values)))
    if not any(i in values for i in outputs) and all(is_constant(specs[i]) for i in outputs):
        made = [allocate(specs[i]) for i in outputs]
        values.update(zip(outputs, made, strict=True))
    if len(values) < len(specs):
        raise refusal(_count(symbol, specs, len(values)))
    return [values[i] for i in range(len(specs))], made


def is_constant(spec: Spec) -> bool:
    """Whether the parameter is an array whose shape is all numbers."""
    return spec.shape is not None and all(isinstance(extent, int) for extent in spec.shape)


def constant_shape(spec: Spec) -> tuple[int, ...]:
    """The shape of an array whose shape is all numbers."""
    return tuple(int(extent) for extent in spec.shape or ())


def result_of(made: Sequence[Any]) -> Any:
    """The result of a call: the output that it made, a tuple of several, None without any."""
    return made[0] if len(made) == 1 else tuple(made) or None


def signature(symbol: str, specs: Sequence[Spec]) -> str:
    """The kernel's signature: `matmul(A: float32[8, 8], B: float32[8, 8]) -> C: float32[8, 8]`."""
    inputs = ", ".join(_text(spec) for spec in specs if not spec.is_output)
    outputs = ", ".join(_text(spec) for spec in specs if spec.is_output)
    return f"{symbol}({inputs}) -> {outputs or None}"


def _text(spec: Spec) -> str:
    shape = "" if spec.shape is None else f"[{', '.join(map(str, spec.shape))}]"
    return f"{spec.name}: {spec.dtype}{shape}"


def _outputs_named(
    symbol: str,
    specs: Sequence[Spec],
    named: Mapping[str, Any],
    outputs: Sequence[int],
    refusal: Refusal,
) -> Mapping[str, Any]:
    """`named` with `out` assigned to the outputs, unless a parameter is called `out`.

    `out=None` counts as not given, as in NumPy's functions, unless an input is called `out`.
    """
    if "out" not in named:
        return named
    given = named["out"]
    called_so = [spec for spec in specs if spec.name == "out"]
    if given is None and all(spec.is_output for spec in called_so):
        return {name: value for name, value in named.items() if name != "out"}
    if called_so:
        return named
    several = tuple(given) if isinstance(given, tuple | list) else (given,)
    if len(several) != len(outputs):
        names = ", ".join(specs[i].name for i in outputs)
        raise refusal(
            f"{symbol}: out must be {len(outputs)} of its outputs ({names}), found {len(several)}"
        )
    for i in outputs:
        if specs[i].name in named:
            raise refusal(
                f"{symbol}: argument {i + 1} ({specs[i].name}) is given twice, by name and by out"
            )
    rest = {name: value for name, value in named.items() if name != "out"}
    return rest | {specs[i].name: value for i, value in zip(outputs, several, strict=True)}


def _count(symbol: str, specs: Sequence[Spec], found: int) -> str:
    names = ", ".join(s.name for s in specs)
    return f"{symbol} takes {len(specs)} arguments ({names}), found {found}"
