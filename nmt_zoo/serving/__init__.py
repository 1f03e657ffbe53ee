"""Exports a model, and serves an export."""
