import { finalFailure } from '../failure.ts';

type Params = Record<string, unknown>;

/**
 * Parameters of RunPod's table that vLLM's API no longer has: the values that mean the default, and what to do instead.
 */
const GONE: Record<string, { isDefault: (value: unknown, params: Params) => boolean; instead: string }> = {
  best_of: {
    isDefault: (value, { n }) => value === (n ?? 1),
    instead: 'ask for n answers and choose; with use_beam_search, n is the width of the beam',
  },
  early_stopping: {
    isDefault: (value) => value === false,
    instead: 'beam search always ends when it has n finished sequences',
  },
};

/** Parameters of vLLM's `SamplingParams` that no request to its server has, and what to do instead. */
const NOT_IN_REQUESTS: Record<string, string> = {
  guided_decoding: 'use structured_outputs',
  logits_processors: 'the engine loads them when it starts (LOGITS_PROCESSORS)',
  extra_args: 'use vllm_xargs',
  detokenize: 'use return_token_ids',
  output_kind: 'stream is a field of the input',
};

/** Fields of a request that other fields of the input decide, or no caller may set. */
const RESERVED = [
  'messages',
  'prompt',
  'stream',
  'stream_options',
  'kv_transfer_params',
  'ec_transfer_params',
];

/**
 * The table's defaults, which the worker sends since the engine's own would come from the model's
 * generation_config.json. The default of `max_tokens` is 16 in the table (0.2) and 100 in the code of 2.x.
 */
const DEFAULTS = { temperature: 1, top_p: 1, top_k: -1, min_p: 0, repetition_penalty: 1 };
const MAX_TOKENS = { '0.2': 16, '2.x': 100 };

/**
 * Returns `sampling_params` as fields of a request to today's engine: those of the table, and whatever else it knows.
 * @throws JobFailure that names a parameter which no request can carry
 */
export function samplingFields(params: Params, route: 'chat' | 'completions'): Params {
  const fields: Params = {};
  for (const [name, value] of Object.entries(params)) {
    // In RunPod's table None means left out.
    if (value === null) continue;
    const problem = problemOf(name, value, params);
    if (problem !== null) throw finalFailure('invalid_request', `input.sampling_params.${name}: ${problem}`);
    if (name in GONE) continue;
    if (name === 'logprobs' && route === 'chat' && typeof value === 'number') {
      Object.assign(fields, { logprobs: true, top_logprobs: value });
    } else fields[name] = value;
  }
  return fields;
}

/** Returns the parameters with which a generation of RunPod's worker generates where a job names none. */
export function samplingDefaults(generation: '0.2' | '2.x'): Params {
  return { ...DEFAULTS, max_tokens: MAX_TOKENS[generation] };
}

function problemOf(name: string, value: unknown, params: Params): string | null {
  const gone = GONE[name];
  if (gone !== undefined) {
    return gone.isDefault(value, params) ? null : `vLLM has no such parameter any more; ${gone.instead}`;
  }
  const instead = NOT_IN_REQUESTS[name];
  if (instead !== undefined) return `cannot be sent to the engine; ${instead}`;
  return RESERVED.includes(name) ? 'is no sampling parameter' : null;
}
