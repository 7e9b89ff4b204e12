"""``python -m trajens`` is the command line."""

from trajens.cli import main

if __name__ == "__main__":
    main()
