"""The referee: whether a GPU candidate computes what its task says, without a GPU.

It runs the final device functions in the interpreter, watched, on some blocks or on a smaller
problem, and compares with NumPy.
"""
