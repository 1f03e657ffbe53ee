"""Turns text into padded batches of ids. Independent of the models."""
