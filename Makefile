# The two commands: `make deploy` and `make test`. Both do all their set-up; the rest are parts of them.
.DEFAULT_GOAL := help
.PHONY: help deploy destroy test test-failing test-upstream benchmark setup lock

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

deploy:  ## a real server with speculative decoding on the embedded node
	@tools/lab.sh deploy

destroy:  ## remove exactly what `make deploy` and `make test` made
	@tools/lab.sh destroy

setup:  ## system packages and .venv; done by the others as well
	@tools/setup.sh

test:  ## all tests: unit, lint, sanity, nodes
	@tools/test.sh all

test-failing:  ## servers and installations that fail in every way that we know (40 minutes)
	@tools/test.sh nodes-failing

test-upstream:  ## every patch on every release of its engine, and the matrix into the docs (30 minutes)
	@tools/test.sh upstream-all

benchmark:  ## how fast pyc_invalidate is, as ratios measured in one run
	@tools/test.sh benchmark

lock: setup  ## a lock for an engine: make lock ENGINE=sglang RELEASE=0.5.23 PYTHON_VERSION=3.12
	@tools/lock.sh $(ENGINE) $(RELEASE) $(PYTHON_VERSION)
