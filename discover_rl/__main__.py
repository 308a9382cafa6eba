"""`python -m discover_rl` is `discover`."""

import os
import sys

if __name__ == "__main__":
    # Python has put the working directory where modules are found, and a folder that happens to be
    # there must not run code (`system.modules`). It stays if this package itself is found there.
    if sys.path[0] == os.getcwd() != os.path.dirname(os.path.dirname(os.path.abspath(__file__))):
        del sys.path[0]

    from discover_rl.cli.main import main

    main()
