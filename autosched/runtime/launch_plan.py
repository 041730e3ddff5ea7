"""A CudaArtifact on a device: load its cubin, check its limits, queue its launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from autosched.codegen.nvrtc import nearest_arch
from autosched.errors import DeviceError, MeasureError
from autosched.runtime.cuda_artifact import Alloc, CudaArtifact, Kernel, Launch
from autosched.runtime.device import Device, DeviceFacts, Handle, KernelFacts
from autosched.runtime.occupancy import occupancy
from autosched.runtime.slab import Slab


class LoadedPlan:
    """The kernels of an artifact on a device, with memory for what they pass to each other.

    `addresses` are those of the artifact's parameters. Raises MeasureError: kind illegal when the
    device cannot launch a kernel, memory when there is no room for workspaces, error when the
    artifact has no code for this device or passes numbers, not only arrays.
    """

    def __init__(
        self,
        device: Device,
        facts: DeviceFacts,
        artifact: CudaArtifact,
        addresses: Mapping[str, int],
    ) -> None:
        self._device = device
        self._module: Handle = None
        self.workspaces: Slab | None = None
        try:
            self._load(facts, artifact, addresses)
        except MeasureError as error:
            if not (isinstance(error, DeviceError) and error.worker_ends):
                self.unload()
            raise

    def _load(
        self, facts: DeviceFacts, artifact: CudaArtifact, addresses: Mapping[str, int]
    ) -> None:
        for kernel in artifact.kernels:
            _require_block(kernel, facts)
        self._module = self._device.load(cubin_for(artifact, facts.arch))
        kernels: dict[str, tuple[Kernel, Handle]] = {}
        self.resources: dict[str, dict[str, Any]] = {}
        for kernel in artifact.kernels:
            handle, used = self._device.kernel(self._module, kernel.name, kernel.dynamic_shared)
            kernels[kernel.name] = kernel, handle
            self.resources[kernel.name] = _require_launch(kernel, used, facts)
        sizes = {step.workspace: step.size for step in artifact.plan if isinstance(step, Alloc)}
        self.names = tuple(sizes)
        if sizes:
            self.workspaces = Slab(self._device, sizes)
            addresses = {**addresses, **self.workspaces.address}
        self._launches = [
            (*kernels[step.kernel], _pointers(step, addresses))
            for step in artifact.plan
            if isinstance(step, Launch)
        ]

    @property
    def launches(self) -> int:
        """The number of kernels that one call launches."""
        return len(self._launches)

    def call(self) -> None:
        """Queue all launches once, in order."""
        for kernel, handle, pointers in self._launches:
            self._device.launch(handle, kernel.grid, kernel.block, kernel.dynamic_shared, pointers)

    def unload(self) -> None:
        """Unload the module and free the workspaces. A second call does nothing."""
        if self._module is not None:
            self._device.unload(self._module)
            self._module = None
        if self.workspaces is not None:
            self.workspaces.free()
            self.workspaces = None


def cubin_for(artifact: CudaArtifact, arch: str) -> bytes:
    """The cubin that runs on `arch`. Raises MeasureError (load) when there is none."""
    made = [int(name.removeprefix("sm_")) for name in artifact.cubins if name[3:].isdigit()]
    found = arch if arch in artifact.cubins else nearest_arch(arch, made)
    if found is None:
        has = ", ".join(artifact.cubins) or "none"
        raise MeasureError(
            f"no code for this GPU ({arch}): the artifact has {has}; build it for {arch}",
            stage="load",
        )
    return artifact.cubins[found]


def _require_block(kernel: Kernel, facts: DeviceFacts) -> None:
    _require_shared(kernel, kernel.static_shared + kernel.dynamic_shared, facts)


def _require_shared(kernel: Kernel, shared: int, facts: DeviceFacts) -> None:
    if shared > facts.max_shared_per_block:
        raise _illegal(kernel, f"{shared} bytes of shared memory", facts.max_shared_per_block)


def _require_launch(kernel: Kernel, used: KernelFacts, facts: DeviceFacts) -> dict[str, Any]:
    """The resources of a kernel, for the record. MeasureError when it cannot be launched."""
    threads = kernel.block[0] * kernel.block[1] * kernel.block[2]
    most = min(used.max_threads, facts.max_threads_per_block)
    if threads > most:
        raise _illegal(kernel, f"{threads} threads a block", most)
    shared = used.shared_bytes + kernel.dynamic_shared
    _require_shared(kernel, shared, facts)
    held = occupancy(facts, used, threads, kernel.dynamic_shared)
    return {
        "registers": used.registers,
        "local_bytes": used.local_bytes,
        "shared_bytes": shared,
        "occupancy": asdict(held),
    }


def _illegal(kernel: Kernel, what: str, most: int) -> MeasureError:
    return MeasureError(
        f"{kernel.name}: {what}, but this GPU launches at most {most}", stage="load", kind="illegal"
    )


def _pointers(step: Launch, addresses: Mapping[str, int]) -> tuple[int, ...]:
    for name in step.args:
        if name not in addresses:
            raise MeasureError(
                f"{step.kernel}: only arrays can be passed when measuring, found {name!r}",
                stage="load",
            )
    return tuple(addresses[str(name)] for name in step.args)
