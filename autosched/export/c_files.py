"""The files of a library for users of C: header, example program, CMake snippet."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from autosched.codegen.c_words import has_meaning
from autosched.export.library_ir import NO_SHAPE, UNSUPPORTED
from autosched.runtime.array_checks import element_of
from autosched.runtime.artifact import ParamSpec
from autosched.runtime.calling import constant_shape

_TYPES = {
    "bool": "uint8_t",
    "float32": "float",
    "float64": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_BITS = {"float16": "uint16_t", "bfloat16": "uint16_t"}
_FLOATS = {"float16": (5, 10), "bfloat16": (8, 7), "float8_e4m3fn": (4, 3), "float8_e5m2": (5, 2)}
"""Number of exponent and fraction bits of the floats that C code passes as their bits."""

_NUMBERS = 13  # an example fills arrays with 0, 1, ... 12, 0, 1, ...

_LIBRARIES = "c m dl rt pthread util resolv atomic crypt gcc gcc_s gomp"
LIBRARIES = frozenset(_LIBRARIES.split())
"""Libraries that programs link by default, or by a common option such as `-lm`."""

_CMAKE_TARGETS = """
all clean depend edit_cache help install list_install_components package package_source preinstall
rebuild_cache test
"""
CMAKE_TARGETS = frozenset(_CMAKE_TARGETS.split())
"""Targets of CMake itself (its policy CMP0037) and of its makefile generator."""


class Function(NamedTuple):
    """A function of the library: its symbol, what it computes (`title`), and its arrays.

    `variants` are the shapes among which a function that is passed shapes chooses; otherwise it is
    empty. `indices` maps the positions of arrays that are read as indices to the values they may
    hold.
    """

    symbol: str
    title: str
    params: tuple[ParamSpec, ...]
    variants: tuple[tuple[tuple[int, ...], ...], ...] = ()
    indices: Mapping[int, range] = MappingProxyType({})


def c_type(dtype: str) -> str:
    """The C type of elements; 16-bit and 8-bit floats are passed as their bits."""
    return _TYPES.get(dtype) or _BITS.get(dtype) or "uint8_t"


def c_names(params: Sequence[ParamSpec]) -> list[str]:
    """A C name for each array, equal to its own name where possible.

    No name equals that of another array's extents, `{name}_shape`.
    """
    found: list[str] = []
    taken: set[str] = set()
    for p in params:
        name = base = re.sub(r"\W", "_", p.name, flags=re.ASCII)
        if has_meaning(base):
            name = base = f"{base}_"
        elif not base or base[0].isdigit():
            name = base = f"_{base}"
        number = 1
        while not taken.isdisjoint((name, f"{name}_shape")):
            number += 1
            name = f"{base}{number}"
        taken.update((name, f"{name}_shape"))
        found.append(name)
    return found


def header(name: str, functions: Sequence[Function], features: Sequence[str], threads: int) -> str:
    """The text of NAME.h."""
    guard = f"AUTOSCHED_{name}_H"
    needs = _wrapped(", ".join(features) or "none beyond those of every such CPU")
    several = (
        f"Parallel loops run on up to {threads} threads, as many as this process may use and its\n"
        " * container has the time of, or on AUTOSCHED_NUM_THREADS of them; they start at the\n"
        " * first call that needs them."
        if threads > 1
        else "No kernel starts threads."
    )
    declarations = "\n".join(_declaration(f) for f in functions)
    return f"""/* Kernels tuned by autosched.
 *
 * Every function returns 0 when it is done, and otherwise a status that {name}_message explains;
 * nothing was computed then. Arrays are compact and row-major. Outputs are written, inputs are
 * not; an output shares no memory with another array. Pointers must be aligned to an element;
 * aligned to 64 bytes (aligned_alloc(64, ...)) some kernels are up to 1.3 times as fast. No
 * argument is checked. Several threads may call at once.
 * {several}
 *
 * Features of the CPU that are needed:
{needs}
 * A machine without them is refused: every function returns {UNSUPPORTED} before a kernel runs.
 */
#ifndef {guard}
#define {guard}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

/* NULL where this machine can run the library, else a sentence that names what is missing. */
const char *{name}_problem(void);

/* What a status means. */
const char *{name}_message(int status);

/* Which build this is; {name}.json names the one that it belongs to. */
const char *{name}_build(void);

{declarations}
#ifdef __cplusplus
}}
#endif

#endif /* {guard} */
"""


def _wrapped(text: str, width: int = 92) -> str:
    lines, line = [], " *  "
    for word in text.split():
        if len(line) + len(word) > width:
            lines.append(line)
            line = " *  "
        line += f" {word}"
    return "\n".join([*lines, line])


_TWICE = (
    "a function of another library, too, and a program calls that of one of them: "
    "build them as one library, or use dlopen"
)


def _declaration(f: Function) -> str:
    lines = [f"/* {f.title.replace('*/', '* /')}", " *"]
    for c, p in zip(c_names(f.params), f.params, strict=True):
        kind = "out" if p.is_output else "in"
        bits = "" if p.dtype in _TYPES else " (its bits)"
        shape = ", ".join(map(str, p.shape or ()))
        if f.variants:
            rank = len(p.shape or ())
            lines.append(f" * {c} ({kind}): {p.dtype}{bits}, with its {rank} extents")
            continue
        lines.append(f" * {c} ({kind}): {p.dtype}{bits} [{shape}]")
        if p.layout is not None:
            lines.append(f" *   stored in another order: {p.layout.text}")
    if f.variants:
        lines.append(f" * Shapes that are there (others: status {NO_SHAPE}):")
        lines += [f" *   {_shapes(f.params, variant)}" for variant in f.variants]
    lines.append(" */")
    taken = f"AUTOSCHED_FUNCTION_{f.symbol}"
    return f"""#ifdef {taken}
#error "{f.symbol} is {_TWICE}"
#endif
#define {taken}
{chr(10).join(lines)}
int {f.symbol}({_parameters(f)});
"""


def _shapes(params: Sequence[ParamSpec], variant: Sequence[tuple[int, ...]]) -> str:
    pairs = zip(c_names(params), variant, strict=True)
    return ", ".join(f"{name} [{', '.join(map(str, shape))}]" for name, shape in pairs)


def _parameters(f: Function) -> str:
    words = []
    for c, p in zip(c_names(f.params), f.params, strict=True):
        const = "" if p.is_output else "const "
        words.append(f"{const}{c_type(p.dtype)} *{c}")
        if f.variants:
            words.append(f"const int64_t *{c}_shape")
    return ", ".join(words)


def example(name: str, functions: Sequence[Function]) -> str:
    """The text of a program that calls kernels and prints sums of their outputs, and times.

    It calls all kernels, or those that its arguments name. Functions and variables of the program
    that clash with a function of the library are renamed.
    """
    symbols = {f.symbol for f in functions}
    marked = [f._replace(symbol=f"<{k}>") for k, f in enumerate(functions)]
    text = _example(name, marked)
    arrays = {f"array_{c}" for f in functions for c in c_names(f.params)}
    for word in symbols.intersection(arrays.union(_OWN_WORDS)):
        text = re.sub(rf"\b{word}\b", _unlike(word, symbols), text)
    for k, f in enumerate(functions):
        text = text.replace(f"call_<{k}>", _unlike(f"call_{f.symbol}", symbols))
        text = text.replace(f"<{k}>", f.symbol)
    return text


_OWN = "now aligned wanted number numbers i status fastest spent calls batches start seconds sum"
_OWN_WORDS = frozenset(_OWN.split())
"""Names, besides those of arrays, that are visible where an example calls kernels."""


def _unlike(word: str, taken: Collection[str]) -> str:
    while word in taken:
        word += "_"
    return word


def _example(name: str, functions: Sequence[Function]) -> str:
    kernels = [f for f in functions if not f.variants]
    bodies = "\n".join(_call(name, f) for f in kernels)
    calls = "\n".join(
        f'  if (wanted("{f.symbol}", count, names) && call_{f.symbol}()) return 1;' for f in kernels
    )
    names = ",\n    ".join(f'"{f.symbol}"' for f in kernels)
    has_bits = any(p.is_output and p.dtype in _FLOATS for f in kernels for p in f.params)
    return f"""/* Calls every kernel of {name} on 0, 1, ... 12, 0, 1, ... (indices end where
 * their tables do); prints sums and times.
 *
 *   cc -O2 {name}_example.c -I. -L. -l{name} -Wl,-rpath,'$ORIGIN' -o example && ./example
 *
 * Arguments are names of kernels: the others are left out. The status is 2 where there is no such
 * kernel, and where this machine cannot run the library.
 */
#define _POSIX_C_SOURCE 200112L
{"#include <math.h>" + chr(10) if has_bits else ""}#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "{name}.h"

static double now(void) {{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}}

static void *aligned(size_t bytes) {{
  void *p = NULL;
  if (posix_memalign(&p, 64, bytes ? bytes : 1)) exit(1);
  memset(p, 0, bytes);
  return p;
}}

static int wanted(const char *kernel, int count, char **names) {{
  for (int i = 1; i < count; i++)
    if (!strcmp(kernel, names[i])) return 1;
  return count < 2;
}}

{_NUMBER if has_bits else ""}{bodies}
int main(int count, char **names) {{
  static const char *const kernels[] = {{
    {names}}};
  const int most = (int)(sizeof kernels / sizeof *kernels);
  for (int i = 1; i < count; i++) {{
    int k = 0;
    while (k < most && strcmp(kernels[k], names[i])) k++;
    if (k < most) continue;
    fprintf(stderr, "%s: no such kernel; expected", names[i]);
    for (k = 0; k < most; k++) fprintf(stderr, "%s %s", k ? "," : "", kernels[k]);
    fprintf(stderr, "\\n");
    return 2;
  }}
  const char *problem = {name}_problem();
  if (problem) {{
    fprintf(stderr, "%s\\n", problem);
    return 2;
  }}
{calls}
  return 0;
}}
"""


_NUMBER = """\
static double number(unsigned bits, int exponents, int fractions) {
  const unsigned most = (1u << exponents) - 1, fraction = bits & ((1u << fractions) - 1);
  const unsigned exponent = bits >> fractions & most;
  double value = fraction;
  if (exponent) value += 1u << fractions;
  for (int k = (int)(exponent ? exponent : 1) - (int)(most / 2) - fractions; k; k += k < 0 ? 1 : -1)
    value = k < 0 ? value / 2 : value * 2;
  if (exponent == most && exponents == 4 && fraction + 1 == 1u << fractions) value = NAN;
  if (exponent == most && exponents != 4) value = fraction ? NAN : INFINITY;
  return bits >> (exponents + fractions) & 1 ? -value : value;
}

"""


def _filled(array: str, p: ParamSpec, size: int, indices: range) -> list[str]:
    """The lines that fill an input with 0, 1, ... 12, 0, 1, ..., limited to `indices`."""
    kind, modulus = c_type(p.dtype), min(_NUMBERS, len(indices))
    loop = f"  for (long i = 0; i < {size}L; i++) {array}[i]"
    if p.dtype not in _FLOATS:
        first = f"{indices.start} + " if indices.start else ""
        return [f"{loop} = ({kind})({first}i % {modulus});"]
    element = element_of(p.dtype)
    bits = np.arange(_NUMBERS).astype(element).view(f"u{element.itemsize}")
    words = ", ".join(f"{word:#x}" for word in bits)
    return [
        "  {",
        f"    static const {kind} numbers[] = {{{words}}};  /* 0 to 12 */",
        f"  {loop} = numbers[i % {_NUMBERS}];",
        "  }",
    ]


def _call(name: str, f: Function) -> str:
    lines = [f"static int call_{f.symbol}(void) {{"]
    total = []
    arrays = [f"array_{c}" for c in c_names(f.params)]
    for k, (array, p) in enumerate(zip(arrays, f.params, strict=True)):
        kind, size = c_type(p.dtype), 1
        for extent in constant_shape(p):
            size *= extent
        lines.append(f"  {kind} *{array} = aligned({size}L * sizeof({kind}));")
        if not p.is_output:
            values = range(2 if p.dtype == "bool" else _NUMBERS)
            lines += _filled(array, p, size, f.indices.get(k, values))
            continue
        value = f"(double){array}[i]"
        if p.dtype in _FLOATS:
            value = f"number({array}[i], {', '.join(map(str, _FLOATS[p.dtype]))})"
        total.append(f"  for (long i = 0; i < {size}L; i++) sum += {value};")
    given = ", ".join(arrays)
    lines += [
        f"  int status = {f.symbol}({given});",
        "  double fastest = 0, spent = 0;  /* of batches of calls, each of 0.2 ms or a call */",
        "  long calls = 1, batches = 0;",
        "  while (!status && (spent < 0.02 || batches < 5)) {",
        "    double start = now();",
        "    for (long i = 0; i < calls && !status; i++)",
        f"      status = {f.symbol}({given});",
        "    double seconds = now() - start;",
        "    if (seconds < 2e-4 && !batches) {",
        "      calls *= 2;",
        "      continue;",
        "    }",
        "    if (!batches++ || seconds < fastest) fastest = seconds;",
        "    spent += seconds;",
        "  }",
        "  if (status) {",
        f'    fprintf(stderr, "{f.symbol}: %s\\n", {name}_message(status));',
        "    return 1;",
        "  }",
        "  double sum = 0;",
        *total,
        f'  printf("{f.symbol} sum %.17g, %.3f us\\n", sum, 1e6 * fastest / calls);',
        *(f"  free({array});" for array in arrays),
        "  return 0;",
        "}",
        "",
    ]
    return "\n".join(lines)


def cmake(name: str) -> str:
    """The text of NAME.cmake."""
    return f"""# The library {name} as a target:
#
#   include(path/to/{name}.cmake)
#   target_link_libraries(your_program PRIVATE {name})
include_guard(GLOBAL)
add_library({name} SHARED IMPORTED GLOBAL)
set_target_properties({name} PROPERTIES
  IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/lib{name}.so"
  INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}")
"""
