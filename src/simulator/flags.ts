/**
 * This file lists flags of `vllm serve` that the simulator accepts and ignores, so that a command line made for vLLM
 * works here too. A flag in no list is refused as vLLM refuses it. The names are those of vLLM 0.32.0's `--help=all`
 * that people use, not all 316.
 */

/** The flags with pairs `--x`, `--no-x`. */
export const IGNORED_SWITCHES = words(`
  async-scheduling cudagraph-metrics disable-cascade-attn disable-custom-all-reduce disable-fastapi-docs
  disable-sliding-window enable-auto-tool-choice enable-chunked-prefill enable-eplb enable-expert-parallel
  enable-log-outputs enable-log-requests enable-per-request-metrics enable-prefix-caching
  enable-request-id-headers enable-server-load-tracking
  enforce-eager fail-on-environ-validation fully-sharded-loras kv-cache-metrics
  language-model-only ray-workers-use-nsight skip-mm-profiling skip-tokenizer-init trust-remote-code use-tqdm-on-load`);

/** Flags that are given or not. */
export const IGNORED_STORE_TRUE = words('aggregate-engine-logging disable-log-stats headless');

/** Flags with one value. */
export const IGNORED_VALUES = words(`
  allowed-headers allowed-methods allowed-origins api-server-count attention-backend block-size chat-template
  chat-template-content-format compilation-config config config-format cpu-offload-gb
  data-parallel-address data-parallel-size decode-context-parallel-size default-chat-template-kwargs
  device-ids disable-access-log-for-endpoints distributed-executor-backend download-dir dtype
  generation-config gpu-memory-utilization hf-config-path hf-overrides hf-token kv-cache-dtype
  kv-cache-memory-bytes kv-events-config kv-offloading-backend kv-offloading-size
  limit-mm-per-prompt load-format log-level logging-config lora-dtype max-cpu-loras max-cudagraph-capture-size
  max-log-len max-logprobs max-lora-rank max-loras max-num-batched-tokens max-num-queued-tokens max-parallel-loading-workers
  media-io-kwargs middleware mm-processor-cache-gb mm-processor-kwargs model-impl
  model-loader-extra-config moe-backend nnodes node-rank num-gpu-blocks-override optimization-level
  otlp-traces-endpoint override-generation-config pipeline-parallel-size pooler-config quantization
  reasoning-parser response-role revision root-path runner safetensors-load-strategy scheduling-policy
  seed shutdown-timeout speculative-config sse-keep-alive-interval stream-interval
  structured-outputs-config tensor-parallel-size tokenizer tokenizer-mode tokenizer-revision
  tool-call-parser tool-parser-plugin uvicorn-log-level`);

/** Flags with one value or more. */
export const IGNORED_LISTS = words(`
  allowed-media-domains cudagraph-capture-sizes logits-processors lora-modules lora-target-modules`);

/** Short forms, as vLLM has them. */
export const SHORT_FORMS: Record<string, string> = {
  '-tp': '--tensor-parallel-size',
  '-pp': '--pipeline-parallel-size',
  '-dp': '--data-parallel-size',
  '-q': '--quantization',
  '-cc': '--compilation-config',
  '-sc': '--speculative-config',
};

function words(text: string): string[] {
  return text.trim().split(/\s+/);
}
