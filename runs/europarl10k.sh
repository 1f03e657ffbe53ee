#!/usr/bin/env bash
# Trains lstm_lexical on 10,000 pairs of Europarl German-English, and scores 500 test pairs.
#
# Cost: 32 minutes on one core of an AMD EPYC.
# Score: 18.69 BLEU (seeds 1 and 2: 18.88 and 18.50) on lower-cased tokens, beam 5, unknown words
#   replaced by a lexicon of align.py; 19.55 for both seeds as an ensemble. A coursework report has
#   12.68 for this model on this text.
# (docs/results/methods/europarl10k/recipe-*.json, ensemble-1-2.json)
#
#   runs/europarl10k.sh [more flags of train.py]
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON="${PYTHON:-.venv/bin/python}"
MODEL_DIR="${MODEL_DIR:-runs/europarl10k}"
SEED="${SEED:-1}"
TEXT=data/europarl10k_de_en  # downloaded by train.py

"$PYTHON" train.py --dataset=europarl10k_de_en --model=lstm_lexical \
    --tokenizer=word --max_words=0 --min_word_count=2 \
    --set=embedding_width=128 --set=encoder_units=128 --set=decoder_units=256 \
    --set=embedding_dropout=0.4 --set=dropout=0.4 --set=output_dropout=0.4 \
    --max_tokens_per_batch=400 --schedule=cosine --learning_rate=2e-3 --warmup_steps=200 \
    --max_steps=10000 --patience=0 --eval_every_steps=1000 --save_every_steps=250 \
    --average_checkpoints=8 --intra_op_threads=1 --seed="$SEED" \
    --model_dir="$MODEL_DIR" "$@"
"$PYTHON" align.py --source="$TEXT/train.de" --target="$TEXT/train.en" \
    --lexicon="$MODEL_DIR/lexicon"
"$PYTHON" translate.py --model_dir="$MODEL_DIR" --beam_size=5 --tokenize=none --lowercase \
    --replace_unknowns --lexicon="$MODEL_DIR/lexicon" \
    --input="$TEXT/test.de" --reference="$TEXT/test.en" \
    --output="$MODEL_DIR/test.en" --save_scores="$MODEL_DIR/scores.json"
