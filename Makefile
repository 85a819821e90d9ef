# `make help` lists the targets; `make demo` is where to start.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PY := .venv/bin/python
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: help setup
help: ## Lists the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

setup: .venv/.complete ## Makes .venv with everything that is needed to develop and test
.venv/.complete: requirements/dev.txt operator/pyproject.toml sdk/pyproject.toml trainer_image/pyproject.toml
	@echo "making .venv (about a minute: TensorFlow is 300 MB)"
	@rm -f $@; python3 -m venv .venv
	@.venv/bin/pip install --quiet --require-hashes -r requirements/dev.txt
	@.venv/bin/pip install --quiet --no-deps --no-build-isolation -e sdk -e operator -e trainer_image
	@touch $@
