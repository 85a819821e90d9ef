#!/usr/bin/env bash
# Makes a virtual environment with locked packages: install_packages.sh FOLDER LOCKFILE
# uv needs a third of pip's time. It does not read pip.conf: pip installs where only that names the index or certificate.
set -euo pipefail
folder=$1 packages=(--quiet --require-hashes --no-deps -r "$2")
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet --require-hashes --no-deps -r "$(dirname "$0")/../requirements/tools.txt"
"$folder/bin/uv" pip install --python "$folder/bin/python" --compile-bytecode "${packages[@]}" || {
  echo "installing with pip, since uv cannot" >&2
  "$folder/bin/pip" install "${packages[@]}"
}
