"""Keras layers that the models are built of."""
