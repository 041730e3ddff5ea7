"""Workloads: named computations of a few integer arguments, with their references."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.errors import ConfigError
from autosched.te.bounds.loop_length import MOST_ITERATIONS
from autosched.te.operations.graph import post_order_ops
from autosched.te.operations.operation import LAYOUT_FREE
from autosched.te.operations.tensor import Tensor
from autosched.tir.dtype import DType
from autosched.tir.expr import IntImm
from autosched.words import either
from autosched.workloads.numpy_version import NumpyVersion
from autosched.workloads.type_rules import TypeRules
from autosched.workloads.types import Types

Array = npt.NDArray[Any]
MAX_SIZE = MOST_ITERATIONS  # indices are int32


def normalised(name: str) -> str:
    """`name` as Python reads identifiers: letters that look alike become one (NFKC)."""
    return unicodedata.normalize("NFKC", name)


@dataclass(frozen=True)
class Workload:
    """A named computation with its NumPy reference.

    - `args`: the integer arguments, in the positional order of Ansor's workload keys, with their
      defaults (None: required). They are at least 1, or what `least` says, or one of `choices`.
    - `define`: `define(types=..., **args)` returns the tensors.
    - `compute`: `compute(inputs, **args)` returns the results in float64 or the integers' type.
    - `types`: the rules for the arguments that name types.
    - `values`: integer arguments that are values of one of the `Types`, with that type's name.
    - `check`: says what is wrong with the integer arguments.
    - `draw`: `draw(rng, inputs, types)` replaces random inputs for which a check shows little.
    - `n_outputs`: how many of the last tensors are results.
    """

    name: str
    doc: str
    args: Mapping[str, int | None]
    define: Callable[..., list[Tensor]]
    compute: Callable[..., list[Array]]
    types: TypeRules = field(default_factory=TypeRules)
    least: Mapping[str, int] = field(default_factory=lambda: {"padding": 0})
    choices: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    check: Callable[..., str | None] | None = None
    draw: Callable[[np.random.Generator, list[Array], Types], list[Array]] | None = None
    n_outputs: int = field(default=1)

    def resolve(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Check `args` and complete them with defaults, in positional order, types last.

        Where all types are equal, `dtype` is given; otherwise `in_dtype`, `acc_dtype` and
        `out_dtype` (and `weight_dtype` if it differs from `in_dtype`). Raises ConfigError naming an
        argument that is unknown, missing, of a wrong type or out of range.
        """
        sizes, types = self._resolved(args)
        return {**sizes, **types.to_json()}

    def types_of(self, args: Mapping[str, Any]) -> Types:
        """The types that `args` determine. Raises ConfigError as `resolve` does."""
        return self._resolved(args)[1]

    def _resolved(self, args: Mapping[str, Any]) -> tuple[dict[str, int], Types]:
        known = (*self.args, *self.types.names)
        for key in args:
            if key not in known:
                close = difflib.get_close_matches(str(key), known, 1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise ConfigError(
                    f"workload {self.name}: unknown argument {key!r}, expected "
                    f"{', '.join(known)}{hint}"
                )
        missing = [key for key, default in self.args.items() if key not in args and default is None]
        if missing:
            raise ConfigError(f"workload {self.name}: missing argument {', '.join(missing)}")
        sizes = {
            key: self._integer(key, args.get(key, default)) for key, default in self.args.items()
        }
        types = self.types.resolve(self.name, args)
        for key, kind in self.values.items():
            self._require_value(key, sizes[key], getattr(types, kind))
        problem = self.check(**sizes) if self.check else None
        if problem:
            raise ConfigError(f"workload {self.name}: {problem}")
        return sizes, types

    def _integer(self, key: str, value: Any) -> int:
        if not isinstance(value, int | np.integer) or isinstance(value, bool):
            raise ConfigError(
                f"workload {self.name}: argument {key} must be an integer, found "
                f"{type(value).__name__} {value!r}"
            )
        least, choices = self.least.get(key, 1), self.choices.get(key)
        problem = None
        if choices is not None:
            problem = None if value in choices else either(map(str, choices))
        elif value < least:
            problem = f"at least {least}"
        elif value > MAX_SIZE:
            problem = f"at most {MAX_SIZE}"
        if problem is not None:
            raise ConfigError(
                f"workload {self.name}: argument {key} must be {problem}, found {value}"
            )
        return int(value)

    def _require_value(self, key: str, value: int, dtype: str) -> None:
        low, high = DType(dtype).min_value, DType(dtype).max_value
        if not low <= value <= high:
            raise ConfigError(
                f"workload {self.name}: argument {key} must be {low} to {high}, the values of "
                f"{dtype}, found {value}"
            )

    def tensors(self, **args: Any) -> list[Tensor]:
        """The argument tensors of a fresh definition: inputs, then outputs."""
        sizes, types = self._resolved(args)
        tensors = self.define(types=types, **sizes)
        for tensor in tensors:
            if any(size < 1 for size in shape_of(tensor)):
                raise ConfigError(
                    f"workload {self.name}: {tensor.name} would have the empty shape "
                    f"{shape_of(tensor)}; the window does not fit the padded input"
                )
        return tensors

    def reference(self, inputs: Sequence[Array], **args: Any) -> list[Array]:
        """The outputs that NumPy computes from `inputs`, accumulating floats in float64.

        Sums of integers wrap, before what follows them.
        """
        sizes, types = self._resolved(args)
        acc = DType(types.acc)
        kind = np.dtype(np.float64) if acc.is_float else acc.numpy
        wide = [widened(np.asarray(a), kind) for a in inputs]
        return [types.rounded(np.asarray(r)) for r in self.compute(wide, **sizes)]

    def numpy_version(self, **args: Any) -> NumpyVersion:
        """The reference in the accumulator's type, or `numpy.matmul`.

        Every call of `numpy.matmul` writes its product to the same array, as a kernel does; for
        floats it uses OpenBLAS. Narrower inputs are converted in every call.
        """
        sizes, types = self._resolved(args)
        acc = DType(types.acc).numpy
        if types.one is None:
            return NumpyVersion("NumPy", lambda inputs: self._converted(inputs, acc, types, sizes))
        if self.name not in ("matmul", "batch_matmul"):
            return NumpyVersion("NumPy", lambda inputs: self.compute(inputs, **sizes))
        out = np.empty(shape_of(self.tensors(**args)[-1]), acc)
        name = "numpy.matmul (OpenBLAS)" if types.acc in ("float32", "float64") else "numpy.matmul"
        return NumpyVersion(name, lambda inputs: [np.matmul(inputs[0], inputs[1], out=out)])

    def _converted(
        self, inputs: Sequence[Array], acc: np.dtype[Any], types: Types, sizes: Mapping[str, int]
    ) -> list[Array]:
        wide = [widened(a, acc) for a in inputs]
        return [types.rounded(np.asarray(r)) for r in self.compute(wide, **sizes)]

    def inputs(self, seed: int = 0, **args: Any) -> list[Array]:
        """Random inputs for the reference and the kernels; see `random_inputs`.

        Integers of more than 8 bits that are added up as integers are so large that sums need the
        accumulator's bits, and so small that these suffice.
        """
        every, types = self.tensors(**args), self.types_of(args)
        tensors, acc = every[: -self.n_outputs], DType(types.acc)
        values: dict[Tensor, range] = {}
        if acc.is_integral:
            most = int(acc.max_value) if self.types.moves else 1 << (acc.bits // 2 - 6)
            for tensor in (t for t in tensors if t.dtype.is_integral and t.dtype.bits > 8):
                least = min(most, int(tensor.dtype.max_value))
                values[tensor] = range(-least, least + 1)
        arrays = random_inputs(tensors, seed, values, double=computes_in_double(every))
        if self.draw is None:
            return arrays
        return self.draw(np.random.default_rng([seed, 1]), arrays, types)

    def signature(self) -> str:
        """The signature as text: `name(M, N, dilation=1, dtype='float32')`."""
        parts = [k if d is None else f"{k}={d}" for k, d in self.args.items()]
        types = self.types.default
        return f"{self.name}({', '.join([*parts, *(f'{k}={v!r}' for k, v in types.items())])})"


def layout_free(*tensors: Tensor) -> dict[str, Any]:
    """Attributes for a `te.compute` whose inputs `tensors` may be stored in another order.

    Nothing changes unless a task asks for a layout rewrite. Name inputs that users keep constant,
    such as weights.
    """
    return {LAYOUT_FREE: list(tensors)}


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    """The constant shape of `tensor`; ConfigError when a size is symbolic."""
    sizes = []
    for extent in tensor.shape:
        if not isinstance(extent, IntImm):
            raise ConfigError(f"{tensor.name}: the size {extent!r} is not a constant")
        sizes.append(extent.value)
    return tuple(sizes)


def widened(array: Array, kind: np.dtype[Any]) -> Array:
    """`array` in `kind`; floats stay as they are where that is a type of integers."""
    floats = array.dtype.kind not in "iu"
    return array if kind.kind in "iu" and floats else array.astype(kind, copy=False)


def random_inputs(
    tensors: Sequence[Tensor],
    seed: int = 0,
    indices: Mapping[Tensor, range] | None = None,
    *,
    double: bool = False,
    wide: Collection[Tensor] = (),
) -> list[Array]:
    """One random array per tensor, the same for the same seed.

    A tensor in `indices` holds values of that range. Floats are normal with deviation 1, rounded to
    1/256 so that short float32 sums stay accurate (and then to their type). Those of float64, and
    all floats for computations in `double`, are rounded to 2**-24: float32 would not do. 8-bit
    integers have any value; other integers are in [-4, 4] ([0, 4] when unsigned), but half of those
    of the tensors in `wide` have any value; booleans are even odds.
    """
    rng = np.random.default_rng(seed)
    arrays = []
    for tensor in tensors:
        shape, dtype = shape_of(tensor), tensor.dtype.numpy
        if indices and tensor in indices:
            values = indices[tensor]
            arrays.append(rng.integers(values.start, values.stop, shape).astype(dtype))
        else:
            array = random_array(rng, shape, dtype, double)
            arrays.append(_half_wide(rng, array) if tensor in wide else array)
    return arrays


def _half_wide(rng: np.random.Generator, array: Array) -> Array:
    """`array` with any value in half of its elements, if they are integers of more than 8 bits."""
    if array.dtype.kind not in "iu" or array.dtype.itemsize == 1:
        return array
    limits = np.iinfo(array.dtype)
    values = rng.integers(limits.min, limits.max, array.shape, array.dtype, endpoint=True)
    return np.where(rng.integers(0, 2, array.shape) == 0, values, array)


def computes_in_double(tensors: Sequence[Tensor]) -> bool:
    """Whether every float that is computed on the way to `tensors` is a float64."""
    computed = (
        t for op in post_order_ops([t.op for t in tensors]) if op.inputs for t in op.outputs
    )
    kinds = {tensor.dtype for tensor in computed if tensor.dtype.is_float}
    return kinds == {DType("float64")}


def random_array(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], double: bool = False
) -> Array:
    """A random array of `dtype` as `random_inputs` describes."""
    if dtype.kind not in "iub":  # ml_dtypes' floats have kind V
        parts = 1 << 24 if double or dtype == np.float64 else 256
        values: Array = np.round(rng.standard_normal(shape) * parts) / parts
    elif dtype.kind == "b":
        values = rng.integers(0, 2, shape)
    else:
        usual = usual_integers(dtype)
        values = rng.integers(usual.start, usual.stop, shape)
    return np.asarray(values, dtype, order="C")


def usual_integers(dtype: np.dtype[Any]) -> range:
    """The values of random integers: all of 8 bits, few of more."""
    if dtype.itemsize == 1:
        return range(int(np.iinfo(dtype).min), int(np.iinfo(dtype).max) + 1)
    return range(-4 if dtype.kind == "i" else 0, 5)


def output_size(size: int, kernel: int, stride: int, padding: int, dilation: int = 1) -> int:
    """The length of a convolution's output axis."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def window_problem(sizes: Mapping[str, int], kernel: int, padding: int) -> str | None:
    """Say why a window of `kernel` elements does not fit one of `sizes`; None if it fits all."""
    for name, size in sizes.items():
        if size + 2 * padding < kernel:
            return (
                f"argument {name}={size} with padding {padding} is smaller than the window of "
                f"{kernel} elements"
            )
    return None
