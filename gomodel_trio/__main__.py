"""`python -m gomodel_trio`: the same as the command `gomodel-trio`."""

import sys

from gomodel_trio.cli import main

sys.exit(main())
