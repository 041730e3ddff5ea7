"""The tensor IR: expressions, statements, buffers, functions, and how to walk and print them."""

from autosched.tir import op as op  # defines the operators of expressions
from autosched.tir import printer as printer  # defines how nodes print
