"""`python -m pgmest`: the command line without the installed script."""

import sys

from pgmest.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
