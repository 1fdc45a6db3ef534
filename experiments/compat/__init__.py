"""Other libraries' own tests and mechanisms, run on pgmest: `make compat`."""
