import { describe, expect, it } from 'vitest';
import { type Cut, continuationOf, onOwnTerms } from '../../../src/moving/continuation.ts';
import { movePlan } from '../../../src/moving/plan.ts';
import type { MovePlan } from '../../../src/protocol/index.ts';

/** What other workers are asked for, whatever the worker of an answer says of it. */

const CHAT = '/v1/chat/completions';
const TEXT = '/v1/completions';
const own = { route: CHAT, model: 'tiny', terms: { max_tokens: 20, priority: null } };

function cutOf(plan: Partial<MovePlan>, more: Partial<Cut> = {}): Cut {
  return {
    plan: {
      ...{ path: CHAT, rest: { model: 'tiny', stream: true }, max_tokens: 20, min_tokens: 0 },
      ...{ max_tokens_field: 'max_tokens', includes_usage: false },
      ...plan,
    },
    ...{ identity: {}, ids: [1, 2, 3, 4], promptTokens: 2, stage: 'running' },
    ...more,
  };
}

/** The body that another worker is asked with; a text: it is not asked. */
function asked(cut: Cut, terms: Parameters<typeof onOwnTerms>[1] = own): Record<string, unknown> | string {
  const checked = onOwnTerms(cut, terms);
  return typeof checked === 'string' ? checked : JSON.parse(continuationOf(checked).body);
}

describe('a worker that lies about the plan of its answer', () => {
  it.each([
    [{ kv_transfer_params: { do_remote_prefill: true, remote_host: '10.0.0.1' } }],
    [{ sampling_params: { extra_args: { kv_transfer_params: {} } } }],
    [{ vllm_xargs: { a: 1 } }],
    [{ messages: [] }],
    [{ constructor: 1 }],
    [{ temperature: 1e300 }],
    [{ logit_bias: { 1: 'x' } }],
    [{ stop: ['x'.repeat(5000)] }],
    [{ stop_token_ids: Array.from({ length: 300_001 }, () => 1) }],
  ])('has nothing asked with members that are not known, or beyond bounds: %o', (rest) => {
    expect(asked(cutOf({ rest }))).toMatch(/is not known here/);
  });

  it('has its own request asked again, not another model, length or priority', () => {
    const rest = { model: 'another', priority: -1000, stream: false, temperature: 0.5 };
    expect(asked(cutOf({ rest, max_tokens: 1e300, min_tokens: 1e300 }))).toMatchObject({
      ...{ model: 'tiny', stream: true, temperature: 0.5, max_tokens: 18 },
    });
    expect(asked(cutOf({ rest, max_tokens: null }))).toMatchObject({ max_tokens: 18 });
    expect(asked(cutOf({ rest, max_tokens: -5.5, min_tokens: -1 }))).toMatchObject({ max_tokens: 18 });
    expect(asked(cutOf({ rest }))).not.toHaveProperty('priority');
    const urgent = { ...own, terms: { max_tokens: null, priority: 3 } };
    expect(asked(cutOf({ rest, max_tokens: 1e300 }), urgent)).toMatchObject({ priority: 3 });
    expect(asked(cutOf({ rest, max_tokens: 1e300 }), urgent)).not.toHaveProperty('max_tokens');
  });

  it('has no other route asked, and no field that another route does not read', () => {
    expect(asked(cutOf({ path: TEXT }))).toMatch(/another route/);
    expect(asked(cutOf({ path: '/v1/load_lora_adapter' }))).toMatch(/another route/);
    const text = { ...own, route: TEXT, terms: { max_tokens: null, priority: null } };
    expect(asked(cutOf({ path: TEXT, max_tokens_field: 'max_completion_tokens' }), text)).toMatchObject({
      max_tokens: 14,
    });
    expect(asked(cutOf({}, { promptTokens: -10 }))).toMatch(/length of its prompt/);
  });
});

it('an honest plan is asked for as it is', () => {
  const body = {
    ...{ model: 'tiny', stream: true, messages: [], max_completion_tokens: 20, min_tokens: 6 },
    ...{ temperature: 0.2, top_k: 5, stop: ['a'], logit_bias: { 7: 1 }, logprobs: true, top_logprobs: 2 },
    ...{ stream_options: { include_usage: true }, stop_token_ids: [7], user: 'u', seed: null },
  };
  const plan = movePlan(CHAT, JSON.stringify(body)) as MovePlan;
  const cut = cutOf(plan);
  expect(onOwnTerms(cut, own)).toEqual({ ...cut, plan });
});

it('a request with a field that nobody here knows stays where it is', () => {
  const body = { model: 'tiny', stream: true, messages: [], steering: { layer: 3 } };
  expect(movePlan(CHAT, JSON.stringify(body))).toBe('what its steering asks for is not known here');
});
