#!/bin/sh
# Builds the worker's image.
#
#   ./build.sh
#   IMAGE_NAME=my-worker IMAGE_TAG=v1.0 ./build.sh
#   ./build.sh --build-arg MODEL_NAME=Qwen/Qwen3-0.6B          with the model inside
#
# Arguments go to `docker build`. A Hugging Face token in HF_TOKEN is handed to the build as a secret: it is
# in no layer and in no history of the image.
set -eu
cd "$(dirname "$0")"

image="${IMAGE_NAME:-ghcr.io/worker-vllm/worker-vllm}:${IMAGE_TAG:-latest}"
if [ -n "${HF_TOKEN:-}" ]; then set -- --secret id=HF_TOKEN,env=HF_TOKEN "$@"; fi

export DOCKER_BUILDKIT=1
docker build --platform linux/amd64 --tag "$image" \
  --build-arg REVISION="$(git rev-parse HEAD 2>/dev/null || echo unknown)" "$@" .
echo "$image"
