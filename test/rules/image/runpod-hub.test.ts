import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { hubFiles } from '../../../scripts/runpod-hub/files.ts';
import { REFUSED } from '../../../scripts/runpod-hub/refused.ts';
import { HUB_SETTINGS } from '../../../scripts/runpod-hub/settings.ts';
import { argumentsFromEnvironment } from '../../../src/engine/command/flag-arguments.ts';
import { settleEnvironment, whatBecameOf, whyOfNoUse } from '../../../src/engine/command/flag-names.ts';
import { parseHelp } from '../../../src/engine/command/learn-flags.ts';
import { CommandLineEnd, parseArguments } from '../../../src/simulator/options.ts';
import { containerShape } from '../../../src/supervisor/variables.ts';

/** Variables of the form of RunPod's worker-vllm 2.25, .runpod/hub.json. */
const OF_RUNPODS_WORKER = `
  MODEL_NAME MODEL_REVISION TOKENIZER_NAME CUSTOM_CHAT_TEMPLATE OPENAI_SERVED_MODEL_NAME_OVERRIDE OPENAI_RESPONSE_ROLE
  TOKENIZER DOWNLOAD_DIR LOAD_FORMAT QUANTIZATION TOKENIZER_REVISION SPECULATIVE_CONFIG MODEL_LOADER_EXTRA_CONFIG
  TOKENIZER_MODE DTYPE KV_CACHE_DTYPE LORA_DTYPE MAX_MODEL_LEN DISTRIBUTED_EXECUTOR_BACKEND TOOL_CALL_PARSER
  REASONING_PARSER PIPELINE_PARALLEL_SIZE TENSOR_PARALLEL_SIZE MAX_PARALLEL_LOADING_WORKERS MAX_LORAS SEED MAX_NUM_SEQS
  MAX_LOGPROBS MAX_LORA_RANK BLOCK_SIZE GPU_MEMORY_UTILIZATION MAX_CPU_LORAS SKIP_TOKENIZER_INIT TRUST_REMOTE_CODE
  RAY_WORKERS_USE_NSIGHT ENABLE_PREFIX_CACHING DISABLE_SLIDING_WINDOW DISABLE_LOG_STATS ENABLE_LORA FULLY_SHARDED_LORAS
  ENABLE_LOG_REQUESTS ENFORCE_EAGER DISABLE_CUSTOM_ALL_REDUCE ENABLE_EXPERT_PARALLEL ENABLE_AUTO_TOOL_CHOICE
  ENABLE_CHUNKED_PREFILL DEVICE SPECULATIVE_MODEL NUM_SPECULATIVE_TOKENS SCHEDULER_DELAY_FACTOR SPECULATIVE_METHOD
  NGRAM_PROMPT_LOOKUP_MAX DEFAULT_BATCH_SIZE DEFAULT_MIN_BATCH_SIZE DEFAULT_BATCH_SIZE_GROWTH_FACTOR RAW_OPENAI_OUTPUT
  MAX_CONCURRENCY BASE_PATH PYTORCH_ALLOC_CONF VLLM_USE_DEEP_GEMM`
  .trim()
  .split(/\s+/);

/** The simulator has vLLM's flags. */
const flags = parseHelp(helpText());

function helpText(): string {
  try {
    parseArguments(['--help=all']);
  } catch (end) {
    if (end instanceof CommandLineEnd) return end.message;
  }
  throw new Error('no help');
}

const variableOf = (flag: string) => flag.slice(2).replaceAll('-', '_').toUpperCase();

it('the files are what the table makes of them', () => {
  for (const [path, content] of Object.entries(hubFiles())) {
    const there = readFileSync(join(import.meta.dirname, '../../..', path), 'utf8');
    expect(there, `${path}: run "node scripts/runpod-hub.ts"`).toBe(content);
  }
});

it('every variable of RunPod’s form is read, or refused with a reason', () => {
  const known = new Set<string>([...HUB_SETTINGS.map(({ key }) => key), ...REFUSED]);
  expect(OF_RUNPODS_WORKER.filter((key) => !known.has(key))).toEqual([]);
  for (const key of REFUSED) expect(whatBecameOf(key) ?? whyOfNoUse(key), key).toEqual(expect.any(String));
});

describe('what the table says of a variable is so', () => {
  const names = new Set(flags.map(({ name }) => variableOf(name)));
  const own = new Set([...Object.keys(containerShape({})), 'BASE_PATH']);

  it.each(HUB_SETTINGS.map(({ key, here }) => [key, here] as const))('%s', (key, here) => {
    if (here === 'flag') expect(names).toContain(key);
    if (here === 'own') expect(own).toContain(key);
    if (typeof here !== 'object') return;
    expect(settleEnvironment({ [key]: 'x' }, {}, '', () => false).env).toMatchObject({ [here.nameOf]: 'x' });
    expect(own.has(here.nameOf) || names.has(here.nameOf)).toBe(true);
  });
});

it('a form that is sent as it is makes a command without a warning', () => {
  const defaults = HUB_SETTINGS.map(({ key, default: value }) => [key, String(value ?? '')]);
  const given = { ...Object.fromEntries(defaults), MODEL_NAME: 'owner/model', MAX_NUM_BATCHED_TOKENS: '0' };
  const { env, origins, warnings } = settleEnvironment(given, {}, '', () => false);
  const said = argumentsFromEnvironment(env, flags, origins);
  expect([...warnings, ...said.warnings]).toEqual([]);
  const words = said.arguments.flatMap((argument) => argument.words);
  expect(words).toEqual(
    expect.arrayContaining(['--gpu-memory-utilization', '0.95', '--max-num-seqs', '256']),
  );
  expect(words).not.toContain('--max-num-batched-tokens');
});

it('what is set and refused is named with its reason', () => {
  const given = Object.fromEntries(REFUSED.map((key) => [key, '1']));
  const { env, origins, warnings } = settleEnvironment(given, {}, '', () => false);
  const all = [...warnings, ...argumentsFromEnvironment(env, flags, origins).warnings];
  for (const key of REFUSED)
    expect(
      all.some((warning) => warning.startsWith(`${key} is ignored`)),
      key,
    ).toBe(true);
});
