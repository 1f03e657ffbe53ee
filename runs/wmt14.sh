#!/usr/bin/env bash
# Trains transformer_base on WMT14 English-German with eight GPUs, and scores newstest2014.
#
# Cost and score: not run here. The paper has 27.3 BLEU after 100,000 updates (Vaswani et al. 2017).
#
#   runs/wmt14.sh [more flags of train.py]
#
# An update has MAX_TOKENS on every GPU: eight times 3,125 are the 25,000 of the paper.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON="${PYTHON:-.venv/bin/python}"
GPUS="${GPUS:-8}"
MAX_TOKENS="${MAX_TOKENS:-3125}"
PRECISION="${PRECISION:-bfloat16}"
MODEL_DIR="${MODEL_DIR:-runs/wmt14}"
TEXT=data/wmt14_en_de  # downloaded and cleaned by train.py

"$PYTHON" train.py --dataset=wmt14_en_de --model=transformer_base --distribution=mirrored \
    --num_replicas="$GPUS" --max_tokens_per_batch="$MAX_TOKENS" --precision="$PRECISION" \
    --model_dir="$MODEL_DIR" "$@"
"$PYTHON" translate.py --model_dir="$MODEL_DIR" --input="$TEXT/test.en" \
    --reference="$TEXT/test.de" --output="$MODEL_DIR/test.de" --save_scores="$MODEL_DIR/scores.json"
