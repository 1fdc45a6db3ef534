"""What every room stands on: errors, files, memory, progress."""
