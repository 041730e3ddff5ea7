"""The search for fast schedules: sketches, evolution, cost models, the tuning loop."""
