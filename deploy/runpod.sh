#!/bin/sh
# Makes a RunPod template for workers (REST v2), from which the console or the last line here starts pods.
# Pods that start and end by themselves: docs/providers.md.
#
#   RUNPOD_API_KEY=… QUEUE=https://queue.example.com MODEL=Qwen/Qwen3-0.6B IMAGE=registry.example.com/me/worker-vllm deploy/runpod.sh
#
# IMAGE is built by ./build.sh and pushed to a registry of yours: none is published (docs/deploying.md, Builds).
#
# Before that, in the console under Secrets: queue_token (a token with the scope worker), and hf_token for gated
# models. RunPod fills them in when a pod starts; the template holds only their names.
#
# Pods, not serverless endpoints: a serverless worker waits for RunPod's own queue, ours dials its own. Each pod
# is the worker runpod-$RUNPOD_POD_ID.
#
# The volume is mounted where its users expect it, so that models are kept there without being told, and belongs
# to root, as the processes of the image do.
#
# How long an end takes. RunPod promises no time between SIGTERM and SIGKILL; the defaults of the worker fit the
# 10 s of `docker stop`, and more should not be counted on:
#   CASOLA_SHUTDOWN_GRACE_PERIOD 5 s for running jobs
#   + 2.5 s to release the rest and be acknowledged
#   + 2 s for the engine to end
#   + 0.4 s for the last log lines, where CASOLA_LOGS_URL is set
#   = 9.9 s. With a worker or an engine that has to be killed it does not fit: a grace of 3 would.
# A pod that is taken away without any signal costs its jobs a lease (30 s); then others do them.
#
# RunPod starts a container that ended anew, whatever its exit code, and bills meanwhile: after a change look at
# the queue's /api/workers and at the pod's log, which names what is wrong.
set -eu

: "${RUNPOD_API_KEY:?an API key of RunPod}" "${QUEUE:?the address of the queue, https://…}" "${MODEL:?the model to serve}" "${IMAGE:?the image of the worker, in a registry: docs/deploying.md, Builds}"
case $QUEUE in
  http://* | https://*) ;;
  *)
    echo "QUEUE=$QUEUE: expected the address of the queue, https://…" >&2
    exit 2
    ;;
esac
api=https://api.runpod.io/v2
image=$IMAGE
name=${NAME:-worker-vllm}

template=$(
  cat <<JSON
{
  "name": "$name",
  "image": "$image",
  "disk": 20,
  "mounts": { "persistent": { "size": 100, "path": "/runpod-volume" } },
  "startSsh": false,
  "startJupyter": false,
  "env": {
    "CASOLA_WS_URL": "ws${QUEUE#http}",
    "CASOLA_API_URL": "$QUEUE",
    "CASOLA_API_TOKEN": "{{ RUNPOD_SECRET_queue_token }}",
    "CASOLA_CONFIG_ID": "${CONFIG_ID:-default}",
    "CASOLA_MAX_JOBS": "${MAX_JOBS:-16}",
    "CASOLA_SHUTDOWN_GRACE_PERIOD": "5",
    "VLLM_MODEL": "$MODEL",
    "VLLM_STARTUP_TIMEOUT": "1800",
    "HF_TOKEN": "{{ RUNPOD_SECRET_hf_token }}",
    "VLLM_CACHE_ROOT": "/runpod-volume/vllm",
    "WORKER_SPOOL_DIR": "/runpod-volume/spool"
  }
}
JSON
)

# DRY_RUN=1 prints what would be sent.
if [ -n "${DRY_RUN:-}" ]; then
  echo "$template"
  exit
fi

curl --fail-with-body --silent --show-error "$api/templates" \
  --header "Authorization: Bearer $RUNPOD_API_KEY" --header 'Content-Type: application/json' --data "$template"
cat <<TEXT

Start a pod of it:
  curl $api/pods -H "Authorization: Bearer \$RUNPOD_API_KEY" -H 'Content-Type: application/json' \\
    -d '{"name": "$name", "templateId": "THE ID ABOVE", "gpu": {"id": "NVIDIA GeForce RTX 4090", "count": 1}}'
End it, and do not just stop it, since a stopped pod goes on paying for its volume:
  curl -X DELETE $api/pods/THE_ID_OF_THE_POD -H "Authorization: Bearer \$RUNPOD_API_KEY"
TEXT
