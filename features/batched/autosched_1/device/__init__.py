"""The rows of GPU candidates."""
