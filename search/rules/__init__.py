"""The rules that make sketches and fill them in."""
