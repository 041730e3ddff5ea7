"""Passes that cut, copy, move and remove loops and conditions."""
