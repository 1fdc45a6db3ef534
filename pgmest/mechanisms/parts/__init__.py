"""What mechanisms are made of: each module serves the one or two mechanisms that it names first."""
