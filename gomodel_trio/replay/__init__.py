"""Decisions recomputed offline."""
