"""`python -m discover_rl` is `discover`."""

import os
import sys

if __name__ == "__main__":
    # `python -m` puts the working directory first on the module search path. Code that happens to
    # lie there must not run (`system.modules`), so it is removed unless this package is there.
    if sys.path[0] == os.getcwd() != os.path.dirname(os.path.dirname(os.path.abspath(__file__))):
        del sys.path[0]

    from discover_rl.cli.main import main

    main()
