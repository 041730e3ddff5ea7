"""Artifacts and devices for tests of measurement on a GPU."""

from __future__ import annotations

import json
from typing import Any

from autosched.runtime.artifact import ParamSpec
from autosched.runtime.cuda_artifact import Alloc, CudaArtifact, Kernel, Launch
from autosched.runtime.device import KernelFacts
from autosched.runtime.fake_device import Behaviour, FakeDevice


def cubin(**fields: Any) -> bytes:
    """A cubin whose kernels behave as `Behaviour` with these fields."""
    return json.dumps(fields).encode()


def behave(data: bytes) -> Behaviour:
    fields = json.loads(data)
    uses = fields.pop("facts", None)
    found = Behaviour(**fields)
    return found if uses is None else Behaviour(**fields, facts=KernelFacts(*uses))


def fake() -> FakeDevice:
    return FakeDevice(behave)


def artifact(
    names: tuple[str, ...] = ("A", "B", "C"),
    shape: tuple[int, ...] = (8, 8),
    *,
    block: tuple[int, int, int] = (64, 1, 1),
    shared: int = 0,
    workspace: int = 0,
    **fields: Any,
) -> CudaArtifact:
    """An artifact of one kernel, or of two with a workspace between them.

    The last parameter is the output.
    """
    first = Kernel("main_kernel", (2, 1, 1), block, 0, shared)
    plan: tuple[Alloc | Launch, ...] = (Launch(first.name, names),)
    kernels: tuple[Kernel, ...] = (first,)
    if workspace:
        second = Kernel("main_kernel_1", (1, 1, 1), block, 0, 0)
        kernels = (first, second)
        plan = (
            Alloc("W", workspace),
            Launch(first.name, (*names[:-1], "W")),
            Launch(second.name, ("W", names[-1])),
        )
    params = tuple(ParamSpec(n, "float32", shape, 16, n == names[-1]) for n in names)
    return CudaArtifact(kernels, plan, params, "", {}, {"sm_90": cubin(**fields)}, {})
