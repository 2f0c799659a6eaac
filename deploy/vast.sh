#!/bin/sh
# Starts a worker on Vast.ai, with its command line client (pip install vastai).
#
#   vastai search offers 'gpu_ram>=24 cuda_vers>=12.8 num_gpus=1 reliability>0.98' --order dph
#   OFFER=1234567 QUEUE=https://queue.example.com QUEUE_TOKEN=… MODEL=Qwen/Qwen3-0.6B IMAGE=registry.example.com/me/worker-vllm deploy/vast.sh
#
# IMAGE is built by ./build.sh and pushed to a registry of yours: none is published (docs/deploying.md, Builds).
#
# QUEUE_TOKEN is a token with the scope worker. The host's owner can read what a container is given: make one for
# Vast alone, so that it can be taken back. HF_TOKEN is handed on where it is set.
#
# Launch mode "args": the image's own entry is kept. The modes ssh and jupyter replace it; there, put
# /opt/worker-vllm/entrypoint.sh into the on-start script. Each instance is the worker vast-$CONTAINER_ID.
#
# The image's user is root, as Vast expects; its disk lasts as long as the instance.
#
# How long an end takes. Vast promises no time between SIGTERM and SIGKILL; the defaults of the worker fit the
# 10 s of `docker stop`, and more should not be counted on:
#   CASOLA_SHUTDOWN_GRACE_PERIOD 5 s for running jobs
#   + 2.5 s to release the rest and be acknowledged
#   + 2 s for the engine to end
#   + 0.4 s for the last log lines, where CASOLA_LOGS_URL is set
#   = 9.9 s. With a worker or an engine that has to be killed it does not fit: a grace of 3 would.
# An interruptible instance that is outbid may get no signal at all: its jobs wait for their lease (30 s) and are
# then done by others. Keep CASOLA_MAX_JOBS moderate there.
set -eu

: "${OFFER:?the id of an offer}" "${QUEUE:?the address of the queue, https://…}" "${MODEL:?the model to serve}" "${IMAGE:?the image of the worker, in a registry: docs/deploying.md, Builds}"
: "${QUEUE_TOKEN:?a token with the scope worker}"
case $QUEUE in
  http://* | https://*) ;;
  *)
    echo "QUEUE=$QUEUE: expected the address of the queue, https://…" >&2
    exit 2
    ;;
esac

# The client splits this at blanks that stand in no quotes.
env="-e CASOLA_WS_URL='ws${QUEUE#http}' -e CASOLA_API_URL='$QUEUE' -e CASOLA_API_TOKEN='$QUEUE_TOKEN'"
env="$env -e CASOLA_CONFIG_ID='${CONFIG_ID:-default}' -e CASOLA_MAX_JOBS=${MAX_JOBS:-16}"
env="$env -e CASOLA_SHUTDOWN_GRACE_PERIOD=5 -e VLLM_MODEL='$MODEL' -e VLLM_STARTUP_TIMEOUT=1800"
if [ -n "${HF_TOKEN:-}" ]; then env="$env -e HF_TOKEN='$HF_TOKEN'"; fi

# DRY_RUN=1 prints what would be asked for, tokens included.
${DRY_RUN:+echo} vastai create instance "$OFFER" \
  --image "$IMAGE" \
  --disk "${DISK_GB:-60}" --label worker-vllm --env "$env" --args
