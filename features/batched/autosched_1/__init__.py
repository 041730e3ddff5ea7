"""The feature set `autosched-1` of many CPU candidates at once."""
