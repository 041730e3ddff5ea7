"""A GPU's limits: what Ansor refuses of a candidate, and at which number, against ours.

    python benchmarks/against_ansor/limits.py --peer PYTHON [--cases N] [--count N]

A case draws a built-in operator or a graph (programs.py, typed_programs.py). The peer samples
candidates of wide limits and mutates them. Of each kind of limit the least number that allows the
candidate must be the same: of local and shared memory, of threads, of each of their axes, of
virtual threads, of vectors, of kernels. Then sets of limits are drawn at those numbers or just
below: the candidates that have features must be the same, worked out one by one and many at once,
and what is refused at once must be refused.

Known to differ, and no defect: bounds of candidates whose threads read what other threads hold,
which are refused here.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from typing import Any

import programs
import states
import typed_programs
from peer import Peer, PeerError, arguments

from autosched import workloads
from autosched.errors import ScheduleError
from autosched.features.batched.batch import BatchedFeatures
from autosched.features.lowering import features_of_steps
from autosched.state.dag import ComputeDAG
from autosched.state.steps import Step, steps_from_json
from autosched.target import HardwareParams, Target
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.transform.device.verify_gpu_code import VerifyGPUCode
from autosched.transform.framework.passes import Sequential
from autosched.transform.pipeline import FEATURE_CHECK

KEYS = (
    "max_local_memory_per_block",
    "max_shared_memory_per_block",
    "max_threads_per_block",
    "max_thread_x",
    "max_thread_y",
    "max_thread_z",
    "max_vthread",
    "max_vector_bytes",
    "max_kernels",
)
FIELDS = {3: KEYS[1], 4: KEYS[0], 5: KEYS[2], 6: KEYS[6], 1: KEYS[7]}
"""Which of Ansor's eight numbers are limits of which kind."""
WIDE = (1 << 20, 1 << 20, 1024)
REFUSED = "what its consumers read depends on"
"""What is said of the candidates that are refused here alone."""
FOUND = re.compile(r": (\d+) .*, at most \d+ are allowed")

Steps = tuple[Step, ...]
Thresholds = dict[str, int | None]


def thresholds(dag: ComputeDAG, steps: Steps) -> Thresholds | str:
    """The least limit of each kind that allows the candidate; why there is none."""
    sch, tensors = dag.apply_steps(steps)
    try:
        func = schedule_to_prim_func(sch.normalize_for_feature_extraction(), tensors)
        func = Sequential(FEATURE_CHECK, "flat")(func)
    except ScheduleError as error:
        return str(error)
    return {key: _least(func, key) for key in KEYS}


def _least(func: Any, key: str) -> int | None:
    limit = 0
    while True:
        try:
            Sequential((VerifyGPUCode.of({key: limit}),), "check")(func)
            return limit
        except ScheduleError as error:
            found = FOUND.search(str(error))
            if found is None:
                return None
            limit = int(found[1])


def drawn_limits(rng: random.Random, found: list[Thresholds], hardware: list[int]) -> list[int]:
    """A set of limits at the thresholds of a candidate, or one below."""
    some = rng.choice(found)
    drawn = list(hardware)
    for position in rng.sample(sorted(FIELDS), rng.choice((1, 1, 2, 5))):
        least = some[FIELDS[position]]
        if least is not None:
            drawn[position] = max(least - rng.choice((0, 0, 1)), int(position == 1))
    return drawn


def main() -> int:
    """Print what differs and a summary; 1 where something does."""
    parser = arguments(__doc__)
    parser.add_argument("--count", type=int, default=12, help="candidates of a case")
    parser.add_argument("--sets", type=int, default=10, help="sets of limits of a case")
    parser.add_argument("--show", type=int, default=5, help="differences to print")
    options = parser.parse_args()
    compared: Counter[str] = Counter()
    differing: Counter[str] = Counter()

    def same(what: str, ours: Any, theirs: Any, detail: str) -> None:
        compared[what] += 1
        if ours != theirs:
            differing[what] += 1
            if differing.total() <= options.show:
                print(f"-- {where}: {what}: {ours} here, {theirs} there\n{detail}\n", flush=True)

    for seed in range(options.seed, options.seed + options.cases):
        rng = random.Random(seed)
        hardware = [80, 16, 64, *WIDE, rng.choice((4, 8, 32)), rng.choice((8, 32, 64))]
        if rng.random() < 0.5:
            text = rng.choice((programs, typed_programs)).drawn(seed)
            where, question = f"seed {seed}: a program {hardware}\n{text}", ["program", text]
            dag = ComputeDAG(programs.tensors(text))
        else:
            name, args = states.arguments_of(rng)
            where, question = f"seed {seed}: {name} {args} {hardware}", ["built_in", name, args]
            operator = workloads.get(name)
            named: dict[str, Any] = dict(zip(operator.args, args, strict=False))
            dag = ComputeDAG(operator.tensors(**named))
        with Peer(options.peer, "limits_worker.py") as peer:
            try:
                steps = [
                    steps_from_json(s) for s in peer.ask(*question, hardware, options.count, seed)
                ]
                theirs: list[Thresholds] = peer.ask("thresholds", KEYS)
                sets = [drawn_limits(rng, theirs, hardware) for _ in range(options.sets)]
                legal = peer.ask("verdicts", sets)
            except PeerError as error:
                print(f"{where}: not compared, the peer says {error}", flush=True)
                continue
        refused_here = set()
        for each, expected in zip(steps, theirs, strict=True):
            own = thresholds(dag, each)
            if isinstance(own, str) and REFUSED in own:
                refused_here.add(each)
                continue
            detail = dag.state_of(each).to_str()
            if isinstance(own, str):
                allowed = any(least is not None for least in expected.values())
                same("lowered", False, allowed, f"{own}\n{detail}")
                continue
            for key in KEYS:
                same(key, own[key], expected[key], detail)
        for numbers, wanted in zip(sets, legal, strict=True):
            target = Target("cuda", HardwareParams.from_list(numbers))
            batched = BatchedFeatures(dag, target)
            many = [rows is not None for rows in batched(steps)]
            refused = batched.refused(steps)
            for each, is_legal, at_once, no in zip(steps, wanted, many, refused, strict=True):
                try:
                    one = len(features_of_steps(dag, each, target, "ansor-0.19")) > 0
                except ScheduleError:
                    one = False
                detail = f"{numbers}\n{dag.state_of(each).to_str()}"
                if each not in refused_here:
                    same("one by one", one, is_legal, detail)
                same("many at once", at_once, one, detail)
                same("refused at once", no and one, False, detail)
    for what, number in compared.items():
        print(f"{what:30} {differing[what]:6} of {number} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
