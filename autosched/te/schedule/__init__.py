"""How it is computed: the schedule, its stages and primitives."""
