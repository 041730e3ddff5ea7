"""Datasets: features and times as tables on disk."""
