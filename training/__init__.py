"""The trainer that every model shares, and the directory it writes."""
