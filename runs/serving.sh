#!/usr/bin/env bash
# Serves a model, asks for a translation, and stops the server.
#
# Cost: half a minute.
#
#   MODEL_DIR=runs/x runs/serving.sh [more flags of serve.py]
#
# TensorFlow Serving serves what export.py writes: docs/serving.md.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON="${PYTHON:-.venv/bin/python}"
MODEL_DIR="${MODEL_DIR:-runs/demo}"
PORT="${PORT:-8501}"
LINE="${LINE:-A dog runs.}"

"$PYTHON" serve.py --model_dir="$MODEL_DIR" --port="$PORT" "$@" &
server=$!
trap 'kill "$server" 2> /dev/null || true; wait "$server" || true' EXIT

url="http://localhost:$PORT/v1/models/$(basename "$MODEL_DIR")"
until curl --silent --fail "$url" > /dev/null; do
    kill -0 "$server"  # Ends this script if the server has ended.
    sleep 1
done
curl --silent --data "{\"instances\": [\"$LINE\"]}" "$url:predict"
echo
