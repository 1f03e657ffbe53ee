"""Training, which all models share: the loop, the ways of training, and reports on a run."""
