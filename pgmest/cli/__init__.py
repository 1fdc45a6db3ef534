"""The commands of `pgmest`: main.py puts them together, one file a family of commands, command.py what they share."""
