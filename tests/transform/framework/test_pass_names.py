from autosched.driver import SCHEDULE_OPS
from autosched.transform.framework.pass_names import OWN_PASSES
from autosched.transform.framework.user_passes import UserPasses
from autosched.transform.pipeline import (
    CPU_PIPELINE,
    DEVICE_PIPELINE,
    FEATURE_CHECK,
    GPU_PIPELINE,
    HOST_PIPELINE,
    PASSES,
)


def test_every_pass_is_named() -> None:
    pipelines = (CPU_PIPELINE, GPU_PIPELINE, DEVICE_PIPELINE, HOST_PIPELINE, FEATURE_CHECK)
    names = {pass_.name for pipeline in pipelines for pass_ in pipeline}
    assert names <= {*PASSES, UserPasses.name}
    assert {*PASSES, UserPasses.name, SCHEDULE_OPS.name} == OWN_PASSES
