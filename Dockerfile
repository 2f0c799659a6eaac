# The image of a GPU container: an engine, and the worker that feeds it.
#
#   ./build.sh                                                      vLLM
#   ./build.sh --build-arg ENGINE=llama-cpp                         llama.cpp; or sglang, fastdeploy
#   ./build.sh --build-arg MODEL_NAME=Qwen/Qwen3-0.6B               vLLM with the model inside
#
# PID 1 is entrypoint.sh, which reaps orphans and forwards signals itself: neither tini nor
# `docker run --init` is needed, and both are welcome.
#
# The user is root unless the platform says otherwise: RunPod and Vast mount volumes that only root can
# write. Nothing here needs it. `--user 10001` (Kubernetes: runAsUser) works with a read-only root, given a
# writable /home/worker and /tmp.

ARG ENGINE=vllm
ARG VLLM_VERSION=0.32.0
ARG SGLANG_VERSION=0.5.23
ARG LLAMA_CPP_VERSION=b10434
ARG FASTDEPLOY_VERSION=2.3.2
ARG NODE_VERSION=24
# A model to put into the image; empty: none, it is downloaded at the start.
ARG MODEL_NAME=
# Not the place where volumes are mounted, or they would hide the model.
ARG BASE_PATH=/models

FROM node:${NODE_VERSION}-bookworm-slim AS node

# The bundles that `npm start` of a checkout makes too.
FROM node AS programs
WORKDIR /opt/worker-vllm
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY scripts/programs.ts scripts/fingerprint.js scripts/
COPY src src
RUN node scripts/programs.ts

FROM vllm/vllm-openai:v${VLLM_VERSION} AS engine-vllm

FROM lmsysorg/sglang:v${SGLANG_VERSION} AS engine-sglang
ENV ENGINE=sglang

FROM ghcr.io/ggml-org/llama.cpp:server-cuda-${LLAMA_CPP_VERSION} AS engine-llama-cpp
ENV ENGINE=llama-cpp PATH="/app:${PATH}"

FROM ccr-2vdh3abv-pub.cnc.bj.baidubce.com/paddlepaddle/fastdeploy-cuda-12.6:${FASTDEPLOY_VERSION} AS engine-fastdeploy
ENV ENGINE=fastdeploy

# The model is fetched beside the worker, not after it, so that a change of the worker keeps the download.
# hadolint ignore=DL3006
FROM engine-${ENGINE} AS model
ARG MODEL_NAME
ARG MODEL_REVISION
# hadolint ignore=DL3064
ARG TOKENIZER_NAME
# hadolint ignore=DL3064
ARG TOKENIZER_REVISION
ARG QUANTIZATION
ARG BASE_PATH
RUN --mount=type=bind,source=scripts/bake_model.py,target=/bake_model.py \
    --mount=type=secret,id=HF_TOKEN \
    HF_TOKEN_PATH=/run/secrets/HF_TOKEN python3 /bake_model.py

# hadolint ignore=DL3006
FROM engine-${ENGINE} AS worker
RUN useradd --uid 10001 --user-group --create-home worker \
    && ln -s /opt/worker-vllm/bin/worker-vllm.js /usr/local/bin/worker-vllm
COPY --from=node /usr/local/bin/node /usr/local/bin/node
WORKDIR /opt/worker-vllm
COPY package.json LICENSE entrypoint.sh ./
COPY bin bin
COPY --from=programs /opt/worker-vllm/dist dist
# Which flags the engine has, told by itself once instead of by each container. Where it cannot tell without a
# GPU, the image is built all the same and each container asks.
RUN --mount=type=tmpfs,target=/tmp \
    --mount=type=bind,source=scripts/help-without-gpu,target=/help-without-gpu \
    XDG_CACHE_HOME=/tmp PYTHONPATH=/help-without-gpu PYTHONDONTWRITEBYTECODE=1 VLLM_MODEL=any SEED=0 \
    node bin/worker-vllm.js supervise --print-command; \
    if [ -d /tmp/worker-vllm ]; then cp -R /tmp/worker-vllm flags; fi
# While a large model loads, nothing is wrong; the supervisor has a limit of its own (VLLM_STARTUP_TIMEOUT).
HEALTHCHECK --interval=30s --timeout=10s --start-period=30m --retries=3 \
    CMD ["node", "/opt/worker-vllm/bin/worker-vllm.js", "health"]
ENTRYPOINT ["/opt/worker-vllm/entrypoint.sh"]
CMD []

FROM worker AS image

FROM worker AS image-baked
ARG BASE_PATH
COPY --from=model ${BASE_PATH} ${BASE_PATH}
COPY --from=model /local_model_args.json /local_model_args.json
ENV HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1

# hadolint ignore=DL3006
FROM image${MODEL_NAME:+-baked}
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="worker-vllm" \
      org.opencontainers.image.description="A GPU worker: an LLM engine that takes jobs from a queue" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
