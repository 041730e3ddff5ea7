"""The tensor IR: expressions, statements, buffers, functions, and how to walk and print them."""

from autosched.tir import op as op  # binds the operators of expressions
