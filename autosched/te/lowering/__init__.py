"""ScheduleOps: the lowering of a schedule to a PrimFunc."""
