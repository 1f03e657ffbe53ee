#!/usr/bin/env bash
# Exports a model as a SavedModel, serves it, asks for a translation, and stops the server.
#
# Cost: about a minute. The first answer came 32 seconds after the start of serve.py, on 2 cores of
#   the machine of the clients, with the demo's model; memory 1.07 GB.
# Score: 30 answers a second for one client, 163 for 16 clients (median 104 ms).
# (docs/results/speed/serving.json)
#
#   MODEL_DIR=runs/x runs/serving.sh [more flags of export.py]
#
# TensorFlow Serving can serve the same folder: docs/serving.md.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON="${PYTHON:-.venv/bin/python}"
MODEL_DIR="${MODEL_DIR:-runs/demo}"
EXPORT_DIR="${EXPORT_DIR:-exports/$(basename "$MODEL_DIR")}"
PORT="${PORT:-8501}"
LINE="${LINE:-A dog runs .}"

"$PYTHON" export.py --model_dir="$MODEL_DIR" --export_dir="$EXPORT_DIR" "$@"
"$PYTHON" serve.py --export_dir="$EXPORT_DIR" --port="$PORT" &
server=$!
trap 'kill "$server" 2> /dev/null || true; wait "$server" || true' EXIT

url="http://localhost:$PORT/v1/models/$(basename "$EXPORT_DIR")"
until curl --silent --fail "$url" > /dev/null; do
    kill -0 "$server"  # Ends this script if the server has ended.
    sleep 1
done
curl --silent --data "{\"instances\": [\"$LINE\"]}" "$url:predict"
echo
