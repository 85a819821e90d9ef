"""`python -m tfdist.cli` runs the command `tfdist`."""

import sys

from tfdist.cli.main import main

sys.exit(main())
