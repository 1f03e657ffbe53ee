"""Text to padded id batches. Knows nothing of models."""
