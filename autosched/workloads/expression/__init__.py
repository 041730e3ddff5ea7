"""Workloads written as text: index expressions and einsum; nothing in the text is executed."""
