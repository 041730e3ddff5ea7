"""The referee: checks without a GPU whether a GPU candidate computes what its task says.

It runs the final device functions in the watched interpreter, on some blocks or on a smaller
problem, and compares the results with NumPy.
"""
