"""An operator of PyTorch: kernels of one computation, chosen by the shapes of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from autosched.errors import ConfigError, MeasureError
from autosched.runtime.artifact import ParamSpec
from autosched.runtime.calling import constant_shape, signature
from autosched.runtime.cpu import CpuKernel
from autosched.runtime.quick_call import UNFIT

Tensor = Any
Key = tuple[Any, ...]
"""The shapes of all inputs, then their types."""


class Variant(NamedTuple):
    """A kernel, what it was tuned for, and tensors like its outputs, whose memory is never used.

    Making a tensor like another takes half the time that making one of a shape does.
    """

    title: str
    kernel: CpuKernel
    outputs: tuple[Tensor, ...]


class Operator:
    """What PyTorch calls under one name.

    - `copy`: inputs that are not contiguous are copied; otherwise they are refused. `title` says
    which computation it is.
    """

    def __init__(self, name: str, title: str, params: Sequence[ParamSpec], *, copy: bool) -> None:
        self.name = name
        self.title = title
        self.copy = copy
        self.inputs = [p.name for p in params if not p.is_output]
        self.number_of_outputs = len(params) - len(self.inputs)
        self._variants: dict[Key, Variant] = {}
        self._only: Variant | None = None  # where there are no others: no need to choose
        self._stored: dict[Key, Variant] = {}  # by the inputs that `prepare` takes

    def __repr__(self) -> str:
        return f"<operator {self.name}: {self.title}, for {len(self._variants)} shapes>"

    @property
    def signatures(self) -> list[str]:
        """What there are kernels for: `matmul(A: float32[8, 8], ...) -> C: float32[8, 8]`."""
        name = self.name.partition("::")[2]
        return [signature(name, v.kernel.artifact.params) for v in self._variants.values()]

    def add(self, title: str, kernel: CpuKernel) -> None:
        """Take `kernel` for its shapes, in place of one for the same computation on the same.

        Raises ConfigError when the kernel there computes something else.
        """
        params = kernel.artifact.params
        inputs = [p for p in params if not p.is_output]
        outputs = tuple(_empty(p) for p in params if p.is_output)
        key = (*map(constant_shape, inputs), *map(type_of, inputs))
        there = self._variants.get(key)
        if there is not None and there.title != title:
            raise ConfigError(
                f"{self.name}: {there.title} and {title} take inputs of the same shapes and "
                "compute something else; register one of them under another name"
            )
        found = Variant(title, kernel, outputs)
        self._variants[key] = found
        self._only = found if len(self._variants) == 1 else None
        self._stored[(*map(_original_shape, inputs), *map(type_of, inputs))] = found

    def run(self, *tensors: Tensor) -> Any:
        """The outputs. Raises MeasureError for tensors that do not fit."""
        variant = self._only or self.choice(tensors)
        made = [torch.empty_like(each) for each in variant.outputs]
        status = variant.kernel.quick((*tensors, *made))
        if status == UNFIT:
            variant = self.choice(tensors)
            made = [torch.empty_like(each) for each in variant.outputs]
            variant.kernel(*self._usual(tensors), *made)
        elif status:
            raise variant.kernel.failure(status)
        return made[0] if len(made) == 1 else tuple(made)

    def prepare(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The inputs as the kernel for them expects them stored.

        Those that are stored in another order are copied, the others returned as they are. Raises
        MeasureError for what are no tensors, and where there is no kernel for these shapes.
        """
        if len(tensors) != len(self.inputs) or not all(map(_has_shape, tensors)):
            raise self._no_tensors(tensors)
        variant = self._stored.get(self._key(tensors))
        if variant is None:
            raise self._unknown(tensors)
        params = variant.kernel.artifact.params
        given = [t.detach().contiguous() for t in tensors]
        made = variant.kernel.prepare(*given)
        pairs = zip(tensors, given, made, params, strict=False)
        return tuple(t if m is g else _tensor_of(m, p) for t, g, m, p in pairs)

    def fake(self, *tensors: Tensor) -> Any:
        """Outputs without values, for tensors without values; refused as `run` refuses.

        Sizes that torch.compile would rather leave open become those that are there now.
        """
        if not all(map(_has_shape, tensors)):
            raise self._no_tensors(tensors)
        shapes = [tuple(map(int, t.shape)) for t in tensors]
        variant = self._variants.get((*shapes, *[t.dtype for t in tensors]))
        if variant is None:
            raise self._unknown(tensors)
        first = self._usual(tensors)[0]
        made = [first.new_empty(each.shape, dtype=each.dtype) for each in variant.outputs]
        return made[0] if len(made) == 1 else tuple(made)

    def choice(self, tensors: Sequence[Tensor]) -> Variant:
        """The kernel for these shapes. Raises MeasureError where there is none.

        Also for None, which PyTorch passes on in the place of a tensor.
        """
        variant = self._variants.get(self._key(tensors))
        if variant is None:
            raise self._unknown(tensors)
        return variant

    def _key(self, tensors: Sequence[Tensor]) -> Key:
        try:
            return (*[t.shape for t in tensors], *[t.dtype for t in tensors])
        except AttributeError:  # told only here: a check would cost every call
            raise self._no_tensors(tensors) from None

    def _usual(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The tensors as the kernel takes them. MeasureError where one cannot be."""
        found = []
        without_memory = all(tensor.device.type == "meta" for tensor in tensors)
        device = "meta" if without_memory else "cpu"  # the former are asked for shapes only
        for position, tensor in enumerate(tensors):
            if tensor.device.type != device:
                problem = f"must be on the CPU, which it was tuned for, found {tensor.device}"
                raise self._refusal(position, f"{problem}; move it with .cpu()")
            if tensor.layout != torch.strided:
                problem = f"must be dense, found the layout {tensor.layout}"
                raise self._refusal(position, f"{problem}; convert it with .to_dense()")
            if tensor.requires_grad and torch.is_grad_enabled() and not self._has_gradient():
                raise self._refusal(
                    position,
                    f"requires a gradient, and {self.name} has none; call it under "
                    "torch.no_grad(), pass .detach(), or give it one with "
                    "torch.library.register_autograd",
                )
            as_it_is = type(tensor) is torch.Tensor and not tensor.requires_grad
            plain = tensor if as_it_is else tensor.detach()  # a parameter is no plain tensor
            if not plain.is_contiguous():
                if not self.copy:
                    shape, strides = tuple(plain.shape), plain.stride()
                    raise self._refusal(
                        position,
                        f"must be contiguous, found strides {strides} for shape {shape}; pass "
                        ".contiguous(), or register with copy=True",
                    )
                plain = plain.contiguous()
            found.append(plain.resolve_neg() if self.copy else plain)
        return found

    def _has_gradient(self) -> bool:
        """Whether somebody gave it one: torch.compile asks for shapes before gradients."""
        found: bool = torch._C._dispatch_has_kernel_for_dispatch_key(self.name, "Autograd")
        return found

    def _unknown(self, tensors: Sequence[Tensor]) -> MeasureError:
        found = ", ".join(
            f"{name} {_text(t.shape, t.dtype)}"
            for name, t in zip(self.inputs, tensors, strict=True)
        )
        there = "; ".join(self.signatures)
        return MeasureError(
            f"{self.name}: there is no kernel for {found}; there are {there}; tune that shape and "
            "register its record",
            stage="run",
        )

    def _no_tensors(self, given: Sequence[Any]) -> MeasureError:
        kinds = ", ".join(map(_kind, given)) or "nothing"
        return MeasureError(
            f"{self.name}: expected tensors for {', '.join(self.inputs)}, found {kinds}",
            stage="run",
        )

    def _refusal(self, position: int, problem: str) -> MeasureError:
        name = self.inputs[position]
        return MeasureError(f"{self.name}: argument {position + 1} ({name}) {problem}", stage="run")


def type_of(p: ParamSpec) -> Any:
    """PyTorch's type of an array's elements. Raises ConfigError where it has none."""
    found = getattr(torch, p.dtype, None)
    if not isinstance(found, torch.dtype):
        raise ConfigError(f"{p.name} is of type {p.dtype}, which this PyTorch does not have")
    return found


def _has_shape(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not value.is_nested


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor) and value.is_nested:
        return f"nested {type(value).__name__}"
    return type(value).__name__


def _original_shape(p: ParamSpec) -> tuple[int, ...]:
    return constant_shape(p) if p.layout is None else tuple(p.layout.shape)


def _tensor_of(array: np.ndarray[Any, Any], p: ParamSpec) -> Tensor:
    """A tensor over the memory of `array`, whose type NumPy may not have."""
    return torch.from_numpy(array.view(f"u{array.itemsize}")).view(type_of(p))


def _empty(p: ParamSpec) -> Tensor:
    return torch.empty(constant_shape(p), dtype=type_of(p), device="cpu")


def _text(shape: Sequence[int], dtype: Any) -> str:
    return f"{str(dtype).removeprefix('torch.')}[{', '.join(map(str, shape))}]"
