"""Translation, alignment and pictures with any model of the zoo."""
