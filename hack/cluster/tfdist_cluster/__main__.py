"""Run the command line: `python3 -m tfdist_cluster COMMAND`."""

import sys

from tfdist_cluster.cli import main

sys.exit(main(sys.argv[1:]))
