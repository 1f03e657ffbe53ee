# `make demo` shows the whole road on the built-in corpus; `make test` lints and runs the suite.

PYTHON ?= python3
BIN := .venv/bin
DEMO := runs/demo
SERVING := serving/demo
# Two processes, for which tests/conftest.py groups and orders the tests.
PARALLEL := -n 2 --dist loadgroup --no-loadscope-reorder

.PHONY: demo docs test test-slow test-kills test-mutations clean

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

demo: .venv/run
	$(BIN)/python train.py --model_dir=$(DEMO)
	$(BIN)/python translate.py --model_dir=$(DEMO) --input=data/demo/test.en \
	    --reference=data/demo/test.de --output=$(DEMO)/test.de \
	    --save_scores=$(DEMO)/scores.json
	@echo; echo "A few test sentences and their translations:"
	@head -n 5 data/demo/test.en | paste -d '\n' - $(DEMO)/test.de /dev/null | head -n 15
	$(BIN)/python visualize_attention.py --model_dir=$(DEMO) --merge_subwords \
	    --source="$$(sed -n 2p data/demo/test.en)" --output=$(DEMO)/attention.png
	$(BIN)/python export.py --model_dir=$(DEMO) --export_dir=$(SERVING) \
	    --check_input=data/demo/test.en
	@echo
	@echo "model             $(DEMO)"
	@echo "translations      $(DEMO)/test.de, scores in $(DEMO)/scores.json"
	@echo "attention         $(DEMO)/attention.png"
	@echo "SavedModel        $(SERVING)"
	@echo "learning curves   $(BIN)/tensorboard --logdir=$(DEMO)/tensorboard"
	@echo
	@echo "Try next:"
	@echo "  echo 'The old farmer sees a small bird .' | $(BIN)/python translate.py --model_dir=$(DEMO)"
	@echo "  $(BIN)/python visualize_attention.py --model_dir=$(DEMO) --source='We believe that the old man is happy .'"
	@echo "  and README.md, for a model of your own text"

# The figures and pictures in README.md and docs/, from `make demo` and docs/results/.
docs: demo
	$(BIN)/python benchmarks/demo_record.py
	$(BIN)/python benchmarks/results_table.py

# Run apart from the other tests: TensorFlow keeps the memory of every graph until a process ends.
GRAPHS := tests/integration

test: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest -m "not slow and not replicas" $(PARALLEL) $(GRAPHS)
	$(BIN)/python -m pytest -m "not slow and not replicas" $(PARALLEL) $(GRAPHS:%=--ignore=%)
	$(BIN)/python -m pytest -m replicas $(PARALLEL) $$(grep -rl --include='*_test.py' replicas tests)

test-slow: .venv/dev
	$(BIN)/python -m pytest -m slow

# Hundreds of kills; the suite has a few.
test-kills: .venv/dev
	$(BIN)/python tests/system/kills/harness.py --kills=200 --output=docs/results/faults/kills.json
	$(BIN)/python benchmarks/results_table.py

# Only what `make` has made: not the user's runs, exports and downloads.
clean:
	rm -rf .venv $(DEMO) $(SERVING) data/demo
