"""LAMP: the mechanism that decides from its own answers what to ask next, and how finely."""
