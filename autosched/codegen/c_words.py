"""Words that C, C++ or their headers have a meaning for, so that nothing may be called by them."""

from __future__ import annotations

import re

_KEYWORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
char32_t class compl concept const consteval constexpr constinit const_cast continue co_await
co_return co_yield decltype default delete do double dynamic_cast else enum explicit export
extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq
nullptr operator or or_eq private protected public register reinterpret_cast requires restrict
return short signed sizeof static static_assert static_cast struct switch template this
thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned using
virtual void volatile wchar_t while xor xor_eq
_Alignas _Alignof _Atomic _BitInt _Bool _Complex _Decimal32 _Decimal64 _Decimal128 _Generic
_Imaginary _Noreturn _Static_assert _Thread_local
"""
KEYWORDS = frozenset(_KEYWORDS.split())
"""Of C up to C23, and of C++ up to C++20."""

_MACROS = """
linux unix main NULL EOF BUFSIZ I NAN INFINITY HUGE_VAL RAND_MAX CLOCKS_PER_SEC
errno stdin stdout stderr assert complex imaginary noreturn offsetof setjmp
fpclassify isfinite isinf isnan isnormal signbit isgreater isgreaterequal isless islessequal
islessgreater isunordered va_arg va_copy va_end va_start
"""
MACROS = frozenset(_MACROS.split())
"""Of C's headers, and those that compilers define by themselves in their own dialects."""

_PATTERNS = re.compile(r"__\w*|u?int\w*_t|(size|ssize|ptrdiff|wint)_t|[A-Z]\w*_(MAX|MIN|C)")


def has_meaning(word: str) -> bool:
    """Whether it is a keyword, or a type or macro of C's headers.

    >>> [word for word in ("A", "namespace", "uint8_t", "INT8_MAX", "errno") if has_meaning(word)]
    ['namespace', 'uint8_t', 'INT8_MAX', 'errno']
    """
    return word in KEYWORDS or word in MACROS or _PATTERNS.fullmatch(word) is not None
