"""Tuned kernels as operators of PyTorch, which `torch.compile` keeps in its graphs.

    import autosched.torch

    autosched.torch.register("mm.jsonl")
    c = torch.ops.autosched.matmul(a, b)

It needs PyTorch 2.4 or later (`pip install 'autosched[torch]'`); nothing else of autosched does.
docs/torch.md is the guide.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"autosched.torch needs PyTorch, which cannot be imported ({error}); "
        "pip install 'autosched[torch]'"
    ) from error

from autosched.torch.registry import prepare, register, registered

__all__ = ["prepare", "register", "registered"]
