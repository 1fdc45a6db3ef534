"""The commands of `pgmest`, one family a file: what each accepts, the help that teaches it, and what it does.

command.py has what they share; `pgmest.cli` puts them together.
"""
