"""Layout-free inputs in the order in which candidates read them, against Ansor's.

    python benchmarks/against_ansor/layouts.py --peer PYTHON [--cases N] [--count N] [--show N]

A case draws a built-in operator whose weights' layout is free, or a graph with several inputs of
free layout: read by several stages, twice by one, along axes of one element, by sums of axes, by
stages that are inlined or computed inside of others. The peer samples and mutates candidates. Of
each the same must be: the computation with the inputs stored otherwise (as text, its key, flops,
first state and what its operations say of layouts), and for all three options the arguments of the
schedule, its stages, their loops with extents and annotations. The results of our computation must
be those of the one without other layouts.

Known to differ, and no defect:

- Ansor fails where an index is no axis but 0, where one tensor has two axes of one element, where
  what is computed at a loop has fewer loops than there are around it, and at times ends.
- It stores an input in fewer or more elements than it has where a split does not divide, or where
  loops of a stage were reset; here the input keeps its order.
- It calls an axis by what stands before the last `_` of its name: that of a cache by that of the
  stage, as here, but `row_of` by `row`, too. None are drawn.
- It leaves out the middle of long lines of its text. They are whole here.
- GPU candidates whose threads read what other threads hold are refused here.
"""

from __future__ import annotations

import math
import random
import re
import sys
from collections import Counter
from typing import Any

import numpy as np
import programs
import states
from peer import Peer, PeerError, arguments

from autosched.errors import AutoschedError
from autosched.layout import LayoutOption
from autosched.state.dag import ComputeDAG
from autosched.state.layout_rewrite import LayoutRewrite, rewrite_layout
from autosched.state.steps import Step, steps_from_json
from autosched.te.bounds.infer_bound import infer_bound
from autosched.te.relations import AttachType
from autosched.te.schedule.stage import Stage
from autosched.tir.expr import IntImm
from autosched.tir.iteration import IterKind
from autosched.workloads.evaluate import evaluate
from autosched.workloads.workload import random_inputs, shape_of

LAYOUTS = ("ori_placeholder_layout", "new_placeholder_layout")
SIZES = (1, 2, 3, 4, 6, 7, 8, 12, 16, 30)
OMITTED = " ..(OMITTED).. "
REFUSED = "what its consumers read depends on"
"""What is said of the candidates that are refused here alone."""
ATTACHED = {
    AttachType.GROUP_ROOT: 1,
    AttachType.INLINE: 2,
    AttachType.INLINED: 3,
    AttachType.SCOPE: 4,
}
KINDS = {IterKind.UNROLLED: 5, IterKind.VECTORIZED: 6, IterKind.PARALLELIZED: 7}
"""TVM's numbers."""


def drawn(rng: random.Random, seed: int) -> str:
    """A program with inputs of free layout."""
    if rng.random() < 0.4:
        return freed(rng, programs.drawn(seed))
    return layers(rng)


def freed(rng: random.Random, text: str) -> str:
    """The program, some of whose stages call the layout of inputs that they read free."""
    lines = []
    for line in text.splitlines():
        body = line.partition("lambda")[2]
        read = sorted(set(re.findall(r"I\d+", body)))
        free = [name for name in read if rng.random() < 0.7]
        if free and line.endswith(")"):
            names = ", ".join(free)
            line = f"{line[:-1]}, attrs={{'layout_free_placeholders': [{names}]}})"
        lines.append(line)
    return "\n".join(lines)


TERMS = (
    "{x}[i, r] * {w}[r, j]",
    "{x}[i, r] * {w}[j, r]",
    "{x}[i, r] * {w}[r, 0, j]",
    "{x}[i, r] * {w}[0, j, r, 0]",
    "{x}[i, r] * {w}[j, r] * {w}[j, r]",
    "{x}[i, r] * ({w}[r, j] + {w}[j, r])",
    "{x}[i, r] * {w}[r, j] * {v}[j]",
    "{x}[i, r] * {w}[r, j] + {v}[r, j]",
    "{x}[i, r] * {w}[i, r, j]",
    "{x}[i, r] * {w}[r, j + r]",
    "{x}[i, r] * {w}[j]",
    "{x}[i, r] * {w}[r, j, 1]",
    "{x}[i, r] * {w}[r, j % 2]",
)
AFTER = (
    "te.max({y}[i, j], const(0.0, 'float32'))",
    "{y}[i, j] + {b}[j]",
    "{y}[i, j] * {b}[i, j]",
    "{y}[i, j] + {b}[0, j]",
    "te.exp({y}[i, j]) * {b}[j, i]",
)


class Layers:
    """Products one after the other, with what follows them."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.arguments: list[str] = []
        self.shapes: dict[str, tuple[int, ...]] = {}

    def input(self, term: str, name: str, sizes: dict[str, int]) -> str:
        """An input that the term reads at an axis of each size, by `{name}`; at times one that is
        there already."""
        found = re.search(rf"\{{{name}\}}\[([^]]*)\]", term)
        assert found is not None
        places = [sizes[place] for place in found[1].split(", ")]
        alike = [n for n, shape in self.shapes.items() if shape == tuple(places)]
        if alike and self.rng.random() < 0.5:
            return self.rng.choice(alike)
        new = f"I{len(self.shapes)}"
        self.shapes[new] = tuple(places)
        self.lines.append(f"{new} = te.placeholder({tuple(places)}, 'float32', name={new!r})")
        self.arguments.append(new)
        return new

    def stage(self, name: str, shape: tuple[int, int], body: str, free: list[str]) -> None:
        """A stage with axes i and j; which of the inputs it calls free is drawn."""
        free = [each for each in dict.fromkeys(free) if self.rng.random() < 0.8]
        attrs = f", attrs={{'layout_free_placeholders': [{', '.join(free)}]}}" if free else ""
        text = f"{name} = te.compute({shape}, lambda i, j: {body}, name={name!r}{attrs})"
        self.lines.append(text)


def layers(rng: random.Random) -> str:
    """One to three products, each with elementwise stages behind it."""
    made = Layers(rng)
    i, r = rng.choice(SIZES), rng.choice(SIZES)
    made.lines.append(f"I0 = te.placeholder(({i}, {r}), 'float32', name='I0')")
    made.shapes["I0"] = (i, r)
    made.arguments.append("I0")
    last = "I0"
    for layer in range(rng.choice((1, 1, 2, 3))):
        j = rng.choice(SIZES)
        term = rng.choice(TERMS)
        if "{w}[j, r])" in term:
            j = r
        sizes = {"i": i, "r": r, "j": j, "0": 1, "1": 2, "j + r": j + r, "j % 2": 2}
        names = {"x": last}
        for name in "wv":
            if f"{{{name}}}" in term:
                names[name] = made.input(term, name, sizes)
        if rng.random() < 0.3 and last != "I0":
            made.stage(f"P{layer}", (i, r), f"te.tanh({last}[i, j])", [])
            names["x"] = f"P{layer}"
        made.lines.append(f"r = te.reduce_axis((0, {r}), name='r')")
        last = f"Y{layer}"
        body = term.format(**names)
        free = [name for name in made.shapes if f"{name}[" in body]
        made.stage(last, (i, j), f"te.sum({body}, axis=[r])", free)
        for k in range(rng.choice((0, 0, 1, 2))):
            after = rng.choice(AFTER)
            names = {"y": last}
            if "{b}" in after:
                names["b"] = made.input(after, "b", sizes)
            last = f"Z{layer}_{k}"
            made.stage(last, (i, j), after.format(**names), [names["b"]] if "b" in names else [])
        r = j
    return "\n".join([*made.lines, f"tensors = [{', '.join(made.arguments)}, {last}]"])


def answer_of(name: str, dag: ComputeDAG, steps: tuple[Step, ...]) -> dict[str, Any]:
    """What the peer says of a candidate, of ours."""
    option = LayoutOption.FOR_PRE_TRANSFORMED if name == "dag" else LayoutOption(int(name))
    try:
        stored = rewrite_layout(dag, steps, option)
        if not same_values(dag, stored):
            return {"error": "its values are others"}
        return graph(stored.dag) if name == "dag" else scheduled(stored)
    except AutoschedError as error:
        return {"error": str(error)}


def graph(dag: ComputeDAG) -> dict[str, Any]:
    """What is said of a computation."""
    return {
        "text": dag.print_dag(),
        "key": dag.hash_key(),
        "flops": dag.flop_count,
        "initial": dag.init_state.to_str(),
        "layouts": [[str(op.attrs[key]) for key in LAYOUTS if key in op.attrs] for op in dag.ops],
    }


def scheduled(rewritten: LayoutRewrite) -> dict[str, Any]:
    """What is said of a schedule."""
    schedule, tensors = rewritten.dag.apply_steps(rewritten.steps)
    schedule = schedule.normalize()
    bounds = infer_bound(schedule)

    def extent(iv: Any) -> int:
        found = bounds[iv].extent
        return found.value if isinstance(found, IntImm) else -1

    return {
        "arguments": [[t.op.name, *shape_of(t)] for t in tensors],
        "stages": [
            [
                stage.op.name,
                stage.scope,
                ATTACHED[stage.attach_type],
                stage.attach_ivar.var.name if stage.attach_ivar is not None else "",
                [[iv.var.name, extent(iv)] for iv in stage.leaf_iter_vars if iv in bounds],
                marks(stage),
            ]
            for stage in schedule.stages
        ],
    }


def marks(stage: Stage) -> list[Any]:
    """Loops with a kind of their own, or a thread."""
    found = []
    for iv, attr in stage.iter_var_attrs.items():
        if attr.iter_kind or attr.bind_thread is not None:
            thread = attr.bind_thread.var.name if attr.bind_thread is not None else ""
            found.append([iv.var.name, KINDS.get(attr.iter_kind, 0), thread])
    return sorted(found)


def same_values(dag: ComputeDAG, stored: LayoutRewrite) -> bool:
    """Whether the computation is the same with the layouts of a candidate."""
    inputs = random_inputs([tensor for tensor in dag.tensors if not tensor.op.inputs])
    expected = evaluate(dag.tensors, inputs)
    if stored.dag.tensors != dag.tensors:
        for change in stored.changes:
            kept = stored.dag.tensors[change.position] is dag.tensors[change.position]
            if not kept:
                inputs[change.position] = change.transform(inputs[change.position])
    found = evaluate(stored.dag.tensors, inputs)
    return all(np.allclose(a, b) for a, b in zip(found, expected, strict=True))


def whole(theirs: str, ours: str) -> str:
    """The peer's text, with what it leaves out of long lines."""
    lines = []
    for line, own in zip(theirs.splitlines(), ours.splitlines(), strict=False):
        start, cut, end = line.partition(OMITTED)
        lines.append(own if cut and own.startswith(start) and own.endswith(end) else line)
    return "\n".join([*lines, ""])


def known(
    theirs: dict[str, Any], ours: dict[str, Any], dag: ComputeDAG, given: dict[str, Any]
) -> str:
    """Why the answers differ, where that is no defect; empty where it is not known.

    `given` is the peer's answer for inputs that are stored otherwise.
    """
    if "error" in theirs or "error" in given:
        return "refused there"
    if REFUSED in ours.get("error", ""):
        return "refused here"
    pairs = zip(given["arguments"], map(shape_of, dag.tensors), strict=True)
    if any(math.prod(stored) != math.prod(shape) for (_, *stored), shape in pairs):
        return "other sizes there"
    return ""


def first(ours: Any, theirs: Any, at: str = "") -> str:
    """Where two answers differ first, and how."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        pairs = [(f"{at}.{key}", value, theirs.get(key)) for key, value in ours.items()]
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = [(f"{at}[{k}]", a, b) for k, (a, b) in enumerate(zip(ours, theirs, strict=True))]
    else:
        return f"{at}:\n  ours   {ours}\n  theirs {theirs}"
    return next((first(a, b, where) for where, a, b in pairs if a != b), "")


def main() -> int:
    """Print what differs and a summary; 1 where something does."""
    parser = arguments(__doc__)
    parser.add_argument("--count", type=int, default=8, help="candidates of a case")
    parser.add_argument("--show", type=int, default=3, help="differences to print")
    options = parser.parse_args()
    counted: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.cases):
        rng = random.Random(seed)
        target = rng.choice(("cpu", "cpu", "cuda"))
        about = (target, states.hardware_of(rng, target), options.count, seed)
        if rng.random() < 0.3:
            name, args = states.arguments_of(rng)
            dag, _ = states.built_in(name, args, {})
            question: tuple[Any, ...] = ("built_in", name, args)
            shown = f"{name} {args}"
        else:
            text = drawn(rng, seed)
            dag, question, shown = ComputeDAG(programs.tensors(text)), ("program", text), text
        try:
            with Peer(options.peer, "layouts_worker.py") as peer:
                answers = peer.ask(*question, *about, seconds=60)
        except (PeerError, SystemExit) as error:
            counted["left out"] += 1
            print(f"seed {seed}: not compared: {str(error)[:90]}", flush=True)
            continue
        for theirs in answers:
            steps = steps_from_json(theirs.pop("steps"))
            counted["candidates"] += 1
            counted["stored otherwise"] += theirs["dag"].get("text") != dag.print_dag()
            for name, answer in theirs.items():
                ours = answer_of(name, dag, steps)
                if OMITTED in answer.get("text", ""):
                    answer["text"] = whole(answer["text"], ours.get("text", ""))
                if ours == answer:
                    counted["the same"] += 1
                    continue
                why = known(answer, ours, dag, theirs["2"])
                counted[why or "differ"] += 1
                if not why and counted["differ"] <= options.show:
                    where = f"-- seed {seed}: {about}\n{shown}\n{steps}\n{name}"
                    print(where, first(ours, answer), sep="", flush=True)
    print(dict(counted))
    return 1 if counted["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
