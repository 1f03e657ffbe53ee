"""Keras layers from which the models are built."""
