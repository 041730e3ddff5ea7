"""Passes on the output of ScheduleOps: realized regions become flat buffers."""
