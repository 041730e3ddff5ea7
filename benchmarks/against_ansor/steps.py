"""Loop states of random primitives in any order, against Ansor's `loop_state.State`.

    python benchmarks/against_ansor/steps.py --peer PYTHON [--cases N] [--seed S] [--show N]

A case draws a computation (steps_dags.py), its sizes (1, primes, no multiples of anything) and
primitives with their arguments, legal or not. After each the two states must be the same: text,
iterators with ranges, kinds and annotations; and both must take it or refuse it. At the end the
same must be: the steps as a record has them, the bound state of the state and of the steps read
back, rows of features for its target, and the schedule that Ansor's Python code makes of our te,
run as it stands where it runs in TVM: as lowered text, that of the replayed steps.

Normalised: the expressions of ranges that are no constants, and tied slots of features. A refusal
here of what Ansor takes at first and cannot bound afterwards is no difference. These differ
deliberately, and are counted apart (DELIBERATE, `own_way`):

* refused here, taken by Ansor: caches of stages with changed loops (but one reorder right before,
  which here is the order of the cache's axes), inlined or attached outputs, reductions and
  placeholders, alignment of what is no dimension of a tensor, factoring after a split of another
  axis, splits by lengths below 1; and what gives a wrong program: parallel reductions, reductions
  bound to blocks or fused with data axes and bound, one thread for two loops, memory of threads
  that a loop of theirs fills or that others read;
* taken here, refused by Ansor: caches of argmax, loops of inlined stages that were split or bound,
  threads of one iteration that does not begin at 0;
* reductions bound to threads: loops that each thread reduces by itself are the innermost here, so
  that what is computed at them is smaller, and the rest of a split that does not divide is guarded
  (Ansor writes beyond the array);
* code of Ansor's that uses one name for two caches.

Not asked, since Ansor dies: caches of placeholders and of stages that are not at the root.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import steps_dags
from peer import Peer, PeerError, arguments

sys.path.insert(0, str(Path(__file__).parent.parent))
from golden_report import matching_rows

from autosched import te
from autosched.driver import schedule_ops
from autosched.errors import ScheduleError
from autosched.features.lowering import features_of_steps
from autosched.state.dag import ComputeDAG
from autosched.state.iterator import THREAD_ANNOTATIONS, IterKind
from autosched.state.stage import ComputeAt
from autosched.state.state import State
from autosched.state.steps import steps_from_json, steps_to_json
from autosched.target import HardwareParams, Target

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16)
LENGTHS = (1, 1, 2, 2, 3, 4, 5, 7, 8, 16)
THREADS = ("vthread", *(f"{kind}.{axis}" for axis in "xyz" for kind in ("blockIdx", "threadIdx")))
KINDS = (
    *("split",) * 6,
    *("follow_split",) * 2,
    *("follow_fused_split",) * 2,
    *("fuse",) * 4,
    *("reorder",) * 4,
    *("annotate",) * 4,
    *("compute_at",) * 5,
    *("compute_inline",) * 2,
    "compute_root",
    *("cache_read",) * 2,
    *("cache_write",) * 2,
    *("rfactor",) * 3,
    "storage_align",
    "pragma",
)
HARDWARE = {"cpu": [2, 64, 64, 0, 0, 0, 0, 0], "cuda": [80, 16, 64, 49152, 65536, 1024, 8, 32]}
DELIBERATE = re.compile(
    "|".join(
        (
            "cache_write: only Ansor takes it: .*(loops were changed|before it is inlined)",
            "rfactor: only Ansor takes it: .*the step before it split iterator",
            "only .*it is fused with a reduction axis bound to threads",
            "only Ansor .*compute_(inline|at): stage .*: (an output|a reduction|a placeholder) ",
            "only .*parallel: stage .*: a reduce axis",
            "only .* bound to (vthread|block).*: a reduction is shared by the threads of a block",
            "only .*storage_align: stage .*: it is not one dimension of its tensor",
            "only .*which is not around the stage",
            "only .*bind: stage .* runs loop .* of the stage too",
            "only .*: length .* is not positive",
            "code: ScheduleError: (storage_align|cache_write: stage P: give all its)",
            "cache_write: only we take it: .*ReduceEqual",
            "bound: only we: .*(allow_missing|state.count.kv.first)",
            "only .*compute_inline: stage .*: it has several outputs",
            "only .*would fill (local|shared) memory",
            "features: only we lower it",
        )
    )
)
Asked = tuple[str, int, list[Any]]


def drawn(rng: random.Random, state: State, undefined: bool) -> Asked | None:
    """A primitive with its arguments; None where there is nothing to apply it to."""
    kind = rng.choice(KINDS)
    stages = range(len(state.stages))
    stage = rng.choice(stages)
    computed = [s for s in stages if not state.stages[s].is_placeholder]
    if kind != "cache_read" and rng.random() < 0.98:
        stage = rng.choice(computed)
    n = len(state.stages[stage].iters)
    if kind == "compute_at":
        target = rng.choice(computed)
        targets = len(state.stages[target].iters)
        return (kind, stage, [target, rng.randrange(targets)]) if targets else None
    if kind in ("compute_inline", "compute_root"):
        return kind, stage, []
    if kind == "cache_write":
        return kind, stage, [rng.choice(("local", "shared", "global"))]
    if kind == "cache_read":
        op = state.stages[stage].op
        readers = [s for s in computed if any(t.op is op for t in state.stages[s].op.inputs)]
        if rng.random() < 0.05 or not readers:
            readers = computed
        some = rng.sample(readers, rng.randint(1, len(readers)))
        return kind, stage, [rng.choice(("local", "shared", "global")), some]
    if not n:
        return None
    at = rng.randrange(n)
    splits = [k for k, step in enumerate(state.steps) if step.code == "SP"]
    some_step = rng.choice(splits) if splits and rng.random() < 0.97 else rng.randrange(9)
    match kind:
        case "split":
            lengths: list[int | None] = [rng.choice(LENGTHS) for _ in range(rng.randint(1, 3))]
            if undefined:
                lengths = [None if rng.random() < 0.4 else length for length in lengths]
            if rng.random() < 0.01:
                lengths[0] = rng.choice((0, -1))
            if rng.random() < 0.01:
                lengths = []
            return kind, stage, [at, lengths, rng.random() < 0.6]
        case "follow_split":
            return kind, stage, [at, some_step, rng.randint(1, 3)]
        case "follow_fused_split":
            sources = [some_step, *rng.sample(splits, rng.randint(0, min(2, len(splits))))]
            return kind, stage, [at, sources, rng.randint(0, 1), rng.random() < 0.5]
        case "fuse":
            most = rng.randint(1, 3) if rng.random() < 0.95 else 0
            ids = list(range(at, min(n, at + most)))
            return kind, stage, [ids if rng.random() < 0.98 else ids[::-1]]
        case "reorder":
            order = rng.sample(range(n), n)
            return kind, stage, [order if rng.random() < 0.97 else order[1:]]
        case "annotate":
            name = rng.choice(("parallel", "vectorize", "unroll", "unroll", "bind", "bind"))
            more: list[Any] = []
            if name == "bind":
                more = [rng.choice(THREADS)]
            elif name == "unroll":
                more = rng.choice(([], [4]))
            return name, stage, [at, *more]
        case "rfactor":
            return kind, stage, [at, rng.randrange(n)]
        case "storage_align":
            return kind, stage, [at, rng.choice((1, 8, 32)), rng.choice((0, 1, 4))]
        case _:
            pragmas = ("auto_unroll_max_step$16", "auto_unroll_max_step$0", "debug_skip_region")
            return kind, stage, [at, rng.choice(pragmas)]


def cacheable(state: State, stage: int) -> bool:
    """Whether Ansor can be asked: not for caches of placeholders and of stages elsewhere."""
    found = state.stages[stage]
    return not found.is_placeholder and found.compute_at is ComputeAt.ROOT


def applied(state: State, asked: Asked) -> State:
    """The primitive here."""
    kind, stage, args = asked
    iters = state.stages[stage].iters
    if kind == "fuse" or kind == "reorder":
        result: Any = getattr(state, kind)(stage, [iters[i] for i in args[0]])
    elif kind == "compute_at":
        result = state.compute_at(stage, args[0], state.stages[args[0]].iters[args[1]])
    elif kind in ("compute_inline", "compute_root", "cache_read", "cache_write"):
        result = getattr(state, kind)(stage, *args)
    else:
        result = getattr(state, kind)(stage, iters[args[0]], *args[1:])
    new: State = result[0] if isinstance(result, tuple) else result
    return new


def described(state: State) -> list[Any]:
    """As the worker describes a state."""
    stages = []
    for stage in state.stages:
        iters = []
        for it in stage.iters:
            known = it.extent is not None or it.size is not None
            low, extent = (str(it.min), str(it.extent or it.size)) if known else ("", "")
            iters.append([it.name, low, extent, int(it.kind), int(it.annotation)])
        stages.append([stage.name, int(stage.compute_at), iters])
    return [str(state), stages]


def same(ours: list[Any], theirs: list[Any]) -> bool:
    """Whether two descriptions say the same, expressions apart."""

    def plain(found: list[Any]) -> list[Any]:
        return [
            [
                name,
                at,
                [
                    [n, *(x if _number(x) else "?" for x in (lo, ex)), k, a]
                    for n, lo, ex, k, a in its
                ],
            ]
            for name, at, its in found
        ]

    text = _RANGE.sub("(?,", ours[0]) == _RANGE.sub("(?,", theirs[0])
    return text and plain(ours[1]) == plain(theirs[1])


_RANGE = re.compile(r"\((?!None)(?!\d+,)[^\n]*,(?=\S*\)$)", re.M)


def _number(text: str) -> bool:
    return text == "" or text.lstrip("-").isdigit()


def our_code(dag: ComputeDAG, text: str) -> str:
    """The lowered text of the schedule that Ansor's code makes here."""
    names: dict[str, Any] = {"te": te, "s": te.create_schedule(list(dag.outputs))}
    names |= {op.name: op.output(0) for op in dag.ops}
    exec(text, names)
    return str(schedule_ops(names["s"], list(dag.tensors)))


class Comparison:
    """Counts what was compared, and shows what differs."""

    def __init__(self, show: int) -> None:
        self.counts: Counter[str] = Counter()
        self.classes: Counter[str] = Counter()
        self.show = show

    def differs(self, kind: str, case: str, detail: str) -> None:
        """Note a difference, and print the first few of its class."""
        if DELIBERATE.search(kind):
            self.counts["deliberate differences"] += 1
            return
        kind = re.sub(r"\d+", "N", kind)
        self.classes[kind] += 1
        if self.classes[kind] <= self.show:
            print(f"-- {kind}\n{case}\n{detail}\n", flush=True)


def both(
    peer: Peer, state: State, asked: Asked, where: str, report: Comparison
) -> tuple[State, list[Any]] | None:
    """What both make of a primitive; None where one of them refuses it, which is noted."""
    ours = theirs = None
    our_error = their_error = ""
    try:
        ours = applied(state, asked)
    except ScheduleError as error:
        our_error = str(error)
    except Exception as error:
        report.differs(f"{asked[0]}: a crash here", where, repr(error))
        our_error = repr(error)
    try:
        theirs = peer.ask("primitive", *asked)
    except PeerError as error:
        their_error = str(error)
    except SystemExit:
        print(f"{where}: the peer ended; here: {our_error or 'taken'}")
        raise
    report.counts["primitives"] += 1
    if ours is not None and theirs is not None:
        return ours, theirs
    if ours is not None:
        report.differs(f"{asked[0]}: only we take it: {their_error}", where, str(ours))
    elif theirs is not None:
        try:
            later = peer.ask("bound")[0]
            reason = our_error.partition("): ")[2] or our_error
            report.differs(f"{asked[0]}: only Ansor takes it: {reason}", where, later)
        except PeerError:
            report.counts["refused by Ansor afterwards"] += 1
        peer.ask("undo")
    else:
        report.counts["refused"] += 1
    return None


def one(peer: Peer, seed: int, report: Comparison) -> None:
    """Compare one case."""
    rng = random.Random(seed)
    name = rng.choice(list(steps_dags.DAGS))
    sizes = [rng.choice(SIZES) for _ in range(3)]
    text = peer.ask("start", name, sizes)
    dag = ComputeDAG(steps_dags.DAGS[name](te, *sizes))
    case = f"seed {seed}: {name} {sizes}"
    if dag.print_dag() != text:
        report.differs("dag", case, f"{dag.print_dag()}\n{text}")
    undefined = rng.random() < 0.2
    state = dag.init_state
    for _ in range(rng.randint(2, 12)):
        asked = drawn(rng, state, undefined)
        if asked is None:
            continue
        where = f"{case}\n{steps_text(state)}\n{asked}\n{state}"
        if asked[0] == "cache_write" and not cacheable(state, asked[1]):
            report.counts["not asked"] += 1
            continue
        pair = both(peer, state, asked, where, report)
        if pair is None:
            continue
        state, theirs = pair
        if asked[0] == "cache_write" and state.steps[-2:-1] and state.steps[-2].code == "RE":
            if state.steps[-2].stage_id == asked[1]:
                report.counts["deliberate differences"] += 1
                return
        if not same(described(state), theirs):
            detail = f"ours\n{described(state)}\ntheirs\n{theirs}\n{state}\n{theirs[0]}"
            report.differs(f"{asked[0]}: state", where, detail)
            return
    finish(peer, dag, state, case, report)


def own_way(state: State) -> bool:
    """Whether a reduction is bound to threads."""
    kinds = (IterKind.REDUCTION, IterKind.MIXED)
    return any(
        it.kind in kinds and it.annotation in THREAD_ANNOTATIONS.values()
        for stage in state.stages
        for it in stage.iters
    )


def steps_text(state: State) -> str:
    """The steps, as code can read them."""
    return str(
        [(type(s).__name__, *(getattr(s, f) for f in s.__dataclass_fields__)) for s in state.steps]
    )


def finish(peer: Peer, dag: ComputeDAG, state: State, case: str, report: Comparison) -> None:
    """Compare what a state leads to."""
    if not state.concrete:
        return
    steps = steps_to_json(state.steps)
    case = f"{case}\n{steps}\n{state}"
    report.counts["states"] += 1
    if (written := peer.ask("steps")) != steps:
        report.differs("steps", case, f"ours\n{steps}\ntheirs\n{written}")
    if own_way(state):
        report.counts["reductions on threads"] += 1
        return
    try:
        ours: Any = described(dag.infer_bound_of(steps_from_json(steps)))
    except ScheduleError as error:
        ours = str(error)
    except Exception as error:
        report.differs("bound: a crash here", case, repr(error))
        return
    try:
        theirs: Any = peer.ask("bound")
    except PeerError as error:
        theirs = str(error)
    if isinstance(ours, str) != isinstance(theirs, str):
        kind = "only Ansor bounds it: " + ours if isinstance(ours, str) else f"only we: {theirs}"
        report.differs(f"bound: {kind}", case, f"ours {ours[0]}\ntheirs\n{theirs}")
    elif isinstance(ours, str):
        report.counts["bounds refused"] += 1
        return
    elif not same(ours, theirs):
        report.differs("bound", case, f"ours\n{ours[0]}\ntheirs\n{theirs[0]}\n{ours}\n{theirs}")
    elif (again := peer.ask("read", steps)) != theirs[0]:
        report.differs("bound of the steps read", case, f"ours\n{again}\ntheirs\n{theirs[0]}")
    if isinstance(theirs, str) or isinstance(ours, str):
        return
    compare_features(peer, dag, state, case, report)
    compare_code(peer, dag, state, case, report)


def compare_features(
    peer: Peer, dag: ComputeDAG, state: State, case: str, report: Comparison
) -> None:
    """The rows, of a GPU where a loop is bound to a thread."""
    bound = any(it.annotation in range(4, 11) for s in state.stages for it in s.iters)
    target = "cuda" if bound else "cpu"
    hardware = HARDWARE[target]
    expected = np.array(peer.ask("features", target, hardware))
    refusal = ""
    try:
        found = features_of_steps(
            dag, state.steps, Target(target, HardwareParams.from_list(hardware))
        )
    except ScheduleError as error:
        refusal = str(error)
        found = np.zeros((1, expected.shape[1] if expected.ndim > 1 else 164), np.float32)
    except Exception as error:
        report.differs("features: a crash here", case, repr(error))
        return
    report.counts["features"] += not refusal
    zero = expected.size == 0 or not expected.any()
    if refusal and zero:
        report.counts["features refused"] += 1
    elif refusal:
        report.differs(f"features: only Ansor lowers it: {refusal}", f"{target} {case}", "")
    elif zero:
        report.differs("features: only we lower it", f"{target} {case}", "")
    elif not matching_rows(found, expected) == len(found) == len(expected):
        lines = []
        for row, other in zip(found, expected, strict=False):
            lines.append(
                [
                    (k, float(a), b)
                    for k, (a, b) in enumerate(zip(row, other))
                    if abs(a - b) > 1e-5 * max(1, abs(b))
                ]
            )
        report.differs("features", f"{target} {case}", f"{len(found)} {len(expected)} {lines}")


def compare_code(peer: Peer, dag: ComputeDAG, state: State, case: str, report: Comparison) -> None:
    """Ansor's Python code, run here."""
    code, error = peer.ask("code")
    caches = re.findall(r"^(\w+),? = s\.cache", code, re.M)
    if error or len(set(caches)) < len(caches):
        report.counts["code that TVM cannot run, or of one name twice"] += 1
        return
    try:
        schedule, tensors = dag.apply_steps(state.steps)
        expected = str(schedule_ops(schedule, tensors))
    except ScheduleError as refusal:
        expected = f"ScheduleError: {refusal}"
    code = code.replace('"unroll_explicit", True', '"unroll_explicit", 1')
    try:
        found = our_code(dag, code)
    except ScheduleError as refusal:
        found = f"ScheduleError: {refusal}"
    except Exception as crash:
        found = f"{type(crash).__name__}: {crash}"
    report.counts["code"] += 1
    if found != expected:
        report.differs(
            f"code: {found if 'Error' in found[:20] else ''}", case, f"{code}\n{found}\n{expected}"
        )
    elif found.startswith("ScheduleError"):
        report.differs(f"code: only TVM lowers it: {found}", case, code)


def main() -> int:
    """Print the differences and a summary; 1 where something differs."""
    parser = arguments(__doc__)
    parser.add_argument("--show", type=int, default=1, help="differences of a class to print")
    options = parser.parse_args()
    report = Comparison(options.show)
    seed, end = options.seed, options.seed + options.cases
    while seed < end:
        with Peer(options.peer, "steps_worker.py") as peer:
            try:
                while seed < end:
                    seed += 1
                    one(peer, seed - 1, report)
            except SystemExit as error:
                report.counts["cases that end the peer"] += 1
                print(f"seed {seed - 1}: {error}", flush=True)
    for kind, count in report.classes.most_common():
        print(f"{count:6}  {kind}")
    print(", ".join(f"{count} {what}" for what, count in sorted(report.counts.items())))
    print(f"{report.classes.total()} differences in {options.cases} cases")
    return 1 if report.classes else 0


if __name__ == "__main__":
    sys.exit(main())
