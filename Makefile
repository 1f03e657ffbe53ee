# `make demo` shows the whole road on the built-in corpus; `make test` lints and runs the suite.

PYTHON ?= python3
BIN := .venv/bin
DEMO := runs/demo
EXPORT := exports/demo
# Three processes keep two cores busy, as some tests wait for servers and scripts; the one that ends
# first takes tests from the others.
PYTEST := $(BIN)/python -m pytest -n 3 --dist worksteal

.PHONY: demo docs notebooks figures check test test-slow test-kills test-mutations clean

# One environment for both; made anew when the lists of packages change. Compiled on all cores, as
# pip would take one; what does not compile is a template that nothing imports.
define install
$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -r $<
$(BIN)/python -m compileall -qq -j 0 .venv/lib || true
@touch $@
endef

.venv/run: requirements.txt
	$(PYTHON) -m venv .venv
	$(install)

.venv/dev: requirements-dev.txt .venv/run
	$(install)

.venv/docs: requirements-docs.txt .venv/run
	$(install)

demo: .venv/run
	$(BIN)/python train.py --model_dir=$(DEMO)
	$(BIN)/python translate.py --model_dir=$(DEMO) --input=data/demo/test.en \
	    --reference=data/demo/test.de --output=$(DEMO)/test.de \
	    --save_scores=$(DEMO)/scores.json
	@echo; echo "A few test sentences and their translations:"
	@head -n 5 data/demo/test.en | paste -d '\n' - $(DEMO)/test.de /dev/null | head -n 15
	$(BIN)/python visualize_attention.py --model_dir=$(DEMO) --merge_subwords \
	    --source="$$(sed -n 31p data/demo/test.en)" --output=$(DEMO)/attention.png
	$(BIN)/python export.py --model_dir=$(DEMO) --export_dir=$(EXPORT) \
	    --check_input=data/demo/test.en
	@echo
	@echo "model             $(DEMO)"
	@echo "translations      $(DEMO)/test.de, scores in $(DEMO)/scores.json"
	@echo "attention         $(DEMO)/attention.png"
	@echo "SavedModel        $(EXPORT)"
	@echo "learning curves   $(BIN)/tensorboard --logdir=$(DEMO)/tensorboard"
	@echo
	@echo "Try next:"
	@echo "  echo 'The old farmer sees a small bird.' | $(BIN)/python translate.py --model_dir=$(DEMO)"
	@echo "  $(BIN)/python visualize_attention.py --model_dir=$(DEMO) --source='We believe that the old man is happy.'"
	@echo "  and README.md, for a model of your own text"

# The tour, run page by page, the manual and the interface of Python as a site in build/site. Without
# running the tour: `make docs EXECUTE_TOUR=false`.
export EXECUTE_TOUR ?= true
docs: .venv/docs
	PYTHONPATH=$(CURDIR) NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# The pages of the tour as notebooks with outputs, which a hosting page renders. Runs only the pages whose
# code differs from their notebooks', each for some minutes.
notebooks: .venv/docs
	$(BIN)/python docs/notebooks.py

# The figures and pictures in README.md and docs/, from `make demo` and docs/results/.
figures: demo
	$(BIN)/python benchmarks/demo_record.py
	for model in $(notdir $(basename $(wildcard docs/architectures/*.svg))); do \
	    $(BIN)/python visualize_attention.py --architecture=$$model --output=docs/architectures/$$model.svg || exit 1; done
	$(BIN)/python docs/figures.py
	$(BIN)/python benchmarks/results_table.py

check: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/basedpyright

# Checks of the code run beside the first tests. Replicas need a processor that is split, which makes
# all other tests slower.
test: .venv/dev
	$(MAKE) --no-print-directory check & check=$$!; \
	$(PYTEST) -m "not slow and not replicas" tests/unit tests/integration && wait $$check
	$(PYTEST) -m replicas tests/integration/training tests/integration/scripts

# What takes long: tests marked slow, and the whole of tests/system.
test-slow: .venv/dev
	$(BIN)/python -m pytest -m slow tests/integration
	$(BIN)/python -m pytest tests/system

# Hundreds of kills; the suite has a few.
test-kills: .venv/dev
	$(BIN)/python tests/system/kills/harness.py --kills=200 --output=docs/results/faults/kills.json
	$(BIN)/python benchmarks/results_table.py

# Plants faults in the files that pyproject.toml names, in a copy of the package, and lists those that
# no test finds.
test-mutations: .venv/dev
	rm -rf build/mutations
	mkdir -p build/mutations
	cp -rL nmt_zoo tests pyproject.toml build/mutations
	cd build/mutations && $(CURDIR)/$(BIN)/mutmut run && $(CURDIR)/$(BIN)/mutmut results

# Only what `make` has made: not the user's runs, exports and downloads.
clean:
	rm -rf .venv build $(DEMO) $(EXPORT) data/demo
