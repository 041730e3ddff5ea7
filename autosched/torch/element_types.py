"""The types of tensors that kernels take, and how statements read and round them.

A kernel of a model in bfloat16 or float16 computes in float32 and rounds its result once; PyTorch
rounds the result of each operation.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import torch

from autosched.torch.model_graph import arguments_of, value_of

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
"""What kernels read and write; they compute in the first."""

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
"""What kernels read to compare it."""

NARROW = ("bfloat16", "float16")

_to_copy = torch.ops.aten._to_copy.default
_KEEPING = (None, torch.preserve_format)


def name_of(dtype: Any) -> str:
    """`bfloat16`, of PyTorch's type or of a text."""
    return str(dtype).removeprefix("torch.")


def is_float(value: Any) -> bool:
    """Whether it is a tensor of a type that kernels take."""
    return value is not None and value.dtype in FLOATS


def is_conversion(node: Any) -> bool:
    """Whether the node changes the type of floats and nothing else: `x.float()`, `x.bfloat16()`."""
    if node.op != "call_function" or node.target is not _to_copy:
        return False
    before, after = value_of(node.args[0]), value_of(node)
    return (
        is_float(before)
        and is_float(after)
        and before.device == after.device
        and arguments_of(node)["memory_format"] in _KEEPING
    )


def before_widening(node: Any) -> Any:
    """What the node is in float32, itself where it is something else: a kernel widens as it reads.

    linear(x.float(), w)  ->  linear(x, w)
    """
    while is_conversion(node) and value_of(node).dtype == torch.float32:
        node = node.args[0]
    return node


def widened(value: str, names: Collection[str]) -> str:
    """The text with each element of these tensors in float32.

    sum(k, X[i, k] * g[k])  ->  sum(k, float32(X[i, k]) * g[k])
    """
    if not names:
        return value
    return re.sub(rf"\b(?:{'|'.join(names)})\[[^\[\]]*\]", r"float32(\g<0>)", value)


def rounded(value: str, dtype: str) -> str:
    """The text rounded to the type: `bfloat16(Y[i, j] + b[j])`."""
    return value if dtype == "float32" else f"{dtype}({value})"
