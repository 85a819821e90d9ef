"""Run them: `python -m bench.trainer`."""

import sys

from bench.trainer.run import main

sys.exit(main(sys.argv[1:]))
