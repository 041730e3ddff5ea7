"""The types that arguments of a built-in may name, and the defaults of those not given.

{dtype: bfloat16}                       everything
{in_dtype: int8}                        sums and outputs int32
{dtype: bfloat16, acc_dtype: float32}   all but the sums
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autosched.errors import ConfigError
from autosched.tir.dtype import DType
from autosched.workloads.types import Types

FLOATS = ("float32", "float64", "float16", "bfloat16")
NUMBERS = (*FLOATS, "int32", "int64")
STORED = ("float8_e4m3fn", "float8_e5m2", "int8", "uint8", "int16")
EVERY = (*NUMBERS, *STORED)
BYTES = ("int8", "uint8")
_NAMES = ("dtype", "in_dtype", "weight_dtype", "acc_dtype", "out_dtype")


@dataclass(frozen=True, slots=True)
class TypeRules:
    """The types that one built-in accepts.

    - `dtypes`: the types that `dtype`, for everything, may have. Empty for requantised operators,
      whose inputs and outputs have 8 bits and whose sums are int32.
    - `floats`: it computes with floats, whatever its inputs are.
    - `moves`: it adds nothing up, so nothing is widened.
    - `weights`: it has a second operand, which may have another type.
    - `sums`: the allowed types of sums, for operators where fewer bits would be wrong.
    """

    dtypes: tuple[str, ...] = NUMBERS
    floats: bool = False
    moves: bool = False
    weights: bool = False
    sums: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arguments for types."""
        return tuple(
            name
            for name in _NAMES
            if (name != "weight_dtype" or self.weights) and (name != "dtype" or self.dtypes)
        )

    @property
    def default(self) -> dict[str, str]:
        """The arguments that are assumed when no type is given."""
        return {"dtype": self.dtypes[0]} if self.dtypes else {"in_dtype": BYTES[0]}

    def allowed(self, name: str) -> tuple[str, ...]:
        """The types that the argument `name` accepts."""
        if name == "dtype":
            return self.dtypes
        if not self.dtypes:
            return ("int32",) if name == "acc_dtype" else BYTES
        if name != "acc_dtype" or self.moves:
            return EVERY
        if self.sums:
            return self.sums
        return FLOATS if self.floats else NUMBERS  # sums in fewer bits would overflow

    def meaning(self, name: str) -> str:
        """The purpose of the argument `name`, the types it accepts, and its default."""
        known = f"one of {', '.join(self.allowed(name))}"
        match name:
            case "dtype":
                return f"of everything, {known}; default {self.dtypes[0]}"
            case "in_dtype":
                return f"of inputs, {known}; default {self.default.get(name, 'dtype')}"
            case "weight_dtype":
                return f"of the second operand; default {'in_dtype' if self.dtypes else BYTES[0]}"
            case "out_dtype":
                return f"of outputs; default {'dtype, or acc_dtype' if self.dtypes else 'in_dtype'}"
        return f"of sums and what is added to them, {known}; default {self._usual_accumulator()}"

    def _usual_accumulator(self) -> str:
        if not self.dtypes:
            return "int32"
        if self.moves:
            return "in_dtype"
        return (
            "dtype, or float32" if self.floats else "dtype, or int32 of integers, float32 of floats"
        )

    def resolve(self, workload: str, args: Mapping[str, Any]) -> Types:
        """The types that `args` determine. Raises ConfigError naming the argument."""
        where = f"workload {workload}: "
        given = {name: _named(args[name]) for name in self.names if args.get(name) is not None}
        for name, kind in given.items():
            known = EVERY if name == "dtype" and len(given) > 1 else self.allowed(name)
            if kind not in known:
                raise ConfigError(
                    f"{where}{name} must be one of {', '.join(known)}, found {kind!r}"
                    f"{self._remedy(name, kind)}"
                )
        types = self._completed(given or self.default)
        self._check(where, types)
        return types

    def shown(self, types: Types) -> dict[str, str]:
        """The fewest arguments that determine `types`."""
        found = types.to_json()
        for name in reversed(list(found)):
            fewer = {key: kind for key, kind in found.items() if key != name}
            if self._completed(fewer or self.default) == types:
                found = fewer
        return found

    def _completed(self, given: Mapping[str, str]) -> Types:
        every = given.get("dtype")
        inputs = given.get("in_dtype", every or ("float32" if self.dtypes else BYTES[0]))
        weights = given.get("weight_dtype", inputs if self.dtypes else BYTES[0])
        acc = given.get("acc_dtype", every or self._accumulator(inputs, weights))
        out = given.get("out_dtype", every or (acc if self.dtypes else inputs))
        return Types(inputs, weights, acc, out)

    def _accumulator(self, *operands: str) -> str:
        """A type wide enough for sums of products of the operands."""
        if self.moves:
            return operands[0]
        kinds = [DType(name) for name in operands]
        bits = 64 if any(kind.bits == 64 for kind in kinds) else 32
        floats = self.floats or any(kind.is_float for kind in kinds)
        return f"{'float' if floats else 'int'}{bits}"

    def _remedy(self, name: str, kind: Any) -> str:
        if name != "dtype" or kind not in STORED:
            return ""
        sums = self._accumulator(kind)
        return f"; in_dtype={kind} sets the type of the inputs only, with sums in {sums}"

    def _check(self, where: str, types: Types) -> None:
        acc, out = DType(types.acc), DType(types.out)
        if types.acc not in self.allowed("acc_dtype"):
            raise ConfigError(
                f"{where}dtype {acc} cannot be the type of sums; give acc_dtype too, one of "
                f"{', '.join(self.allowed('acc_dtype'))}"
            )
        for name, given in (("in_dtype", types.inputs), ("weight_dtype", types.weights)):
            if not _holds(acc, DType(given)):
                raise ConfigError(
                    f"{where}acc_dtype {acc} cannot hold all values of {name} {given}; give "
                    f"{self._accumulator(types.inputs, types.weights)}"
                )
        if out.is_integral and acc.is_float:
            raise ConfigError(
                f"{where}out_dtype {out} does not determine how sums in {acc} are rounded; write "
                "an expression that does, e.g. int8(clip(rint(...), -128, 127))"
            )


def _named(kind: Any) -> Any:
    """The name of a type given as an object, such as NumPy's; anything else unchanged."""
    if isinstance(kind, str):
        return kind
    try:
        return DType(kind).name
    except (TypeError, ValueError):
        return kind


def _holds(acc: DType, kind: DType) -> bool:
    """Whether numbers of type `kind` can be added up in `acc`."""
    if acc is kind:
        return True
    if kind.is_float and not acc.is_float:
        return False
    return acc.bits > kind.bits or (acc.is_float and acc.bits == 64)
