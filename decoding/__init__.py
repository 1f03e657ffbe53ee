"""Searching, aligning and picturing with any model of the zoo."""
