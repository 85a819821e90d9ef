"""`python -m tfdist.cli` is the command `tfdist`."""

import sys

from tfdist.cli.main import main

sys.exit(main())
