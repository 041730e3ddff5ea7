"""Sketches and DAGs of operators by hand and drawn ones, against Ansor's.

    python benchmarks/against_ansor/sketches.py --peer PYTHON [--cases N] [--only NAME]

A case draws sizes, a target, its limits and parameters of the search, and compares each operator of
operators.txt and one that programs.py draws: the printed DAG, its hash key, its operations, the
printed initial state and all sketches of the space `ansor`, in Ansor's order.

Known differences, which are not counted:
- Axes of int64: Ansor prints their extents as `T.int64(7)`, here they are 7.
- Constants of 16 bits, where more digits were written than their type has: they are rounded here.
- `max(x, x)` is x here, where equal reads are one node; Ansor folds it where x is one object.
- On GPUs Ansor fetches a tensor into shared memory for the threads that share a sum, too, where a
  product reads it first: no sample of such a sketch is legal. Here that sum reads it itself.
- Ansor fails where no axis of a product may be split, and where a tensor is fetched for a product
  and another reader has it inlined.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import programs
from peer import Peer, PeerError, arguments

from autosched.errors import AutoschedError
from autosched.search.options import SearchOptions
from autosched.search.rules.protocol import Context
from autosched.search.sketch import generate_sketches
from autosched.state.dag import ComputeDAG
from autosched.target import HardwareParams

OPERATORS = Path(__file__).with_name("operators.txt")
SIZES = (1, 2, 3, 4, 7, 8, 12, 16, 31, 32, 33, 64, 100, 128, 256, 1024)
FOLDED = re.compile(r"(?:max|min)\((.+), \1\)")
PARAMETERS: dict[str, tuple[Any, ...]] = {
    "cpu_multi_level_tiling_structure": ("SSRSRS", "SRS", "SSRS", "SSSRRS", "SRSRS"),
    "gpu_multi_level_tiling_structure": ("SSSRRSRS", "SSSRS", "SSSRRS", "SSSRSRS", "SSSSRS"),
}


def operators(sizes: str) -> dict[str, str]:
    """The programs of operators.txt by their names; `sizes` is their first line."""
    found = {}
    for text in OPERATORS.read_text().strip().split("\n\n"):
        name, _, body = text.partition("\n")
        found[name.removeprefix("# ")] = f"{sizes}\n{body}"
    return found


def hardware_of(rng: random.Random, target: str) -> list[int]:
    """The eight limits of Ansor's records."""
    if target == "cpu":
        return [rng.choice((1, 2, 4, 20, 64)), rng.choice((16, 32, 64)), 64, 0, 0, 0, 0, 0]
    threads, warp = rng.choice((64, 256, 512, 1024)), rng.choice((8, 32, 64))
    return [rng.choice((-1, 2, 80)), 16, 64, 48 << 10, 65536, threads, warp // 4, warp]


def graph(dag: ComputeDAG) -> dict[str, Any]:
    """What the peer's `graph` says of a DAG."""
    return {
        "dag": dag.print_dag(),
        "flops": dag.flop_count,
        "hash_key": dag.hash_key(),
        "initial": dag.init_state.to_str(),
    }


def sketches(
    dag: ComputeDAG, target: str, hardware: list[int], parameters: dict[str, Any]
) -> list[str]:
    """What the peer's `sketches` says."""
    options = SearchOptions(space="ansor", **parameters)
    context = Context(dag, HardwareParams(*hardware), target == "cuda", options)
    return [sketch.to_str() for sketch in generate_sketches(context)]


def is_known(theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Whether the answers differ as the text above says alone."""
    if "T.int64(" in theirs["dag"]:
        return True
    if any("h)" in line or line.endswith("h") for line in theirs["dag"].splitlines()):
        return equal_in(theirs, ours, "sketches", "flops", "initial")
    if theirs["dag"] != ours["dag"]:
        lines = zip(theirs["dag"].splitlines(), ours["dag"].splitlines(), strict=False)
        return all(a == b or FOLDED.search(a) for a, b in lines)
    pairs = zip(theirs["sketches"], ours["sketches"], strict=False)
    return len(theirs["sketches"]) == len(ours["sketches"]) and all(
        a == b or (".d.shared" in a and "threadIdx.x" in a) for a, b in pairs
    )


def equal_in(theirs: dict[str, Any], ours: dict[str, Any], *names: str) -> bool:
    """Whether these parts of the answers are equal."""
    return all(theirs[name] == ours[name] for name in names)


def differences(theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[str]:
    """A line of each value that differs, with the first lines of it that do."""
    for name, value in theirs.items():
        own = ours[name]
        if value == own:
            continue
        if isinstance(value, list):
            missing = [text for text in value if text not in own]
            more = [text for text in own if text not in value]
            yield f"{name}: Ansor has {len(value)}, here are {len(own)}"
            for title, texts in (("Ansor has", missing), ("here is", more)):
                if texts:
                    yield f"{title}\n{texts[0]}"
            continue
        pairs = zip(str(value).splitlines(), str(own).splitlines(), strict=False)
        for line, own_line in pairs:
            if line != own_line:
                yield f"{name}:\n  Ansor {line}\n  here  {own_line}"


def main() -> int:
    """Print what differs; 1 where something does."""
    parser = arguments(__doc__)
    parser.add_argument("--only", help="the operator with this name")
    options = parser.parse_args()
    compared = different = known = refused = 0
    for seed in range(options.seed, options.seed + options.cases):
        rng = random.Random(seed)
        sizes = ", ".join(str(rng.choice(SIZES)) for _ in range(4))
        texts = {**operators(f"N, M, K, C = {sizes}"), "drawn": programs.drawn(seed)}
        target = rng.choice(("cpu", "cuda"))
        hardware = hardware_of(rng, target)
        parameters = {}
        if rng.random() < 0.5:
            name = f"{'gpu' if target == 'cuda' else 'cpu'}_multi_level_tiling_structure"
            parameters[name] = rng.choice(PARAMETERS[name])
        with Peer(options.peer, "sketches_worker.py") as peer:
            for name, text in texts.items():
                if options.only not in (None, name):
                    continue
                title = f"seed {seed}: {name}, {sizes}, {target} {hardware} {parameters}"
                try:
                    theirs = peer.ask("graph", text)
                    theirs |= peer.ask("sketches", text, target, hardware, parameters)
                except PeerError as error:
                    print(f"{title}: the peer says {error}")
                    refused += 1
                    continue
                try:
                    dag = ComputeDAG(programs.tensors(text))
                    ours = graph(dag)
                    ours["sketches"] = sketches(dag, target, hardware, parameters)
                except AutoschedError as error:
                    print(f"{title}: here {type(error).__name__}: {error}")
                    different += 1
                    continue
                found = list(differences(theirs, ours))
                compared += 1
                if found and is_known(theirs, ours):
                    known += 1
                elif found:
                    different += 1
                    print("\n".join([title, *found]), flush=True)
    print(
        f"{compared} compared, {different} differ, {known} in what is known, "
        f"{refused} refused by the peer"
    )
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
