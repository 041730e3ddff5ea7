"""Tuned kernels as operators of PyTorch, and in the place of a model's own.

    import autosched.torch

    autosched.torch.register("mm.jsonl")
    c = torch.ops.autosched.matmul(a, b)

    tasks = autosched.torch.tasks_of(model, x)
    autosched.tune(tasks.tasks, weights=tasks.weights, records="model.jsonl")
    fast = autosched.torch.with_kernels(model, "model.jsonl", x)
    fast = torch.compile(model, backend=autosched.torch.backend("model.jsonl"))

It needs PyTorch 2.4 or later (`pip install 'autosched[torch]'`), for models 2.9; nothing else of
autosched does. docs/torch.md is the guide.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"autosched.torch needs PyTorch, which cannot be imported ({error}); "
        "pip install 'autosched[torch]'"
    ) from error

from autosched.torch.backend import Backend, backend
from autosched.torch.model_tasks import ModelTask, ModelTasks, tasks_of
from autosched.torch.registry import prepare, register, registered
from autosched.torch.tuned_module import WithKernels
from autosched.torch.with_kernels import with_kernels

__all__ = [
    "Backend",
    "ModelTask",
    "ModelTasks",
    "WithKernels",
    "backend",
    "prepare",
    "register",
    "registered",
    "tasks_of",
    "with_kernels",
]
