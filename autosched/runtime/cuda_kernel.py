"""A CudaArtifact as a callable kernel that raises our errors."""

from __future__ import annotations

from autosched.errors import MeasureError
from autosched.runtime.cuda_api import Driver, LibCuda
from autosched.runtime.cuda_artifact import Alloc, CudaArtifact, Launch
from autosched.runtime.cuda_driver import driver_problem, no_driver
from autosched.runtime.cuda_loader import GpuKernel, Parameter, Program, Step
from autosched.runtime.device_errors import device_error
from autosched.tir.dtype import DType


class OurDriver(LibCuda):
    """The driver's library; a failed call raises DeviceError."""

    def _require(self, code: int, name: str) -> None:
        if code:
            raise device_error(code, name, "run")


def open_driver() -> Driver:
    """The driver. Raises MeasureError, which says what is missing, where there is none."""
    problem = driver_problem()
    if problem is not None:
        raise MeasureError(no_driver(problem), stage="load", kind="lost")
    return OurDriver()


def load_cuda(artifact: CudaArtifact, name: str, driver: Driver | None = None) -> GpuKernel:
    """The kernel of `artifact`. Code is loaded at the first call, in the context of its arrays.

    Raises MeasureError where there is no driver, or the artifact takes numbers, not only arrays.
    """
    program = program_of(artifact, name)
    return GpuKernel(program, open_driver() if driver is None else driver, _refused)


def program_of(artifact: CudaArtifact, name: str) -> Program:
    """The loader's form of `artifact`. Raises MeasureError when a launch passes numbers."""
    parameters = []
    for p in artifact.params:
        if p.shape is None:
            raise _refused(f"{name}: only arrays can be passed, found the number {p.name}")
        shape = tuple(int(extent) for extent in p.shape)
        parameters.append(Parameter(p.name, p.dtype, DType(p.dtype).numpy, shape, p.is_output))
    kernels = {kernel.name: kernel for kernel in artifact.kernels}
    steps = []
    for step in artifact.plan:
        if isinstance(step, Launch):
            kernel = kernels[step.kernel]
            arguments = tuple(_array(name, argument) for argument in step.args)
            launch = kernel.name, kernel.grid, kernel.block, kernel.dynamic_shared, arguments
            steps.append(Step(*launch))
    sizes = {step.workspace: step.size for step in artifact.plan if isinstance(step, Alloc)}
    return Program(name, tuple(parameters), artifact.cubins, sizes, tuple(steps))


def _array(name: str, argument: str | int | float) -> str:
    if not isinstance(argument, str):
        raise _refused(f"{name}: a launch passes the number {argument!r}; only arrays can be")
    return argument


def _refused(text: str) -> MeasureError:
    return MeasureError(text, stage="run")
