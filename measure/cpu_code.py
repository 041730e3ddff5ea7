"""Whether a CPU can run the code for another one."""

from __future__ import annotations

from autosched.cpu_features import enabled
from autosched.cpuid import BITS
from autosched.target import Target, kind_of_triple
from autosched.te.intrin.registry import INSTRUCTIONS


def lacking(target: Target, features: str) -> list[str]:
    """The features that code for the target may use and a CPU with `features` lacks, in order.

    Of x86-64 that is known: others (pku, mwaitx) no compiler uses by itself, and virtual machines
    often lack them.
    """
    missing = enabled(target.features) - enabled(features)
    if kind_of_triple(target.triple)[0] == "x86_64":
        own = (feature for it in INSTRUCTIONS.values() for feature in it.features)
        missing &= BITS.keys() | set(own)
    return sorted(missing)
