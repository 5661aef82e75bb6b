# gpu-pools: `make up` brings a stack up on the embedded platform, `make test` checks every kind of thing, `make test-all` all that a pipeline waits for.
STACK  ?= aks-dev
BASE   ?= main
LEVELS ?= policies/levels/$(if $(findstring prod,$(STACK)),prod,dev).json
PYTHON ?= python3
# Files of tests that run at once. They wait for half of their time, so five keep two cores busy; each may have a cluster, which
# wants 2 GiB. What `make test` leaves out is mostly clusters, which hold each other up.
JOBS   ?= $(shell awk '/^MemAvailable/ { print ($$2 > 16000000) ? 5 : ($$2 > 12000000) ? 4 : 2 }' /proc/meminfo 2>/dev/null || echo 2)
REST   ?= $(shell awk '/^MemAvailable/ { print ($$2 > 18000000) ? 4 : ($$2 > 12000000) ? 3 : 2 }' /proc/meminfo 2>/dev/null || echo 2)
VENV   := venv
PYTEST ?= $(VENV)/bin/pytest
# Tests build nothing: what they need is made before the first one.
MADE   := GPU_POOLS_PROGRAMS=made
# The order is that of tests/spread.py, not the number of tests in a file. The slowest are listed, so that a log shows where the time went.
SPREAD := --dist loadfile --no-loadscope-reorder --durations 40 --durations-min 15
# Ten nodes beside other tests are late with everything, so they are alone.
ALONE  := tests/engine/test_rollout_work.py
REPEAT := tests/engine/test_interruption.py tests/engine/test_reverts.py
PART   ?= rollout others repeats
# Images set it to stay small. Here hundreds of Pythons are started, and each would compile the same modules anew.
unexport PYTHONDONTWRITEBYTECODE
# Python would answer a Ctrl-C in its own first 40 ms with a traceback: it is held back until the program answers it.
HOLD   := $(shell env --block-signal=INT true 2>/dev/null && echo env --block-signal=INT)
NEW_ENOUGH = $(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; set PYTHON=python3.11." if sys.version_info < (3, 11) else 0)'
RUN    := $(HOLD) $(VENV)/bin/python -m sandbox
CHANGE := .changes/$(STACK)

.DEFAULT_GOAL := help
.PHONY: help venv named-python first known tools plugins up preview status verify scale disturb openstack shell gpu-node down clean test test-rest test-night test-all unit lint generate bench

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | awk -F'|' '{printf "  make %-9s %s\n", $$1, $$2}'

venv: $(VENV)/.installed ## make the Python environment

# A PYTHON that somebody names is compared with that of the environment, which may be another one.
$(VENV)/.installed: hashes.txt $(if $(filter environment command,$(firstword $(origin PYTHON))),named-python)
	@$(NEW_ENOUGH)
	@$(HOLD) $(PYTHON) -m sandbox.toolchain.packages $(VENV) $(if $(BESIDE),--shared-terminal)

# Programs are made beside the Python packages, which leave a core idle: by any Python, since that takes nothing but its own library.
# Where a program cannot be had, nothing is waited for.
first:
	@test -e $(VENV)/.installed || { $(NEW_ENOUGH) && { \
		$(MAKE) --no-print-directory venv BESIDE=1 & packages=$$!; \
		trap 'kill $$packages 2>/dev/null' INT TERM; \
		$(HOLD) $(PYTHON) -m sandbox.toolchain --platform; programs=$$?; \
		test $$programs -eq 0 || kill $$packages 2>/dev/null; \
		wait $$packages; packages=$$?; \
		test $$programs -eq 0 || exit $$programs; exit $$packages; }; }

# Before anything is installed for a stack that does not exist. The environment's own Python is new enough, and starts faster
# than one that a version manager has to choose first.
known:
	@test -e $(VENV)/.installed || $(NEW_ENOUGH)
	@$$(test -e $(VENV)/.installed && echo $(VENV)/bin/python || echo "$(PYTHON)") -m sandbox.stack.names "$(STACK)"

tools: first venv ## find, download or build the programs
	@$(HOLD) $(VENV)/bin/python -m sandbox.toolchain
	@$(HOLD) $(VENV)/bin/python -m sandbox.openstack.environment

plugins: first venv ## have Pulumi itself download the real Kubernetes and openstack plugins: from a mirror, say
	@$(HOLD) $(VENV)/bin/python -m sandbox.toolchain --plugins

up: known first venv ## bring STACK up and show what its nodes advertise (STACK=aks-dev), with live dashboards (OBSERVE=1)
	@$(RUN) up $(STACK) $(if $(NODES),--nodes $(NODES)) $(if $(OBSERVE),--observe)

ifdef PR
preview: known venv
	@mkdir -p $(CHANGE)
	@.ci/before "$(BASE)" stacks/Pulumi.$(STACK).yaml $(CHANGE)/before.yaml
	@$(RUN) preview $(STACK) --save $(CHANGE)/events.jsonl --policies $(LEVELS) >&2
	@$(HOLD) $(VENV)/bin/python -m gpu_pools changes $(CHANGE)/events.jsonl --after stacks/Pulumi.$(STACK).yaml \
		$$(test ! -e $(CHANGE)/before.yaml || echo --before $(CHANGE)/before.yaml) \
		--against "the sandbox, where the stack is as $(BASE) has it" \
		$(if $(PRICES),--prices "$$PRICES") $(if $(PODS),--pods "$$PODS") \
		$(if $(MAX_MORE_GPUS),--max-more-gpus "$$MAX_MORE_GPUS") $(if $(MAX_MORE_COST),--max-more-cost "$$MAX_MORE_COST") \
		--json $(CHANGE)/change.json --sarif $(CHANGE)/change.sarif
else
preview: known venv ## show what `up` would do; needs no cloud account
	@$(RUN) preview $(STACK)
endif

status: known venv ## declared, expected and observed, node by node
	@$(RUN) status $(STACK)

verify: known venv ## what the verifiers on the nodes of STACK have reported (JSON=file, HTML=file)
	@$(RUN) verify $(STACK) $(if $(JSON),--json $(JSON)) $(if $(HTML),--html $(HTML))

scale: known venv ## play the autoscaler: POOL=<name> COUNT=<n>
	@$(RUN) scale $(STACK) $(POOL) $(COUNT)

disturb: known venv ## have operations of STACK's Magnum be slow, fail or be lost: SECONDS=60 FAIL="pool …" LOSE="pool …"; without: none
	@$(RUN) disturb $(STACK) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(FAIL),--fail $(FAIL)) $(if $(LOSE),--lose $(LOSE))

openstack: known venv ## the real openstack client, STACK on Magnum: ARGS="coe nodegroup list gpu-dev"
	@$(RUN) openstack $(STACK) $(ARGS)

shell: known venv ## a shell with kubectl, pulumi and the stand-ins of STACK; or one command: ARGS="kubectl get nodes"
	@$(RUN) shell $(STACK) $(ARGS)

gpu-node: first venv ## a stack on a real node with this machine's own GPUs, as root: declared, changed, broken (OUT=folder); or measured (COSTS=1), or changed node by node (ROLLOUT=1), or by resource claims (CLAIMS=1)
	@$(RUN) gpu-node $(if $(OUT),--out $(OUT)) $(if $(COSTS),--costs) $(if $(ROLLOUT),--rollout) $(if $(CLAIMS),--claims)

down: known venv ## destroy STACK and stop everything it started
	@$(RUN) down $(STACK)

clean: ## stop every sandbox, remove its state and the Python environment
	@if [ -x $(VENV)/bin/python ]; then $(RUN) clean; fi
	@rm -rf $(VENV) .changes .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

lint: venv ## style, types and the borders between packages
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(COLLECTED) $(VENV)/bin/mypy; typed=$$?; wait; exit $$typed
	@$(VENV)/bin/lint-imports

generate: venv ## write what follows from the code: types of arguments, schema, reference, the picture of the packages
	@$(VENV)/bin/python -m tools.generate
	@$(VENV)/bin/python -m tools.architecture_picture

unit: venv ## the fast tests
	@$(VENV)/bin/pytest tests/unit

# In a fresh clone every process that runs tests would compile all of them: here one does, while mypy uses one core only.
test: COLLECTED = $(PYTEST) --collect-only -qq >/dev/null 2>&1 &
test: lint tools ## style, types, borders, and each kind of test once: some ten minutes
	@$(MADE) $(PYTEST) -n $(JOBS) $(SPREAD) -m "not sweep"

test-rest: venv tools ## the tests that `make test` leaves out: more of the same, half an hour or more
	@$(HOLD) $(VENV)/bin/python -m tests.programs rest
	@$(MADE) $(PYTEST) -n $(REST) $(SPREAD) -m "sweep and not night"

test-night: export GPU_POOLS_TEST_ALL = 1
test-night: venv tools ## what no pipeline waits for: hours, or a PART of it (rollout, others, repeats)
	@$(HOLD) $(VENV)/bin/python -m tests.programs night
	@for part in $(PART); do \
		case $$part in \
		rollout) $(PYTEST) -m night $(ALONE);; \
		others) $(PYTEST) -n $(REST) $(SPREAD) -m night $(patsubst %,--ignore %,$(ALONE) $(REPEAT));; \
		repeats) $(PYTEST) -n $(REST) $(SPREAD) -m sweep $(REPEAT);; \
		*) echo "no such PART: $$part" >&2; exit 2;; \
		esac || exit; \
	done

test-all: test test-rest ## style, types, borders, and all tests but those of `make test-night`

bench: venv ## the ratios of benchmarks/
	@$(VENV)/bin/python benchmarks/run.py
