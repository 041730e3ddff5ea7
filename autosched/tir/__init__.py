"""The tensor IR: expressions, statements, buffers, functions, and how to walk and print them."""

from autosched.tir import op as op  # binds the operators of expressions
from autosched.tir import printer as printer  # binds how expressions and statements print
