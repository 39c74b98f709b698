"""What people see while something runs, on the command line, in Python and in notebooks."""
