#!/usr/bin/env bash
# A completion, a stream and a stored job with nothing but curl.
set -euo pipefail
url=${WORKER_VLLM_URL:-http://127.0.0.1:8788}
auth="Authorization: Bearer ${WORKER_VLLM_TOKEN:-none}"
json="Content-Type: application/json"

echo "# A completion"
curl -fsS "$url/v1/chat/completions" -H "$auth" -H "$json" -d '{
  "model": "default", "max_tokens": 16,
  "messages": [{"role": "user", "content": "What is the capital of France?"}]}'

echo; echo "# The same as a stream"
curl -fsSN "$url/v1/chat/completions" -H "$auth" -H "$json" -d '{
  "model": "default", "max_tokens": 16, "stream": true,
  "messages": [{"role": "user", "content": "What is the capital of France?"}]}'

echo "# A stored job: it survives restarts, and the same id never runs twice"
id="example-$$-$(date +%s)"
curl -fsS "$url/api/jobs" -H "$auth" -H "$json" -d '{
  "id": "'"$id"'", "job_type": "chat_completion",
  "payload": {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 16}}'
echo
curl -fsS "$url/api/jobs/$id?wait=60" -H "$auth"
echo
