"""`python -m perfzero` is the same as `perfzero`."""

from perfzero.cli.main import script

if __name__ == "__main__":
    script()
