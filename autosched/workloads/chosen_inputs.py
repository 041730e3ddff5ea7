"""Inputs that the user chose: the contents of tensors while kernels are timed and checked.

inputs:
  A: {uniform: [0, 1]}            # low, high
  B: {normal: [0, 0.1]}           # mean, deviation
  I: {integers: [0, 99]}          # low, high, both included
  M: {constant: 1}
  W: {file: weights.npy}
  X: {function: "gen.py:make"}    # make(rng, shape, dtype) -> array
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from autosched.arguments import found, number
from autosched.errors import ConfigError
from autosched.te.operations.tensor import Tensor
from autosched.user_file import failure_in, load_object, require_trusted
from autosched.user_source import require_source, source_digest
from autosched.words import visible
from autosched.workloads.given_array import given_array
from autosched.workloads.workload import Array, normalised, shape_of

FORMS = ("uniform", "normal", "integers", "constant", "file", "function")
_PAIRS = {"uniform": "low, high", "normal": "mean, deviation", "integers": "low, high"}
_DIGEST = "sha256"
_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True)
class ChosenInput:
    """How one tensor is filled.

    - `form`: one of FORMS.
    - `value`: a pair of numbers, a number, a file name or file.py:function, as the form requires.
    - `digest`: identifies the contents of a file or the source of a function, so that a changed one
      makes another task.
    - `trusted`: False where it was read from a record only to describe the task; a function's file
      then needs trust before it runs.
    """

    form: str
    value: Any
    digest: str = ""
    trusted: bool = field(default=True, compare=False, repr=False)

    @staticmethod
    def parse(name: str, data: Any) -> ChosenInput:
        """Parse the entry of tensor `name`. Raises ConfigError that begins with `inputs: NAME`."""
        where = f"inputs: {name}"
        if isinstance(data, Mapping):
            form = next((key for key in data if key != _DIGEST), None)
        else:
            form = None
        if not isinstance(data, Mapping) or form not in FORMS or set(data) - {form, _DIGEST}:
            raise ConfigError(
                f"{where}: expected one of {', '.join(FORMS)}, e.g. {{uniform: [0, 1]}}, "
                f"{found(data)}"
            )
        value = data[form]
        if form in _PAIRS:
            return ChosenInput(form, _pair(where, form, value))
        if form == "constant":
            number(f"{where}: constant", value, least=float("-inf"))
            return ChosenInput(form, value)
        if not isinstance(value, str):
            raise ConfigError(f"{where}: {form}: expected text, {found(value)}")
        if form == "function":
            return ChosenInput(form, value, str(data.get(_DIGEST) or source_digest(value)))
        return ChosenInput(form, value, str(data.get(_DIGEST) or _digest(where, value)))

    def to_json(self) -> dict[str, Any]:
        """The entry that `parse` takes."""
        value = list(self.value) if isinstance(self.value, tuple) else self.value
        return {self.form: value, **({_DIGEST: self.digest} if self.digest else {})}

    def require_trusted(self, where: str) -> None:
        """Raise ConfigError, which begins with `where`, unless a function's file is trusted.

        It concerns files that a record names. Other forms than functions run no code.
        """
        if self.form == "function":
            require_trusted(self.value, where)

    def make(self, tensor: Tensor, rng: np.random.Generator, indices: range | None) -> Array:
        """Make the array for `tensor`.

        `indices` are the values that it may hold where it is read as an index. Raises ConfigError
        when the array does not fit the tensor.
        """
        where = f"inputs: {tensor.name}"
        shape, dtype = shape_of(tensor), tensor.dtype.numpy
        if self.form in ("uniform", "normal") and dtype.kind in "iub":
            raise ConfigError(
                f"{where}: {self.form} is for floats, this input is {dtype}; use integers"
            )
        made = self._values(where, shape, dtype, rng)
        exact = self.form in ("file", "function")
        _require_fit(where, made, shape, dtype if exact else made.dtype)
        low, high = self.value if self.form == "integers" else (made.min(), made.max())
        _require_inside(where, low, high, indices)
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            if low < limits.min or high > limits.max:
                raise ConfigError(f"{where}: {low} to {high} do not fit {dtype}")
        with np.errstate(over="ignore"):  # values too large for the type become infinite
            return np.asarray(made, dtype, order="C")

    def _values(
        self, where: str, shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator
    ) -> Array:
        match self.form:
            case "uniform":
                return np.asarray(rng.uniform(self.value[0], self.value[1], shape))
            case "normal":
                return np.asarray(rng.normal(self.value[0], self.value[1], shape))
            case "integers":
                return np.asarray(rng.integers(self.value[0], self.value[1], shape, endpoint=True))
            case "constant":
                return np.full(shape, self.value)
            case "file":
                if _digest(where, self.value) != self.digest:
                    raise ConfigError(
                        f"{where}: {self.value} no longer holds what was recorded; restore it, or "
                        "tune again"
                    )
                return _loaded(where, self.value, shape, dtype)
        return self._called(where, shape, dtype, rng)

    def _called(
        self, where: str, shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator
    ) -> Array:
        if not self.trusted:
            self.require_trusted(where)
        _, function = load_object(self.value, where, "function")
        path, _, name = self.value.rpartition(":")
        require_source(where, self.value, self.digest)
        try:
            made = function(rng, shape, dtype)
        except (Exception, SystemExit) as error:
            raise ConfigError(f"{where}: {failure_in(path, error, name)}") from error
        return given_array(where, made)


def parse_inputs(data: Any) -> tuple[tuple[str, ChosenInput], ...]:
    """Parse the `inputs` of a configuration or record, by name. Raises ConfigError."""
    if not isinstance(data, Mapping):
        raise ConfigError(
            f"inputs: expected tensors and how they are filled, e.g. {{A: {{uniform: [0, 1]}}}}, "
            f"{found(data)}"
        )
    return tuple(sorted((str(name), ChosenInput.parse(str(name), e)) for name, e in data.items()))


def replace_inputs(
    chosen: Sequence[tuple[str, ChosenInput]],
    tensors: Sequence[Tensor],
    arrays: Sequence[Array],
    indices: Mapping[Tensor, range],
    seed: int,
) -> list[Array]:
    """Replace the chosen inputs in `arrays`, the arrays of the input `tensors`.

    The result is the same for the same seed. Raises ConfigError for an unknown input, and for one
    that does not fit.
    """
    names, result = [tensor.name for tensor in tensors], list(arrays)
    table = {name if name in names else normalised(name): entry for name, entry in chosen}
    if len(table) < len(chosen):
        twice = ", ".join(visible(name) for name, _ in chosen if name not in table)
        raise ConfigError(f"inputs: {twice}: the same input is also given under another name")
    for name in table:
        if name not in names:
            raise ConfigError(
                f"inputs: {visible(name)}: expected one of the inputs {', '.join(names)}"
            )
    for k, tensor in enumerate(tensors):
        if tensor.name in table:
            rng = np.random.default_rng([seed, k])
            result[k] = table[tensor.name].make(tensor, rng, indices.get(tensor))
    return result


def fitted(
    where: str,
    made: Mapping[str, Any],
    tensors: Sequence[Tensor],
    arrays: Sequence[Array],
    indices: Mapping[Tensor, range],
) -> list[Array]:
    """Replace inputs in `arrays`, the arrays of the input `tensors`, by those of `made`, by name.

    Raises ConfigError that begins with `where` when one does not fit, or there is no such input.
    """
    names = [tensor.name for tensor in tensors]
    for name in made:
        if name not in names:
            raise ConfigError(f"{where}: {name}: expected one of the inputs {', '.join(names)}")
    result = list(arrays)
    for k, tensor in enumerate(tensors):
        if tensor.name in made:
            array = given_array(f"{where}: {tensor.name}", made[tensor.name])
            shape, dtype = shape_of(tensor), tensor.dtype.numpy
            _require_fit(f"{where}: {tensor.name}", array, shape, dtype)
            ends = array.min(), array.max()
            _require_inside(f"{where}: {tensor.name}", *ends, indices.get(tensor))
            result[k] = array
    return result


def _require_fit(where: str, made: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    if made.shape != shape:
        raise ConfigError(f"{where}: expected shape {shape}, found {made.shape}")
    if made.dtype != dtype:
        raise ConfigError(f"{where}: expected {dtype}, found {made.dtype}")


def _require_inside(where: str, low: Any, high: Any, indices: range | None) -> None:
    if indices and (low < indices.start or high >= indices.stop):
        raise ConfigError(
            f"{where}: it is read as an index from {indices.start} to {indices.stop - 1}, found "
            f"{low} to {high}"
        )


def _pair(where: str, form: str, value: Any) -> tuple[Any, Any]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ConfigError(f"{where}: {form}: expected [{_PAIRS[form]}], {found(value)}")
    first, second = (number(f"{where}: {form}", v, least=float("-inf")) for v in value)
    if form == "integers":
        if first != int(first) or second != int(second):
            raise ConfigError(f"{where}: integers: expected whole numbers, {found(value)}")
        value = (int(value[0]), int(value[1]))
        if not _INT64.min <= min(value) <= max(value) <= _INT64.max:
            raise ConfigError(f"{where}: integers: expected numbers of 64 bits, {found(value)}")
    if form == "normal" and second < 0:
        raise ConfigError(f"{where}: normal: expected a deviation of at least 0, found {second:g}")
    if form != "normal" and first > second:
        raise ConfigError(f"{where}: {form}: expected low, then high, {found(value)}")
    if form == "uniform" and not math.isfinite(float(second) - float(first)):
        most = np.finfo(float).max
        raise ConfigError(f"{where}: uniform: expected a range up to {most:.2g}, {found(value)}")
    return value[0], value[1]


def _digest(where: str, path: str) -> str:
    with _opened(where, path) as file:
        return hashlib.file_digest(file, _DIGEST).hexdigest()[:16]


@contextmanager
def _opened(where: str, path: str) -> Iterator[BufferedReader]:
    """Open a regular file: a pipe or device may have no end, or wait for input.

    Raises ConfigError, also for errors while the file is read.
    """
    try:
        if Path(path).exists() and not Path(path).is_file():
            raise ConfigError(f"{where}: expected a file, found the folder, device or pipe {path}")
        with Path(path).open("rb") as file:
            yield file
    except OSError as error:
        raise ConfigError(
            f"{where}: cannot read {visible(str(path))}: {error.strerror or error}"
        ) from error
    except ValueError as error:  # a name with a null character
        raise ConfigError(f"{where}: cannot read {path!r}: {error}") from error


def _loaded(where: str, path: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Read the array of a .npy file, once its header says that it fits."""
    with _opened(where, path) as file:
        try:
            version = np.lib.format.read_magic(file)
            if version not in _HEADERS:
                raise ValueError(f"its format {version[0]}.{version[1]} is not known")
            found_shape, _, found_dtype = _HEADERS[version](file)
        except (ValueError, SyntaxError, EOFError, RecursionError, MemoryError) as error:
            raise ConfigError(f"{where}: {path} is no .npy file: {error}") from error
        if found_shape != shape:
            raise ConfigError(f"{where}: expected shape {shape}, found {found_shape}")
        if found_dtype != dtype:
            raise ConfigError(f"{where}: expected {dtype}, found {found_dtype}")
        file.seek(0)
        try:
            return np.asarray(np.lib.format.read_array(file, allow_pickle=False))
        except (ValueError, EOFError) as error:
            raise ConfigError(f"{where}: {path} is no .npy file: {error}") from error


_HEADERS: dict[tuple[int, int], Callable[[BufferedReader], Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
