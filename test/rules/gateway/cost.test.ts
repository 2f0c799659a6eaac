import { describe, expect, it } from 'vitest';
import { costOf, costOfJob } from '../../../src/gateway/cost.ts';
import { scanBody } from '../../../src/gateway/json-scan.ts';

const cost = (path: string, body: object, length: number | null = null) => {
  const bytes = new TextEncoder().encode(JSON.stringify(body));
  return costOf(path, bytes.byteLength, scanBody(bytes).cost, length);
};
/** A body of about 400 bytes, 100 tokens. */
const PROMPT = { prompt: 'x'.repeat(386) };

describe('what a request may cost', () => {
  it.each([
    ['its caller’s bound', { max_tokens: 50 }, null, 154],
    ['the newer name of it', { max_completion_tokens: 50, max_tokens: 9 }, null, 161],
    ['several answers', { max_tokens: 50, n: 3 }, null, 256],
    ['what is left of the model', {}, 1000, 1000],
    ['a bound beyond the model', { max_tokens: 5000 }, 1000, 1000],
    ['nothing that is known', {}, null, 4197],
  ])('is prompt and answer by %s', (_, more, length, tokens) => {
    const told = cost('/v1/completions', { ...PROMPT, ...more }, length);
    expect(Math.abs(told - tokens)).toBeLessThan(5);
  });

  it('is the prompt alone where nothing is generated', () => {
    expect(cost('/v1/embeddings', { input: 'x'.repeat(386), max_tokens: 50 })).toBeLessThan(110);
    expect(costOf('/v1/audio/transcriptions', 0, {}, null)).toBe(0);
  });

  it('is that of the request in a stored job', () => {
    const body = JSON.stringify({ ...PROMPT, max_tokens: 50 });
    const requests = [
      { method: 'POST', path: '/v1/completions', body },
      { input: { openai_route: '/v1/completions', openai_input: { ...PROMPT, max_tokens: 50 } } },
      { input: { ...PROMPT, sampling_params: { max_tokens: 50 } } },
      { ...PROMPT, max_tokens: 50 },
    ];
    for (const payload of requests) {
      expect(Math.abs(costOfJob(JSON.stringify(payload), null) - 154)).toBeLessThan(15);
    }
    const embeds = JSON.stringify({ method: 'POST', path: '/v1/embeddings', body });
    expect(costOfJob(embeds, null)).toBeLessThan(110);
    expect(costOfJob('nonsense', null)).toBe(0);
  });
});
