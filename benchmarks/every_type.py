"""Every operation of expressions in every type: compiled, interpreted, and by NumPy.

    python benchmarks/every_type.py                                   # all types, two seeds
    python benchmarks/every_type.py --types int8 float16 --seeds 20

Values are drawn from corner values (limits of types, NaN, infinities, subnormals, neighbours of
integers) and from all bit patterns. Loops are scalar, or vectors with a tail. Differences are
printed, and the status is then 1.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from kit.every_type import FLOATS, INTEGERS, expressions, problems

TYPES = (*INTEGERS, *FLOATS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--types", nargs="+", choices=TYPES, default=TYPES, metavar="TYPE")
    parser.add_argument("--seeds", type=int, default=2, help="how many draws of values (2)")
    parser.add_argument("--lanes", type=int, nargs="+", default=[1, 4, 8, 16, 32])
    arguments = parser.parse_args()
    wrong = 0
    for dtype in arguments.types:
        each = expressions(dtype)
        for lanes in arguments.lanes:
            for seed in range(arguments.seeds):
                for problem in problems(dtype, each, lanes=lanes, count=1003, seed=10 * seed):
                    print(problem)
                    wrong += 1
        print(f"{dtype}: {len(each)} expressions in {arguments.lanes} lanes", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
