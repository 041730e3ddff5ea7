"""ScheduleOps: a schedule becomes a PrimFunc."""
