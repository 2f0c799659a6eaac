import { describe, expect, it } from 'vitest';
import { prefixOf } from '../../../src/gateway/prompt-prefix.ts';
import { BLOCK_ENDS } from '../../../src/queue/rpc.ts';
import { bodyFacts } from '../../../src/request-facts/body-facts.ts';
import { jobFacts } from '../../../src/request-facts/job-facts.ts';

const OWNER = { tenant: 'acme', model: 'tiny' };
const bytes = (text: string) => new TextEncoder().encode(text);
const of = (body: object, owner = OWNER, blanks?: number) =>
  prefixOf(bodyFacts(bytes(JSON.stringify(body, null, blanks)), null).fields, owner);
const text = (length: number, seed = 'a "b" \\ {} [] é\n ') => seed.repeat(length).slice(0, length);

/** How many blocks two prompts have in common. */
function common(one: ReturnType<typeof of>, other: ReturnType<typeof of>): number {
  const differs = one!.hashes.findIndex((hash, at) => hash !== other?.hashes[at]);
  return differs < 0 ? one!.hashes.length : differs;
}

describe('how a prompt begins', () => {
  const system = { role: 'system', content: text(2000) };
  const turns = [system, { role: 'user', content: text(1500, 'question ') }];
  const chat = (messages: object[]) => ({ model: 'tiny', messages });

  it('is the same for each turn of a conversation, as far as the turn before went', () => {
    const first = of(chat(turns));
    const next = of(chat([...turns, { role: 'assistant', content: text(900, 'answer ') }]));
    expect(first!.hashes.length).toBeGreaterThanOrEqual(6);
    expect(common(first, next)).toBe(first!.hashes.length);
    expect(next!.hashes.length).toBeGreaterThan(first!.hashes.length);
  });

  it('differs from where prompts differ', () => {
    const other = of(chat([system, { role: 'user', content: text(1500, 'something else ') }]));
    const shared = common(of(chat(turns)), other);
    expect(BLOCK_ENDS[shared - 1]).toBeGreaterThan(1500);
    expect(BLOCK_ENDS[shared]).toBeGreaterThan(2000);
    expect(shared).toBeLessThan(other!.hashes.length);
  });

  it('is the same however the JSON is laid out', () => {
    expect(of(chat(turns), OWNER, 2)).toEqual(of(chat(turns)));
    expect(
      common(
        of(chat([{ role: 'user', content: text(2000, 'a b') }])),
        of(chat([{ role: 'user', content: text(2000, 'ab') }])),
      ),
    ).toBe(0);
  });

  it('is another for another tenant, another model and other tools', () => {
    const own = of(chat(turns));
    expect(common(own, of(chat(turns), { ...OWNER, tenant: 'other' }))).toBe(0);
    expect(common(own, of(chat(turns), { ...OWNER, model: 'large' }))).toBe(0);
    expect(common(own, of({ ...chat(turns), tools: [{ type: 'function' }] }))).toBe(0);
  });

  it('is found in texts, in ids of tokens, and in the other forms of prompts', () => {
    const long = text(3000);
    const ids = Array.from({ length: 1000 }, (_, at) => at);
    for (const body of [
      { prompt: long },
      { prompt: ids },
      { token_ids: ids },
      { input: long, instructions: 'be short' },
      { system: long, messages: [] },
    ]) {
      expect(of(body)!.hashes.length, Object.keys(body).join()).toBeGreaterThanOrEqual(5);
    }
    expect(common(of({ prompt: ids }), of({ prompt: [...ids, 7, 8] }))).toBeGreaterThanOrEqual(6);
  });

  it('is nothing for a short prompt, and bounded for a long one', () => {
    expect(of(chat([{ role: 'user', content: 'hi' }]))).toBeUndefined();
    const huge = of({ prompt: text(2_000_000) });
    expect(huge!.hashes).toHaveLength(BLOCK_ENDS.length);
    expect(huge!.bytes).toBe(BLOCK_ENDS.at(-1));
    expect(JSON.stringify(huge).length).toBeLessThan(600);
  });

  it('names the conversation by its whole name', () => {
    const session = (named: object, owner = OWNER) => of({ messages: [], ...named }, owner)?.session;
    const names = [
      session({ prompt_cache_key: 'session-1' }),
      session({ prompt_cache_key: 'session-12' }),
      session({ user: 'session-1' }),
      session({ conversation: { id: 'session-1' } }),
      session({ prompt_cache_key: 'session-1' }, { ...OWNER, tenant: 'other' }),
    ];
    expect(new Set(names).size).toBe(names.length);
    expect(session({ prompt_cache_key: 'session-1', user: 'x' })).toBe(names[0]);
    for (const named of [{ user: '' }, { user: null }, { user: 'x'.repeat(2000) }, {}])
      expect(session(named)).toBeUndefined();
  });
});

describe('of a stored job', () => {
  const body = { model: 'tiny', messages: [{ role: 'user', content: text(1500) }], user: 'u' };
  const own = of(body);

  it('is that of the request in its payload, whatever the form', () => {
    const request = JSON.stringify(body);
    const { messages, ...sampling_params } = body;
    const payloads: [string, object][] = [
      ['chat_completion', body],
      ['engine_request', { method: 'POST', path: '/v1/chat/completions', body: request }],
      ['runpod', { input: { openai_route: '/v1/chat/completions', openai_input: body } }],
      ['runpod', { input: { openai_input: request } }],
      ['runpod', { input: { route: '/v1/chat/completions', body } }],
      ['runpod', { input: { messages, sampling_params } }],
    ];
    for (const [type, payload] of payloads) {
      const facts = jobFacts(type, bytes(JSON.stringify(payload)));
      expect(prefixOf(facts.body.fields, OWNER)).toEqual(own);
    }
  });
});
