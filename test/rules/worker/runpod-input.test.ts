import { describe, expect, test } from 'vitest';
import type { RunpodInput } from '../../../src/protocol/index.ts';
import type { JobFailure } from '../../../src/worker/failure.ts';
import { RUNPOD_BATCHING } from '../../../src/worker/run/runpod-batching.ts';
import {
  RUNPOD_DEFAULTS,
  type RunpodCall,
  type RunpodSettings,
  readRunpodInput,
} from '../../../src/worker/run/runpod-input.ts';

const USER = [{ role: 'user', content: 'Hi' }];
/** What both generations' table gives where a job says nothing. */
const TABLE = { temperature: 1, top_p: 1, top_k: -1, min_p: 0, repetition_penalty: 1, max_tokens: 100 };

const read = (input: RunpodInput, settings: Partial<RunpodSettings> = {}): RunpodCall =>
  readRunpodInput(input, { ...RUNPOD_DEFAULTS, ...settings }, 'tiny');
const bodyOf = (input: RunpodInput) => JSON.parse(String(read(input).request.body ?? 'null'));

function problemOf(input: RunpodInput, settings: Partial<RunpodSettings> = {}): string {
  try {
    read(input, settings);
  } catch (error) {
    expect((error as JobFailure).failure).toMatchObject({ code: 'invalid_request', retryable: false });
    return (error as JobFailure).message;
  }
  return '';
}

const GET = { method: 'GET' };
const STREAMED = { stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } };

describe('each form of an input becomes one request', () => {
  test.each<[string, RunpodInput, string, object, Partial<RunpodCall>]>([
    ['prompt', { prompt: 'Hi' }, '/v1/completions', { prompt: 'Hi' }, { form: 'tokens', streams: false }],
    ['messages', { messages: USER }, '/v1/chat/completions', { messages: USER }, { form: 'tokens' }],
    [
      'messages before prompt',
      { prompt: 'no', messages: USER },
      '/v1/chat/completions',
      { messages: USER },
      {},
    ],
    ['messages that are text', { messages: 'Hi' }, '/v1/completions', { prompt: 'Hi' }, {}],
    [
      'prompt with apply_chat_template',
      { prompt: 'Hi', apply_chat_template: true },
      '/v1/chat/completions',
      { messages: USER },
      { form: 'tokens' },
    ],
    ['stream', { prompt: 'Hi', stream: true }, '/v1/completions', STREAMED, { streams: true }],
    [
      'use_openai_format',
      { prompt: 'Hi', use_openai_format: true },
      '/v1/chat/completions',
      { messages: USER },
      { form: 'openai_batches' },
    ],
    [
      'openai_route with openai_input',
      { openai_route: '/v1/completions', openai_input: { prompt: 'Hi', model: 'tiny', stream: true } },
      '/v1/completions',
      { prompt: 'Hi', model: 'tiny', stream: true },
      { form: 'events', streams: true },
    ],
    [
      'openai_input alone',
      { openai_input: { messages: USER } },
      '/v1/chat/completions',
      { messages: USER, model: 'tiny' },
      { form: 'events', streams: false },
    ],
    [
      'route with body',
      { route: '/v1/embeddings', body: { input: 'Hi' } },
      '/v1/embeddings',
      { input: 'Hi', model: 'tiny' },
      { form: 'passed', streams: false },
    ],
    [
      'route with a body that streams',
      { route: '/v1/chat/completions', method: 'post', body: { messages: USER, stream: true } },
      '/v1/chat/completions',
      { messages: USER, stream: true },
      { form: 'passed', streams: true },
    ],
  ])('%s', (_, input, path, body, call) => {
    expect(read(input)).toMatchObject({ request: { method: 'POST', path }, ...call });
    expect(bodyOf(input)).toMatchObject({ model: 'tiny', ...body });
  });

  test('a route without a body is read', () => {
    expect(read({ openai_route: '/v1/models' })).toMatchObject({ request: { path: '/v1/models', ...GET } });
    expect(read({ route: '/v1/models' })).toMatchObject({ request: { path: '/v1/models', ...GET } });
    expect(read({ openai_route: '/v1/models' }).request.body).toBeUndefined();
    expect(read({ openai_route: '/v1/models', openai_input: {} })).toMatchObject({ request: GET });
  });

  test('the model is named only where the engine tells its name, and a job that names one keeps it', () => {
    expect(bodyOf({ openai_input: { messages: USER, model: 'adapter' } }).model).toBe('adapter');
    const { body } = readRunpodInput({ prompt: 'Hi' }, RUNPOD_DEFAULTS, undefined).request;
    expect(JSON.parse(String(body))).not.toHaveProperty('model');
  });
});

describe('sampling parameters', () => {
  // Every row of the table of 0.2, with what a request to vLLM 0.32 says.
  test.each<[string, unknown, object]>([
    ['n', 2, { n: 2 }],
    ['best_of', 1, {}],
    ['presence_penalty', 0.5, { presence_penalty: 0.5 }],
    ['frequency_penalty', -0.5, { frequency_penalty: -0.5 }],
    ['repetition_penalty', 1.2, { repetition_penalty: 1.2 }],
    ['temperature', 0, { temperature: 0 }],
    ['top_p', 0.9, { top_p: 0.9 }],
    ['top_k', 40, { top_k: 40 }],
    ['min_p', 0.1, { min_p: 0.1 }],
    ['use_beam_search', true, { use_beam_search: true }],
    ['length_penalty', 0.8, { length_penalty: 0.8 }],
    ['early_stopping', false, {}],
    ['stop', ['a', 'b'], { stop: ['a', 'b'] }],
    ['stop_token_ids', [7], { stop_token_ids: [7] }],
    ['ignore_eos', true, { ignore_eos: true }],
    ['max_tokens', 7, { max_tokens: 7 }],
    ['skip_special_tokens', false, { skip_special_tokens: false }],
    ['spaces_between_special_tokens', false, { spaces_between_special_tokens: false }],
    // Beside the table, in the code of both generations.
    ['include_stop_str_in_output', true, { include_stop_str_in_output: true }],
    ['prompt_logprobs', 1, { prompt_logprobs: 1 }],
    ['seed', 42, { seed: 42 }],
    ['min_tokens', 3, { min_tokens: 3 }],
    ['bad_words', ['x'], { bad_words: ['x'] }],
    ['allowed_token_ids', [1], { allowed_token_ids: [1] }],
    ['logit_bias', { 5: 1 }, { logit_bias: { 5: 1 } }],
    ['truncate_prompt_tokens', 8, { truncate_prompt_tokens: 8 }],
    ['structured_outputs', { choice: ['a'] }, { structured_outputs: { choice: ['a'] } }],
    // None of Python: as if it were left out.
    ['stop', null, {}],
  ])('%s', (name, value, fields) => {
    const { messages, prompt: _, ...chat } = bodyOf({ messages: USER, sampling_params: { [name]: value } });
    expect(chat).toEqual({ ...TABLE, stream: false, model: 'tiny', ...fields });
    expect(messages).toEqual(USER);
    const completion = bodyOf({ prompt: 'Hi', sampling_params: { [name]: value } });
    expect(completion).toEqual({ ...TABLE, stream: false, model: 'tiny', prompt: 'Hi', ...fields });
  });

  test('logprobs is a number for prompts and two fields for messages', () => {
    const sampling_params = { logprobs: 3 };
    expect(bodyOf({ prompt: 'Hi', sampling_params }).logprobs).toBe(3);
    expect(bodyOf({ messages: USER, sampling_params })).toMatchObject({ logprobs: true, top_logprobs: 3 });
  });

  test.each([
    ['best_of', 4, /no such parameter any more/],
    ['early_stopping', true, /no such parameter any more/],
    ['early_stopping', 'never', /no such parameter any more/],
    ['guided_decoding', {}, /use structured_outputs/],
    ['logits_processors', [], /LOGITS_PROCESSORS/],
    ['extra_args', {}, /use vllm_xargs/],
    ['detokenize', false, /use return_token_ids/],
    ['output_kind', 1, /stream is a field of the input/],
    ['stream', true, /is no sampling parameter/],
    ['messages', [], /is no sampling parameter/],
    ['kv_transfer_params', {}, /is no sampling parameter/],
  ])('%s: %j is refused by its name', (name, value, why) => {
    const problem = problemOf({ prompt: 'Hi', sampling_params: { [name]: value } });
    expect(problem).toMatch(`input.sampling_params.${name}: `);
    expect(problem).toMatch(why);
  });

  test('the default of max_tokens is that of the generation; in OpenAI’s format the engine decides', () => {
    expect(bodyOf({ prompt: 'Hi', batch_size: 5 }).max_tokens).toBe(16);
    expect(bodyOf({ prompt: 'Hi' }).max_tokens).toBe(100);
    const openai = bodyOf({ prompt: 'Hi', use_openai_format: true, sampling_params: { top_p: 0.5 } });
    expect(openai).toEqual({ messages: USER, model: 'tiny', stream: false, top_p: 0.5 });
  });

  test('best_of as many as n is the default', () => {
    expect(bodyOf({ prompt: 'Hi', sampling_params: { n: 3, best_of: 3 } })).toMatchObject({ n: 3 });
    expect(read({ prompt: 'Hi', sampling_params: { n: 3 } }).choices).toBe(3);
  });
});

describe('batches', () => {
  test.each<[RunpodInput, object]>([
    [{}, RUNPOD_BATCHING],
    [{ batch_size: 30 }, { maxSize: 30, growthFactor: 1 }],
    [
      { max_batch_size: 16, min_batch_size: '2', batch_size_growth_factor: 1.5 },
      { maxSize: 16, minSize: 2, growthFactor: 1.5 },
    ],
    [{ max_batch_size: 0, min_batch_size: null }, RUNPOD_BATCHING],
  ])('%j', (fields, batching) => {
    expect(read({ prompt: 'Hi', ...fields }).batching).toMatchObject(batching);
    expect(read({ openai_input: { messages: USER }, ...fields }).batching).toMatchObject(batching);
  });

  test('the settings of the worker stand where the job says nothing', () => {
    const batching = { maxSize: 7, minSize: 3, growthFactor: 2 };
    expect(read({ prompt: 'Hi' }, { batching }).batching).toEqual(batching);
    expect(read({ prompt: 'Hi', max_batch_size: 9 }, { batching }).batching.maxSize).toBe(9);
  });

  test.each(['max_batch_size', 'min_batch_size', 'batch_size', 'batch_size_growth_factor'])(
    '%s that is no number is refused',
    (name) => {
      expect(problemOf({ prompt: 'Hi', [name]: 'many' })).toBe(
        `input.${name}: expected a number, 0 or more, got "many"`,
      );
    },
  );
});

test('RAW_OPENAI_OUTPUT=0 gives the chunks of completions as values, other streams stay text', () => {
  const form = (openai_route: string) =>
    read({ openai_route, openai_input: { stream: true } }, { isRawOpenAI: false }).form;
  expect(form('/v1/chat/completions')).toBe('chunks');
  expect(form('/v1/messages')).toBe('events');
});

test.each<[RunpodInput, RegExp]>([
  [{}, /^input: expected openai_route with openai_input, route with body, or prompt or messages$/],
  [{ prompt: 5 }, /^input.prompt: expected a text or a list of messages/],
  [{ messages: { role: 'user' } }, /^input.messages: expected a text or a list of messages/],
  [{ prompt: 'Hi', sampling_params: [1] }, /^input.sampling_params: expected an object/],
  [{ openai_route: 5 }, /^input.openai_route: expected a text/],
  [{ openai_route: '/sleep' }, /^input.openai_route: GET \/sleep is no inference route/],
  [{ route: '/collective_rpc', body: {} }, /^input.route: POST \/collective_rpc is no inference route/],
  [{ route: '/metrics' }, /^input.route: GET \/metrics is no inference route/],
  [{ route: '/v1/../sleep', body: {} }, /no inference route/],
  [{ route: '/v1/completions', method: 'DELETE' }, /DELETE \/v1\/completions is no inference route/],
  [
    { openai_input: { messages: USER, kv_transfer_params: {} } },
    /^kv_transfer_params: is set by the engines/,
  ],
  [
    { route: '/v1/completions', body: { ec_transfer_params: {} } },
    /^ec_transfer_params: is set by the engines/,
  ],
])('%j is refused by name', (input, problem) => {
  expect(problemOf(input)).toMatch(problem);
});

test('ALLOW_OPENAI_FORMAT=0 refuses jobs that ask for it', () => {
  const refused = problemOf({ prompt: 'Hi', use_openai_format: true }, { allowsOpenAIFormat: false });
  expect(refused).toMatch(/^input.use_openai_format: this worker does not allow it/);
});
