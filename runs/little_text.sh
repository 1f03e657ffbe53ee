#!/usr/bin/env bash
# Trains a Transformer on little text, such as 10,000 sentence pairs. Models that count help: words are
# linked, links give phrases as more text, and guide the attention. Lines of two sentences are more
# text, too.
#
# Cost: up to MINUTES on two cores.
#
#   SOURCE=train.de TARGET=train.en VALID_SOURCE=valid.de VALID_TARGET=valid.en \
#       runs/little_text.sh [more flags of train.py for the Transformer]
#   TEXT_ONLY=1 runs/little_text.sh # Links and phrases alone.
#
# Without variables, `make demo` has made the demo corpus, which is the text.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON="${PYTHON:-.venv/bin/python}"
RUNS="${RUNS:-runs/little_text}"
SOURCE="${SOURCE:-data/demo/train.en}"
TARGET="${TARGET:-data/demo/train.de}"
VALID_SOURCE="${VALID_SOURCE:-data/demo/valid.en}"
VALID_TARGET="${VALID_TARGET:-data/demo/valid.de}"
PIECES="${PIECES:-8000}"
MINUTES="${MINUTES:-58}"
SEED="${SEED:-1}"
NAME="${NAME:-model}"

mkdir -p "$RUNS"
valid=("--valid_source=$VALID_SOURCE" "--valid_target=$VALID_TARGET")
phrases=("$RUNS/phrases.source" "$RUNS/phrases.target")
twos=("$RUNS/twos.source" "$RUNS/twos.target")

moved() {  # The lines of a file, from another one on.
    awk -v n="$2" 'NR > n' "$1"
    awk -v n="$2" 'NR <= n' "$1"
}

"$PYTHON" align.py --source="$SOURCE" --target="$TARGET" --phrases="${phrases[0]},${phrases[1]}"
rm -f "${twos[@]}"
half=$(($(wc -l < "$SOURCE") / 2))
for lines in 1 "$half"; do
    paste -d ' ' "$SOURCE" <(moved "$SOURCE" "$lines") >> "${twos[0]}"
    paste -d ' ' "$TARGET" <(moved "$TARGET" "$lines") >> "${twos[1]}"
done
# The links of this model guide the attention of the Transformer, which has its pieces.
"$PYTHON" train.py --model=hmm_alignment --tokenizer=bpe --num_pieces="$PIECES" \
    --train_source="$SOURCE" --train_target="$TARGET" "${valid[@]}" --model_dir="$RUNS/links"
if [[ "${TEXT_ONLY:-}" ]]; then exit; fi
"$PYTHON" train.py --model=transformer_tiny --set=positions=rotary --set=dropout=0.3 \
    --vocab_file="$RUNS/links/tokenizer/shared.model" --guide="$RUNS/links" \
    --train_source="$SOURCE,${phrases[0]},${twos[0]}" \
    --train_target="$TARGET,${phrases[1]},${twos[1]}" --corpus_weights=1,2,1 "${valid[@]}" \
    --noise=none --patience=0 --optimizer=muon \
    --max_minutes="$MINUTES" --seed="$SEED" --model_dir="$RUNS/$NAME" "$@"
