"""Cases by what they attack; each module has a function `cases`."""
