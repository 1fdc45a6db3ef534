"""The commands of `pgmest`, a module per group; main.py collects them, command.py has the common parts."""
