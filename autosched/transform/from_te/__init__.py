"""Passes on the output of ScheduleOps: regions become flat buffers."""
