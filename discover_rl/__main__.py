"""`python -m discover_rl` is `discover`."""

from discover_rl.cli import main

if __name__ == "__main__":
    main()
