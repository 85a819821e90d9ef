"""Run them: `python -m bench.gpu`."""

import sys

from bench.gpu.run import main

sys.exit(main(sys.argv[1:]))
