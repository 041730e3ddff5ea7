"""Compute DAGs, transform steps and loop states.

    dag = ComputeDAG(tensors)                       # dag.py
    state, [i0, i1] = dag.init_state.split(2, it, [8])   # state.py: signatures of the primitives
    schedule, tensors = dag.apply_steps(state.steps)     # replay on a te.Schedule
    bound = dag.infer_bound(state); print(bound.to_str())

Queries on a state and a stage id are functions in queries.py; steps and JSON are in steps.py.
"""
