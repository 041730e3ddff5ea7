"""Mutation tests: named changes of the code, one by one, and the test that finds each.

    python benchmarks/mutants.py                       # all of mutants.toml
    python benchmarks/mutants.py --only hoist unroll   # those whose name contains a word
    python benchmarks/mutants.py --full                # what its own tests miss, the whole suite
    python benchmarks/mutants.py --check               # only whether the list fits the sources

Every change is made in a copy of the tree, in which the tests that the list names for it then run.
A change that no test finds survives. Only changes with a `reason` may survive. The exit status is 1
when another change survives or one with a reason is found after all, and 2 when the list does not
fit the sources.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).resolve().with_suffix(".toml")
TIMEOUT = 300.0  # seconds of one run; a change that makes the tests hang counts as found
_ALL_TIMEOUT = 1800.0  # seconds of all tests together, before anything is changed
# pytest's exit statuses; a negative one means that it died of a signal
_PASSED, _FAILED, _INTERRUPTED = 0, 1, 2
_HUNG = 124
_KEYS = {"name", "file", "old", "new", "tests"}
_OPTIONAL = {"every", "reason"}


@dataclass(frozen=True)
class Mutant:
    """A change: the text `old`, which stands exactly once in `file`, becomes `new`.

    With `every`, the text may stand there several times, and all of them change. `tests` are the
    files (or folders, or single tests) that should find the change. `reason` says why it is right
    that none does.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    every: bool = False
    reason: str = ""


@dataclass(frozen=True)
class Outcome:
    """Whether the tests found a change, which test found it, and the seconds it took."""

    mutant: Mutant
    killed: bool
    by: str
    seconds: float


def read_list(path: Path = LIST) -> list[Mutant]:
    """The mutants of a file. Raises ValueError naming an entry with a wrong or missing key."""
    found = []
    for entry in tomllib.loads(path.read_text())["mutant"]:
        missing = sorted(_KEYS - set(entry))
        unknown = sorted(set(entry) - _KEYS - _OPTIONAL)
        if missing or unknown:
            raise ValueError(
                f"{path.name}: {entry.get('name', 'an entry without name')}: "
                f"missing keys {missing}, unknown keys {unknown}"
            )
        found.append(Mutant(**{**entry, "tests": tuple(entry["tests"])}))
    return found


def problems(mutants: Sequence[Mutant], root: Path = ROOT) -> list[str]:
    """A sentence for every entry that does not fit the sources, which says what to do."""
    found = []
    names = [m.name for m in mutants]
    for mutant in mutants:
        where = f"{mutant.name}: {mutant.file}"
        if names.count(mutant.name) > 1:
            found.append(f"{mutant.name}: the name is used twice")
        if mutant.old == mutant.new:
            found.append(f"{mutant.name}: old and new are the same")
        for test in mutant.tests:
            if not (root / test.partition("::")[0]).exists():
                found.append(f"{mutant.name}: there are no tests {test}; name others")
        path = root / mutant.file
        if not path.is_file():
            found.append(f"{where}: there is no such file; name the one that has the text now")
            continue
        count = path.read_text().count(mutant.old)
        if count != 1 and not (mutant.every and count):
            found.append(
                f"{where}: the old text stands there {count} times, expected once; copy it from "
                f"the file as it is now, with enough around it\n{mutant.old}"
            )
    return found


def copy_tree(target: Path) -> None:
    """Copy all files that git knows, and new ones that it does not ignore, to `target`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        source, copy = ROOT / name, target / name
        if source.is_symlink() or source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)


def _environment(tree: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(tree)}


def run_tests(
    tree: Path, tests: Sequence[str], *options: str, timeout: float = TIMEOUT
) -> tuple[int, str, float]:
    """pytest's exit status (124 if it hung), its output and the seconds it took."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=line", *options, *tests]
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [*command, "-p", "no:cacheprovider"],
            cwd=tree,
            env=_environment(tree),
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        return _HUNG, f"no end within {timeout:g} s", time.perf_counter() - start
    return done.returncode, done.stdout + done.stderr, time.perf_counter() - start


@contextmanager
def applied(tree: Path, mutant: Mutant, number: int) -> Iterator[None]:
    """The tree with the change applied.

    The file's time is set so that Python does not use its old byte code.
    """
    path = tree / mutant.file
    text, stat = path.read_text(), path.stat()
    path.write_text(text.replace(mutant.old, mutant.new))
    os.utime(path, (stat.st_atime, stat.st_mtime + 10 * (number + 1)))
    try:
        yield
    finally:
        path.write_text(text)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def try_one(tree: Path, mutant: Mutant, number: int, *, full: bool) -> Outcome:
    """Change the tree, run the mutant's tests and, with `full`, the whole suite if they pass.

    Raises RuntimeError when pytest could not run them at all.
    """
    with applied(tree, mutant, number):
        status, output, seconds = run_tests(tree, mutant.tests)
        if status == _PASSED and full:
            status, output, more = run_tests(tree, ["tests"])
            seconds += more
    if status > _INTERRUPTED and status != _HUNG:
        raise RuntimeError(f"{mutant.name}: pytest ended with status {status}\n{output[-2000:]}")
    return Outcome(mutant, status != _PASSED, _finder(status, output), seconds)


def _finder(status: int, output: str) -> str:
    """The first test that failed, or what happened instead."""
    if status == _HUNG:
        return output
    if status < 0:
        return f"the process died with signal {-status}"
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    return failed[1].removeprefix("tests/") if failed else ""


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes as lines: name, killed or survives, seconds, by which test or why not."""
    width = max(len(o.mutant.name) for o in outcomes)
    lines = []
    for o in outcomes:
        word = "killed" if o.killed else "SURVIVES"
        lines.append(
            f"{o.mutant.name:{width}}  {word:8}  {o.seconds:5.1f} s  {o.by or o.mutant.reason}"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="parts of names")
    parser.add_argument("--full", action="store_true", help="the whole suite for what survives")
    parser.add_argument("--check", action="store_true", help="change nothing, run nothing")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    mutants = read_list()
    chosen = [m for m in mutants if not arguments.only or any(w in m.name for w in arguments.only)]
    wrong = problems(mutants)
    if wrong or not chosen:
        print("\n".join(wrong) or "no mutant has such a name")
        return 2
    if arguments.check:
        print(f"{len(mutants)} mutants fit the sources")
        return 0
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        trees: Queue[Path] = Queue()
        for number in range(arguments.processes):
            tree = Path(folder) / str(number)
            copy_tree(tree)
            trees.put(tree)
        files = sorted({test for m in chosen for test in m.tests})
        workers = str(arguments.processes)
        status, output, seconds = run_tests(tree, files, "-n", workers, timeout=_ALL_TIMEOUT)
        print(f"unchanged: {len(files)} files of tests in {seconds:.0f} s", flush=True)
        if status != _PASSED:
            print(f"they do not pass without any change; mend them first\n{output[-4000:]}")
            return 2

        def one(number: int) -> Outcome:
            tree = trees.get()
            try:
                outcome = try_one(tree, chosen[number], number, full=arguments.full)
            finally:
                trees.put(tree)
            print(table([outcome]), flush=True)
            return outcome

        with ThreadPoolExecutor(arguments.processes) as pool:
            outcomes = list(pool.map(one, range(len(chosen))))
    unexpected = [o for o in outcomes if o.killed == bool(o.mutant.reason)]
    print(f"\n{table(outcomes)}\n")
    print(
        f"{sum(o.killed for o in outcomes)} of {len(outcomes)} killed, "
        f"{time.perf_counter() - start:.0f} s in all"
    )
    for o in unexpected:
        print(
            f"{o.mutant.name} is killed: drop its reason"
            if o.killed
            else f"{o.mutant.name} survives: add a test that notices, or a reason"
        )
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
