"""`python -m waypost` is `waypost`."""

from waypost.cli import main

if __name__ == "__main__":  # worker processes that step environments import this module too
    main()
