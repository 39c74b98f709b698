"""Progress on the command line, in Python and in notebooks."""
