"""Remedies for names of TVM's auto_scheduler: what to write instead (docs/from_ansor.md)."""

from __future__ import annotations

_TASK = "autosched.Task.from_python(function, N=64)"
_TUNE = "autosched.tune(task, trials=64, records=FILE)"
_LOAD = "autosched.load_best(FILE, task)"
_FRAME = "autosched.records.to_pandas(FILE)"
_MEASURE = (
    "autosched.tune(task, workers=..., measure=autosched.measure.run_options.RunOptions(...))"
)

OF_ANSOR = {
    "ApplyHistoryBest": "autosched.torch.with_kernels(model, FILE, x)",
    "ComputeDAG": "task.dag",
    "HardwareParams": "autosched.target.cpu_target(num_cores=...) or cuda_target",
    "LayoutRewriteOption": 'Task.from_python(function, layout_rewrite="pre-transformed")',
    "LocalBuilder": _MEASURE,
    "LocalRPCMeasureContext": _MEASURE,
    "LocalRunner": _MEASURE,
    "PreloadCustomSketchRule": "autosched.tune(task, sketch_rules=[...])",
    "PreloadMeasuredStates": f"{_TUNE}, which continues from FILE",
    "RPCRunner": 'autosched.tune(task, hosts="HOST:PORT"), a Ray cluster',
    "RandomModel": 'autosched.tune(task, cost_model="random")',
    "RecordReader": _FRAME,
    "RecordToFile": _TUNE,
    "SearchTask": _TASK,
    "SketchPolicy": "autosched.tune(task, search=autosched.search.options.SearchOptions(...))",
    "TaskScheduler": "autosched.tune(tasks, weights=...)",
    "TuningOptions": _TUNE,
    "XGBModel": 'autosched.tune(task, cost_model="xgboost")',
    "auto_schedule": _TUNE,
    "create_task": _TASK,
    "extract_tasks": "autosched.torch.tasks_of(model, x)",
    "load_best_record": _LOAD,
    "load_records": _FRAME,
    "make_workload_key": f"{_TASK}, which names the function itself",
    "register_workload": f"{_TASK}, which needs no registration",
    "save_records": "autosched.records.merge([FILE, ...], OUT)",
}
