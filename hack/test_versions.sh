#!/usr/bin/env bash
# Runs the trainer's tests of upstream, fit, checkpoints, exports and ten scripts with other versions of TensorFlow and
# Keras: test_versions.sh NAME..., each `oldest`, `middle`, `newest` (the lock of .venv) or `coming` (pre-releases).
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
reports=$PWD/.state/reports
upstream=(tests/trainer/test_{upstream,untested_keras}.py)
fit=(tests/trainer/test_keras_{fit,own_steps,epochs}.py)
checkpoints=(tests/trainer/test_{script_checkpoints,callback_state,model_optimizers,training_state}.py)
results=(tests/trainer/test_{script_evaluations,export,keras_files,saved_models}.py)
scripts=(tests/keras3/test_scripts.py)

install_pre_releases() { # PIP
  "$1" install --quiet --pre --upgrade tensorflow-cpu keras
  # A pre-release of TensorFlow needs a nightly Keras, which lies in the same folder as a released one.
  if nightly=$("$1" freeze | grep "^keras-nightly=="); then
    "$1" uninstall --quiet --yes keras
    "$1" install --quiet --force-reinstall --no-deps "$nightly"
  fi
}

make_environment() { # NAME FOLDER
  lock=requirements/versions-$1.txt
  [ "$1" != coming ] || lock=requirements/versions-middle.txt
  hack/install_packages.sh "$2" "$lock"
  # Not locked: what the index has today.
  [ "$1" != coming ] || install_pre_releases "$2/bin/pip"
  "$2/bin/pip" install --quiet --no-deps --no-build-isolation -e sdk -e trainer_image
}

environment() { # NAME, prints its folder
  folder=$PWD/.state/versions/$1
  if [ "$1" = newest ]; then
    folder=$PWD/.venv
  elif [ "$1" = coming ] || [ ! "$folder/.complete" -nt "requirements/versions-$1.txt" ]; then
    echo "making $folder" >&2
    rm -rf "$folder"
    make_environment "$1" "$folder" >&2
    touch "$folder/.complete"
  fi
  echo "$folder"
}

mkdir -p "$reports"
status=0
for name in "$@"; do
  bin=$(environment "$name")/bin
  # Outside of the tested range: what fails is what the next version needs.
  switch=
  [ "$name" != coming ] || switch=untested
  "$bin/pip" list --disable-pip-version-check 2> /dev/null | grep -E "^(tensorflow[-_]cpu|keras|keras-nightly) "
  for part in upstream fit checkpoints results scripts; do
    declare -n files=$part
    PATH=$bin:$PATH TFDIST_KERAS_FIT=$switch "$bin/pytest" -q -m "not long" -p no:cacheprovider \
      --junitxml="$reports/$name-$part.xml" "${files[@]}" || status=$?
  done
done
exit "$status"
