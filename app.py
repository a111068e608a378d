"""Balcony without an installation: python app.py takes the same arguments as the command `balcony`."""

import sys

from balcony.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
