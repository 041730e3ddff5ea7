"""Build, run and check candidates in worker processes, and record the results."""
