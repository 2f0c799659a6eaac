import { describe, expect, it } from 'vitest';
import { type EngineAnswer, EngineGone } from '../../../src/engine/client/types.ts';
import { jsonOrText, type PartialAnswer } from '../../../src/protocol/index.ts';
import type { AssembledAnswer } from '../../../src/worker/answers/assembled-answer.ts';
import { assembledAnswer } from '../../../src/worker/run/assembled.ts';
import type { Attempt } from '../../../src/worker/run/attempt.ts';
import type { EngineCalls, Json } from './calls.ts';
import { MESSAGES } from './calls.ts';

const CHAT = '/v1/chat/completions';
const TEXT = '/v1/completions';
const TOKENS = '/inference/v1/generate';
/** The penalty makes a text that repeats nothing. */
const GREEDY = { temperature: 0, ignore_eos: true, max_tokens: 24, repetition_penalty: 1.3 };
const ASKED = { messages: MESSAGES, ...GREEDY };
const IDS = { token_ids: [40, 41, 42, 43], sampling_params: GREEDY };

const ROWS: readonly [name: string, path: string, body: Json][] = [
  ['a chat', CHAT, ASKED],
  ['a chat of one token', CHAT, { ...ASKED, max_tokens: 1 }],
  ['a chat with a later name for its limit', CHAT, { ...ASKED, max_tokens: null, max_completion_tokens: 9 }],
  ['a chat with logprobs', CHAT, { ...ASKED, logprobs: true, top_logprobs: 2 }],
  ['a chat with fewest tokens', CHAT, { ...ASKED, ignore_eos: false, min_tokens: 12 }],
  ['a chat with tools that are not used', CHAT, { ...ASKED, tools: [TOOL()], tool_choice: 'none' }],
  ['a chat that says it is not streamed', CHAT, { ...ASKED, stream: false }],
  ['a text', TEXT, { prompt: 'hello there', ...GREEDY }],
  ['a text from ids', TEXT, { prompt: [40, 41, 42, 43], ...GREEDY }],
  ['tokens', TOKENS, IDS],
  ['tokens with logprobs', TOKENS, { ...IDS, sampling_params: { ...GREEDY, logprobs: 2 }, model: 'tiny' }],
  [
    'tokens with fewest',
    TOKENS,
    { ...IDS, sampling_params: { ...GREEDY, ignore_eos: false, min_tokens: 12 } },
  ],
  ['a text with the tokens it has where none are asked for', TEXT, { prompt: 'hello', temperature: 0 }],
];

function TOOL() {
  return { type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } };
}

/** Answers that workers put together, held against those that the engine gives in one piece (docs/moving.md). */
export function assembled({ post }: EngineCalls): void {
  const whole = async (path: string, body: Json) => (await (await post(path, body)).json()) as Json;

  /** @param breaksAfter events; null: it does not break @returns null: it is asked for in one piece */
  const put = async (path: string, body: Json, partial: PartialAnswer | null, breaksAfter: number | null) => {
    let assembly: AssembledAnswer | null = null;
    const request = async (call: { path: string; body?: unknown }): Promise<EngineAnswer> => {
      const response = await post(call.path, String(call.body));
      const headers = Object.fromEntries(response.headers);
      const cut = call.path === path ? breaksAfter : null;
      return { status: response.status, headers, body: events(response, cut) };
    };
    const attempt = {
      jobId: 'job',
      engine: { request, isHealthy: async () => true },
      signal: new AbortController().signal,
      modelAliases: new Set<string>(),
      servedModel: 'tiny',
      usageAsking: { engine: 'untried' },
      idsAsking: { engine: 'untried' },
      partial,
      timestamp: () => new Date().toISOString(),
      assembles: (now: AssembledAnswer | null) => {
        assembly = now;
      },
      ...{ requested() {}, streamed() {}, used() {}, counting() {}, generated() {} },
    } as unknown as Attempt;
    const asked = {
      method: 'POST',
      path,
      content_type: 'application/json',
      body: JSON.stringify(body),
    } as const;
    const answer = await assembledAnswer(attempt, asked).catch((error: Error) => {
      if (!(error instanceof EngineGone)) throw error;
      return 'broken' as const;
    });
    return { answer, partial: (assembly as AssembledAnswer | null)?.partial() ?? null };
  };

  describe('an answer that is put together', () => {
    for (const [name, path, body] of ROWS) {
      it(`is the engine's own in one piece: ${name}`, async () => {
        const { answer } = await put(path, body, null, null);
        expect(unnamed(answer)).toEqual(unnamed(await whole(path, body)));
      });
    }

    it('ends before its stop string as the engine ends it', async () => {
      for (const [path, prompt] of [
        [CHAT, { messages: MESSAGES }],
        [TEXT, { prompt: 'hello there' }],
      ] as const) {
        const plain = textIn(await whole(path, { ...prompt, ...GREEDY }));
        const stop = plain.slice(12, 15);
        for (const shown of [{}, { include_stop_str_in_output: true }]) {
          const body = { ...prompt, ...GREEDY, ...shown, stop: [stop] };
          const wanted = await whole(path, body);
          expect(JSON.stringify(wanted)).toContain('"stop_reason":"');
          expect(unnamed((await put(path, body, null, null)).answer)).toEqual(unnamed(wanted));
        }
      }
    });

    it('goes on from wherever it broke off, and again, as if it never had', async () => {
      const rows: [string, Json][] = [
        [CHAT, ASKED],
        [CHAT, { ...ASKED, logprobs: true }],
        [TEXT, { prompt: 'hello there', ...GREEDY }],
        [TOKENS, { ...IDS, sampling_params: { ...GREEDY, logprobs: 1 } }],
      ];
      for (const [path, body] of rows) {
        const wanted = await whole(path, body);
        for (let at = 1; at < 24; at += 3) {
          const first = await put(path, body, null, at);
          expect(first.answer).toBe('broken');
          const second = await put(path, body, first.partial, 4);
          const kept = second.answer === 'broken' ? (second.partial ?? first.partial) : first.partial;
          const { answer } = await put(path, body, kept, null);
          expect(unnamed(answer, true)).toEqual(unnamed(wanted, true));
        }
      }
    });

    it('is not made where only the engine can', async () => {
      for (const more of [{ seed: 1 }, { n: 2 }, { presence_penalty: 1 }, { return_token_ids: true }]) {
        expect((await put(CHAT, { ...ASKED, ...more }, null, null)).answer).toBeNull();
      }
      const unknown = { ...ASKED, model: 'no such model' };
      expect((await put(CHAT, unknown, null, null)).answer).toBeNull();
    });
  });
}

/** Its events one by one, as many as there are before it breaks. */
async function* events(response: Response, breaksAfter: number | null): AsyncGenerator<Uint8Array> {
  const list = (await response.text()).split(/(?<=\n\n)/);
  for (const [at, event] of list.entries()) {
    if (at === breaksAfter) throw new EngineGone('broke off in the middle');
    yield Buffer.from(event);
  }
}

/**
 * Without what is each answer's own.
 * @param isMoved probabilities of another run are nearly the same, and spans begin where the last part does
 */
function unnamed(answer: unknown, isMoved = false): unknown {
  const text = JSON.stringify(answer, (key, value) => {
    if (isMoved && key === 'start') return 0;
    return isMoved && key === 'logprob' ? Math.round(value * 100) : value;
  });
  const { id, request_id = id, created, ...rest } = Object(jsonOrText(text)) as Json;
  expect([typeof request_id, typeof created]).toEqual(['string', 'number']);
  return rest;
}

function textIn(answer: Json): string {
  const [choice] = answer.choices as { text?: string; message?: { content: string } }[];
  return String(choice?.text ?? choice?.message?.content);
}
