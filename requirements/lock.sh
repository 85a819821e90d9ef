#!/usr/bin/env bash
# Locks requirements/*.in: one set of versions for everything except versions-*.in, hashes for every file, no index addresses.
set -euo pipefail
cd "$(dirname "$0")"
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools/venv"
"$tools/venv/bin/pip" install --quiet --require-hashes -r tools.txt
compile() {
  "$tools/venv/bin/uv" pip compile --quiet --generate-hashes --no-emit-index-url --no-emit-find-links \
    --python-version 3.11 --no-annotate --no-header "$@"
}
compile dev.in --override without-tensorflow.txt -o dev.txt
compile trainer-cpu.in --override without-tensorflow.txt -c dev.txt -o trainer-cpu.txt
for name in build docs operator release trainer-gpu tools; do
  compile "$name.in" -c dev.txt -o "$name.txt"
done
# Each pair has the versions of other packages that it allows.
for name in versions-oldest versions-middle; do
  compile "$name.in" -o "$name.txt"
done
compile --no-deps datasets.in -o datasets.txt
compile --no-deps search.in -c dev.txt -o search.txt
