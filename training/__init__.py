"""Training, which all models share: the loop, the kinds of updates, and reports on a run."""
