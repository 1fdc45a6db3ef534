"""The version, as pyproject.toml has it."""

__version__ = "1.0.0"
