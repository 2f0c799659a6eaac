import { describe, expect, it } from 'vitest';
import { bodyFacts } from '../../../src/request-facts/body-facts.ts';
import { jobFacts } from '../../../src/request-facts/job-facts.ts';
import { costOf, lengthsOf } from '../../../src/request-facts/lengths.ts';

const bytes = (text: string) => new TextEncoder().encode(text);
const cost = (path: string, body: object, length: number | null = null) => {
  const { jsonBytes, fields } = bodyFacts(bytes(JSON.stringify(body)), null);
  return costOf(lengthsOf(path, jsonBytes, fields), length).tokens;
};
/** A body of about 400 bytes, 100 tokens. */
const PROMPT = { prompt: 'x'.repeat(386) };
const CHAT = { messages: [{ role: 'user', content: 'x'.repeat(350) }] };
const about = (told: number, tokens: number) => expect(Math.abs(told - tokens)).toBeLessThan(25);

describe('what a request may cost', () => {
  it.each([
    ['its caller’s bound', { max_tokens: 50 }, null, 154],
    ['several answers', { max_tokens: 50, n: 3 }, null, 256],
    ['several answers, as a text', { max_tokens: 50, n: '3' }, null, 256],
    ['the wider beam', { max_tokens: 50, n: 1, best_of: 3 }, null, 256],
    ['what is left of the model', {}, 1000, 1000],
    ['a bound beyond the model', { max_tokens: 5000 }, 1000, 1000],
    ['nothing that is known', {}, null, 4197],
    ['a bound that is none', { max_tokens: -1 }, 1000, 1000],
    ['a bound that cannot be read', { max_tokens: { a: 1 } }, 1000, 1000],
    ['a bound as a text', { max_tokens: '5_0' }, null, 154],
    ['a field of another route', { max_completion_tokens: 1 }, 1000, 1000],
    [
      'a field of yet another route',
      { max_output_tokens: 1, sampling_params: { max_tokens: 1 } },
      1000,
      1000,
    ],
  ])('is prompt and answer by %s', (_, more, length, tokens) => {
    about(cost('/v1/completions', { ...PROMPT, ...more }, length), tokens);
  });

  it.each<[string, object, number]>([
    ['/v1/chat/completions', { ...CHAT, max_tokens: 50 }, 150],
    ['/v1/chat/completions', { ...CHAT, max_completion_tokens: 50 }, 150],
    ['/v1/chat/completions', { ...CHAT, max_completion_tokens: 1, max_tokens: 50 }, 150],
    ['/v1/chat/completions?x=1', { ...CHAT, max_output_tokens: 1 }, 1000],
    ['/v1/chat/completions', { ...CHAT, sampling_params: { max_tokens: 1 } }, 1000],
    ['/v1/chat/completions/batch', { messages: [CHAT.messages, CHAT.messages], max_tokens: 50 }, 300],
    ['/v1/chat/completions/batch', { messages: [CHAT.messages, CHAT.messages] }, 2000],
    ['/v1/messages', { ...CHAT, max_tokens: 50 }, 150],
    ['/v1/messages', { ...CHAT, max_completion_tokens: 1 }, 1000],
    ['/v1/messages', { ...CHAT, max_tokens: 50, n: 20 }, 150],
    ['/cohere/v2/chat', { ...CHAT, max_tokens: 50 }, 150],
    ['/v1/responses', { input: 'x'.repeat(386), max_output_tokens: 50 }, 150],
    ['/v1/responses', { input: 'x'.repeat(386), max_tokens: 1 }, 1000],
    ['/inference/v1/generate', { token_ids: [1], sampling_params: { max_tokens: 50 } }, 65],
    ['/inference/v1/generate', { token_ids: [1], sampling_params: { max_tokens: 50, n: 2 } }, 115],
    ['/inference/v1/generate', { token_ids: [1], max_tokens: 1 }, 1000],
    ['/invocations', { ...CHAT, max_completion_tokens: 50 }, 150],
    ['/invocations', { ...PROMPT, max_completion_tokens: 1 }, 1000],
    ['/v1/completions', { prompt: ['a', 'b', 'c'], max_tokens: 50 }, 160],
    ['/v1/completions', { prompt: [[1, 2], [3]], max_tokens: 50, n: 2 }, 215],
    ['/v1/completions', { prompt: [1, 2, 3], max_tokens: 50 }, 60],
    ['/v1/completions', { prompt: null, prompt_embeds: ['a', 'b'], max_tokens: 50 }, 115],
    ['/v1/completions', { prompt: ['a', 'b', 'c'] }, 3000],
    ['/v1/completions', { ...PROMPT, max_tokens: 50, n: 1, n_cmpl: 4 }, 300],
    // Padded, it seems to leave no room for answers.
    ['/v1/completions', { prompt: ' '.repeat(8000), max_tokens: 400, n: 10 }, 4600],
    ['/v1/completions', { prompt: ' '.repeat(8000), n: 10 }, 10_000],
    ['/v1/embeddings', { input: Array(5).fill('x'.repeat(3900)) }, 4900],
    ['/v1/embeddings', { input: Array(5).fill([...Array(2000).fill(1)]) }, 5000],
    ['/v2/embed', { texts: Array(5).fill('x'.repeat(3900)) }, 4900],
    ['/v1/embeddings', { input: 'x'.repeat(39_000) }, 1000],
    ['/v1/rerank', { query: 'x'.repeat(2000), documents: ['a', 'b', 'c', 'd'] }, 2000],
    ['/v1/rerank', { query: 'x'.repeat(2000), documents: [{ text: 'a' }, { text: 'b' }] }, 1000],
    ['/score', { text_1: 'x'.repeat(2000), text_2: ['a', 'b', 'c', 'd'] }, 2000],
    ['/score', { text_1: ['x'.repeat(400), 'x'.repeat(400)], text_2: ['a', 'b'] }, 210],
  ])('is by the fields that engines read at %s: %j', (path, body, tokens) => {
    about(cost(path, body, 1000), tokens);
  });

  it('is the prompt alone where nothing is generated', () => {
    expect(cost('/v1/embeddings', { input: 'x'.repeat(386), max_tokens: 50 })).toBeLessThan(110);
    expect(costOf(lengthsOf('/v1/audio/transcriptions', 0, {}), null).tokens).toBe(0);
  });

  it('is bounded, whatever is asked for', () => {
    expect(cost('/v1/completions', { ...PROMPT, n: 1e300, max_tokens: 1e300 })).toBeLessThanOrEqual(1e12);
  });

  it.each<[string, object]>([
    ['engine_request', { path: '/v1/completions', body: JSON.stringify({ ...PROMPT, max_tokens: 50 }) }],
    ['runpod', { input: { openai_route: '/v1/completions', openai_input: { ...PROMPT, max_tokens: 50 } } }],
    [
      'runpod',
      {
        input: {
          openai_route: '/v1/completions',
          openai_input: JSON.stringify({ ...PROMPT, max_tokens: 50 }),
        },
      },
    ],
    ['runpod', { input: { ...PROMPT, sampling_params: { max_tokens: 50 } } }],
    ['chat_completion', { ...CHAT, max_tokens: 50 }],
    // Beside the body: nobody reads it.
    [
      'engine_request',
      { path: '/v1/completions', max_tokens: 1, n: 9, body: JSON.stringify({ ...PROMPT, max_tokens: 50 }) },
    ],
    ['runpod', { input: { ...PROMPT, max_tokens: 1, sampling_params: { max_tokens: 50 } } }],
  ])('of a stored job is that of its request: %s %j', (type, payload) => {
    about(costOf(jobFacts(type, bytes(JSON.stringify(payload))).lengths, 1000).tokens, 150);
  });

  it('of a chat job without a bound is the default that the worker puts in', () => {
    about(costOf(jobFacts('chat_completion', bytes(JSON.stringify(CHAT))).lengths, 8000).tokens, 612);
  });
});
