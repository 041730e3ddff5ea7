"""The passes that decide which loops of ScheduleOps' statement a CPU executes.

Feature extraction sees their result. They are in a file of their own so that feature extraction
loads no other pass.
"""

from __future__ import annotations

from autosched.transform.framework.passes import Pass
from autosched.transform.loops.hoist_invariants import HoistInvariants
from autosched.transform.loops.sink_init import SinkInit
from autosched.transform.loops.skip_zeros import SkipZeros
from autosched.transform.storage.share_output import ShareOutput

CPU_LOOPS: tuple[Pass, ...] = (HoistInvariants(), SkipZeros(), SinkInit(), ShareOutput())
