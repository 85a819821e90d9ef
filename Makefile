# `make help` lists the targets; `make demo` is where to start.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PATH := $(CURDIR)/.venv/bin:$(PATH)
export PATH

CLUSTER := PYTHONPATH=hack/cluster python3 -m tfdist_cluster
IMAGES := PYTHONPATH=hack/cluster python3 -m tfdist_images
DEMO := PYTHONPATH=hack/cluster python3 -m tfdist_demo
PYTEST := .venv/bin/pytest

##@ Use

.PHONY: demo
demo: ## Trains a real job on a real cluster, from nothing: the place to start; EXAMPLE=examples/... for another one
	@$(DEMO) $(if $(EXAMPLE),--example $(EXAMPLE))

.PHONY: demo-local
demo-local: setup ## The same job as processes of this machine, without a cluster: two minutes; EXAMPLE=examples/... for another
	@PYTHONPATH=hack/cluster .venv/bin/python -m tfdist_demo.on_this_machine $(EXAMPLE)

.PHONY: images
images: ## Builds the images that changed and loads them into the cluster in use, or pushes to REGISTRY=...
	@$(IMAGES) $(if $(REGISTRY),push,load)

##@ Cluster

.PHONY: cluster-up cluster-down clean-cache cluster-status control-plane control-plane-down
cluster-up: ## Creates a Kubernetes cluster of three nodes on this machine (kind)
	@$(CLUSTER) up
cluster-down: ## Removes the cluster: no container, process or mount remains
	@$(CLUSTER) control-plane down
	@$(CLUSTER) down
	@$(IMAGES) release
clean-cache: ## Removes the build outputs of all clones of this user: executables, roots, images
	@$(IMAGES) release
	@$(CLUSTER) clean-cache
cluster-status: ## Shows the state of the engine, the nodes and the servers
	@$(CLUSTER) status
control-plane: ## Starts API server, etcd and fake nodes as processes, for tests without a kubelet
	@$(CLUSTER) control-plane up --kwok-nodes 2
control-plane-down: ## Stops these processes
	@$(CLUSTER) control-plane down

##@ Develop

.PHONY: setup
setup: .venv/.complete ## Creates .venv with all dependencies for development and tests
.venv/.complete: requirements/dev.txt requirements/tools.txt operator/pyproject.toml sdk/pyproject.toml sdk/cli/pyproject.toml trainer_image/pyproject.toml trainer_image/tfdist_trainer_keras.pth
	@echo "making .venv (about a minute: TensorFlow is 300 MB)"
	@rm -f $@
	@hack/install_packages.sh .venv requirements/dev.txt
	@.venv/bin/pip install --quiet --no-deps --no-build-isolation -e sdk -e operator -e trainer_image
	@.venv/bin/pip install --quiet --no-deps --no-build-isolation -e sdk/cli # last: an earlier sdk had the commands
	@touch $@

.PHONY: fmt generate lock
fmt: setup ## Formats the code
	@ruff check --quiet --fix . || true
	@ruff format --quiet .
generate: setup ## Writes the CRDs, the reference pages, the role and the chart's values from their sources
	@python hack/generate/crds/generate.py
lock: setup ## Locks requirements/*.in again, with hashes and without index addresses
	@bash requirements/lock.sh

##@ Check

.PHONY: verify lint types imports dead-code generated
verify: lint types imports dead-code generated ## Checks style, types, layers, unused code, and that generated files are up to date
lint: setup
	@ruff check .
	@ruff format --check --quiet . || (echo "run 'make fmt'"; exit 1)
types: setup
	@mypy
imports: setup
	@lint-imports --no-cache | tail -n 1
dead-code: setup
	@python hack/dead_code.py
generated: generate
	@git --no-pager diff --exit-code -- CONTRIBUTING.md crds operator/manifests docs helm sdk/tfdist/client/trainer_packages.json || (echo "commit what 'make generate' wrote"; exit 1)

##@ Test

REPORTS := .state/reports
# Ten minutes where nothing is cached, so `make test` begins with it and needs the result last.
BUILD_PROGRAMS = $(CLUSTER) tools kube kwok helm versitygw fake-gcs-server
# Empty in `make test` if they are built by then: make starts a target without a prerequisite that runs before one with it.
PROGRAMS = programs
LONGEST_FIRST := test-trainer test-integration test-launch test-helm
SUITE = @mkdir -p $(REPORTS); $(PYTEST) --durations=20 --durations-min=2 --junitxml=$(REPORTS)/$(subst test-,,$@).xml

.PHONY: test test-unit test-trainer test-gpu test-gpu-devices test-gpu-jobs test-launch test-integration test-helm test-smoke test-e2e test-e2e-clean test-long test-long-processes test-long-training test-long-control test-long-pods test-versions
test: ## Runs every suite that needs no container, in 12 minutes on two cores; prints a table of their times
	@rm -rf $(REPORTS); status=0; \
	  $(BUILD_PROGRAMS) > /dev/null 2>&1 & builds=$$!; trap "kill $$builds 2> /dev/null || true" EXIT; \
	  { $(MAKE) --no-print-directory setup test-unit && echo "the other suites run two at a time and print at their end" && \
	    $(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync=target PROGRAMS="$$(kill -0 $$builds 2> /dev/null && echo programs)" $(LONGEST_FIRST); } || status=$$?; \
	  python3 tests/suite_times.py $(REPORTS); exit $$status
test-unit: setup ## Pure code, on all cores; COVERAGE=1 measures its coverage: `coverage report`
	$(SUITE) tests/unit tests/property tests/conformance tests/cluster tests/images -m "not long" --numprocesses=auto --dist=worksteal $(if $(COVERAGE),--cov --cov-report=)
test-trainer: setup ## TensorFlow processes of this machine
	$(SUITE) tests/trainer tests/keras3 tests/gpu -m "not long"
test-gpu: setup ## On a machine with NVIDIA GPUs, in two parts of some minutes (test-gpu-devices, test-gpu-jobs); skips what needs more GPUs
	@status=0; $(MAKE) --no-print-directory test-gpu-devices || status=$$?; \
	  $(MAKE) --no-print-directory test-gpu-jobs || status=$$?; exit $$status
test-gpu-devices: setup ## Part of test-gpu: settings of devices, memory, precision, XLA, kernels and Mirrored
	$(SUITE) tests/gpu/test_devices.py -k GPU
test-gpu-jobs: setup ## Part of test-gpu: a job that is killed and resumed, workers and scripts that share a GPU
	$(SUITE) tests/gpu/test_jobs.py tests/gpu/test_scripts.py -k GPU
test-launch: setup ## Launchers and their child processes, as processes of this machine
	$(SUITE) tests/launch -m "not long"
test-integration: setup $(PROGRAMS) ## The controller against a real API server
	$(SUITE) tests/integration -m "not long"
test-helm: setup $(PROGRAMS) ## The chart: values, templates, alerts, and how a real API server handles it
	$(SUITE) tests/helm -m "not long"
test-smoke: pods ## Two jobs on real pods: one trains, is killed and evaluates, one fails; 4 minutes with a cluster and images
	$(SUITE) tests/e2e/test_smoke.py
test-e2e: pods ## Each behaviour once on real pods, on the cluster of KUBECONFIG or else on one made here
	$(SUITE) tests/e2e -m "not long"
test-e2e-clean: ## Removes the objects of killed test runs from the cluster of KUBECONFIG
	@PYTHONPATH=hack/cluster python3 -m tfdist_demo.borrowed clean
test-long: ## Runs the tests that take minutes: processes, then pods; prints a table of their times
	@rm -rf $(REPORTS); status=0; $(MAKE) --no-print-directory test-long-processes || status=$$?; \
	  $(MAKE) --no-print-directory test-long-pods || status=$$?; python3 tests/suite_times.py $(REPORTS); exit $$status
test-long-processes: setup programs schedulers ## Part of test-long: thousands of histories, each phase of a kill, examples, gang schedulers of other projects
	@$(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync=target test-long-training test-long-control
test-long-training: setup # of TensorFlow processes; with the packages of two examples
	@.venv/bin/pip install --quiet --require-hashes --no-deps -r requirements/search.txt
	$(SUITE) tests/trainer tests/keras3 -m long
test-long-control: setup programs schedulers # of all else without a container
	$(SUITE) tests --ignore=tests/e2e --ignore=tests/trainer --ignore=tests/keras3 --ignore=tests/images/test_built_images.py -m long
test-long-pods: pods ## Part of test-long: the images, all examples, lost nodes, recovery of the cluster
	$(SUITE) tests/images/test_built_images.py tests/e2e -m long

test-versions: setup ## The trainer with the oldest, a middle, the newest and the coming TensorFlow and Keras, a quarter of an hour
	@rm -rf $(REPORTS); status=0; hack/test_versions.sh oldest middle newest coming || status=$$?; \
	  python3 tests/suite_times.py $(REPORTS); exit $$status

.PHONY: pods programs schedulers
programs: ## Builds the servers and tools that the tests with an API server run, where they are not cached
	@$(BUILD_PROGRAMS) > /dev/null
schedulers: programs ## Builds the schedulers of other projects, a quarter of an hour where they are not cached
	@$(CLUSTER) tools kueue vc-scheduler vc-controller-manager coscheduling > /dev/null
pods: setup
	@PYTHONPATH=hack/cluster python3 -m tfdist_demo.borrowed check
	@[ -n "$${KUBECONFIG:-}" ] || $(CLUSTER) up
	@$(IMAGES) load

##@ Release

.PHONY: release audit sbom chart
release: audit sbom chart ## Builds the release files other than images in dist/
audit: .state/release/.complete ## Asks the package index for known vulnerabilities of the packages in the images
	@for image in operator trainer-cpu trainer-gpu; do \
	  .state/release/bin/pip-audit --disable-pip --require-hashes --strict -r requirements/$$image.txt; done
sbom: .state/release/.complete ## Lists the packages in the images, as CycloneDX, in dist/
	@mkdir -p dist
	@for image in operator trainer-cpu trainer-gpu; do \
	  .state/release/bin/cyclonedx-py requirements requirements/$$image.txt --output-format JSON -o dist/$$image.cdx.json; done
chart: ## Packs the chart in dist/
	@mkdir -p dist
	@$$($(CLUSTER) tools helm | tail -n 1) package helm/tfdist-operator --destination dist
.state/release/.complete: requirements/release.txt requirements/tools.txt
	@hack/install_packages.sh .state/release requirements/release.txt
	@touch $@

##@ Measure

.PHONY: bench
bench: setup ## Compares the controller with the training operator on one API server, half an hour: hack/bench/results.json
	@PYTHONPATH=hack:hack/cluster:tests python -m bench $(BENCH)

.PHONY: bench-cost
bench-cost: setup ## Counts the plans and requests of a job's life, without a cluster, a minute: hack/bench/cost.json
	@PYTHONPATH=hack:hack/cluster:tests python -m bench.cost $(BENCH)

.PHONY: bench-trainer
bench-trainer: setup ## Compares the trainer with a plain TensorFlow loop, and fit with tf_keras, a quarter of an hour: hack/bench/results.json
	@PYTHONPATH=hack:hack/cluster:tests python -m bench.trainer $(BENCH)

.PHONY: bench-recovery
bench-recovery: setup ## Measures how long training pauses after a kill, minutes: hack/bench/recovery.json
	@PYTHONPATH=hack:tests python -m bench.recovery

.PHONY: bench-gpu
bench-gpu: setup ## Compares ResNet-50 with Keras' fit on a GPU, and measures recovery on it, at most ten minutes a part: hack/bench/gpu.json
	@PYTHONPATH=hack:hack/cluster:tests python -m bench.gpu $(BENCH)

.PHONY: bench-pods
bench-pods: setup ## Compares recovery on real pods with the training operator, a quarter of an hour: hack/bench/results.json
	@[ -n "$${KUBECONFIG:-}" ] || $(CLUSTER) up
	@$(IMAGES) load
	@PYTHONPATH=hack:hack/cluster:tests python -m bench.pods $(BENCH)

##@ Document

.PHONY: docs
docs: .state/docs/.complete ## Builds the documentation site in dist/docs, with warnings and broken links as errors
	@rm -rf dist/docs
	@.state/docs/bin/sphinx-build --quiet --nitpicky --fail-on-warning --keep-going -d .state/docs/doctrees -c docs . dist/docs
	@echo "open dist/docs/index.html"
.state/docs/.complete: requirements/docs.txt requirements/tools.txt
	@hack/install_packages.sh .state/docs requirements/docs.txt
	@touch $@

.PHONY: dashboards-pictures
dashboards-pictures: setup ## Draws the dashboards in docs/images from a controller and a Prometheus that run, five minutes
	@PYTHONPATH=hack/cluster:tests:hack/generate/helm python hack/generate/helm/draw_dashboards.py

.PHONY: help
help: ## Lists the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
