import { describe, expect, it } from 'vitest';
import {
  type Cut,
  closingEvents,
  continuationRequest,
  isGenerated,
} from '../../../src/moving/continuation.ts';
import { movePlan } from '../../../src/moving/plan.ts';
import { Stitcher } from '../../../src/moving/stitch.ts';
import { type MovePlan, type Stage, unpack } from '../../../src/protocol/index.ts';
import { tokenShapes } from '../../../src/simulator/apis.ts';
import { chatShapes, completionShapes, DONE } from '../../../src/simulator/shapes.ts';
import { tokenSource } from '../../../src/simulator/text.ts';
import { Events } from '../../../src/worker/answers/events.ts';
import { idsAsked, TokenIds } from '../../../src/worker/answers/token-ids.ts';

const CHAT = '/v1/chat/completions';
const TEXT = '/v1/completions';
const GENERATE = '/inference/v1/generate';
const TOKENS = 20;
const PROMPT = [11, 12, 13];
const ids = { model: 'tiny', token_ids: PROMPT, stream: true };

const plain = { model: 'tiny', messages: [{ role: 'user', content: 'Hello' }], stream: true };
const planOf = (path: string, body: object) => movePlan(path, JSON.stringify(body));

describe('what may be moved', () => {
  it('is a streamed chat or text completion whose sampling goes on from tokens alone', () => {
    const sampling = {
      temperature: 0.7,
      repetition_penalty: 1.2,
      top_k: 5,
      logit_bias: { 7: 1 },
      logprobs: true,
    };
    expect(planOf(CHAT, { ...plain, ...sampling, max_tokens: 9, min_tokens: 4 })).toEqual({
      path: CHAT,
      rest: { model: 'tiny', stream: true, ...sampling },
      max_tokens: 9,
      max_tokens_field: 'max_tokens',
      min_tokens: 4,
      includes_usage: false,
    });
    expect(planOf(TEXT, { model: 'tiny', prompt: 'Hello', stream: true })).toMatchObject({ max_tokens: 16 });
    expect(planOf(TEXT, { model: 'tiny', prompt: [1, 2], stream: true })).toMatchObject({ path: TEXT });
    const sampling_params = { temperature: 0, logprobs: 1, seed: null, n: 1, max_tokens: 7, min_tokens: 2 };
    expect(planOf(GENERATE, { ...ids, sampling_params, return_token_ids: false })).toMatchObject({
      path: GENERATE,
      rest: { model: 'tiny', stream: true },
      max_tokens: 7,
      min_tokens: 2,
    });
    expect(planOf(GENERATE, { ...ids, sampling_params: {} })).toMatchObject({ max_tokens: null });
  });

  it.each([
    [CHAT, { stream: false }, /not streamed/],
    [CHAT, { seed: 0 }, /seed/],
    [CHAT, { presence_penalty: 0.1 }, /presence_penalty/],
    [CHAT, { frequency_penalty: -1 }, /frequency_penalty/],
    [CHAT, { n: 2 }, /several choices/],
    [CHAT, { stop: [7] }, /stop strings/],
    [CHAT, { response_format: { type: 'json_object' } }, /grammar/],
    [CHAT, { structured_outputs: { choice: ['a'] } }, /grammar/],
    [CHAT, { tools: [{ type: 'function' }] }, /tool/],
    [CHAT, { messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }, /not one text/],
    [CHAT, { return_token_ids: false }, /no token ids/],
    [CHAT, { include_reasoning: false }, /hidden/],
    [TEXT, { prompt: ['a', 'b'] }, /not one text/],
    [TEXT, { prompt: 'a', echo: true }, /repeats its prompt/],
    [TEXT, { prompt: 'a', logprobs: 1 }, /logprobs/],
    [GENERATE, { ...ids, sampling_params: { seed: 1 } }, /seed/],
    [GENERATE, { ...ids, sampling_params: { frequency_penalty: 1 } }, /frequency_penalty/],
    [GENERATE, { ...ids, sampling_params: { stop: ['a'] } }, /stop string/],
    [GENERATE, { ...ids, sampling_params: { structured_outputs: { json_object: true } } }, /grammar/],
    [GENERATE, { ...ids, sampling_params: {}, output_mode: 'text' }, /behind its tokens/],
    [GENERATE, { ...ids, sampling_params: {}, features: { mm_hashes: {} } }, /not one text/],
    ['/v1/messages', {}, /its route/],
  ])('is not: %s %j', (path, more, why) => {
    expect(planOf(path, { ...plain, ...more })).toMatch(why);
  });

  it('is so where such a field says nothing', () => {
    const nothing = {
      seed: null,
      presence_penalty: 0,
      n: 1,
      stop: [],
      tools: [],
      response_format: { type: 'text' },
    };
    expect(planOf(CHAT, { ...plain, ...nothing })).toBeTypeOf('object');
    const unused = { tools: [{ type: 'function' }], tool_choice: 'none' };
    expect(planOf(CHAT, { ...plain, ...unused })).toMatchObject({ rest: { stream: true } });
  });
});

/** The events of an answer, each with the ids of one token, as vLLM writes them. */
function eventsOf(
  path: string,
  prompt: number[],
  tokens: number,
  includesUsage: boolean,
  name: string,
): string[] {
  const head = { id: `id-${name}`, model: `model-${name}`, created: name.length };
  const shapes = { [CHAT]: chatShapes, [TEXT]: completionShapes, [GENERATE]: tokenShapes(false) }[path]!;
  const source = tokenSource(prompt);
  const write = shapes.text(head, 0);
  const events = Array.from({ length: tokens }, (_, at) => {
    const { id, text } = source.next();
    const finish = at === tokens - 1 ? { reason: 'length' as const, stopReason: null } : null;
    return write(text, finish, finish !== null && !includesUsage, null, [id], at === 0 ? prompt : null);
  });
  const opening = shapes.opening(head, 0, null, prompt);
  const usage = includesUsage ? [shapes.usage(head, { prompt: prompt.length, completion: tokens })] : [];
  return [...(opening === null ? [] : [opening]), ...events, ...usage, DONE];
}

/** An answer that broke off behind so many of its events, and what its caller has of it. */
function cutBehind(events: string[], plan: MovePlan): { cut: Cut; given: string } {
  const reader = readerOf(plan.path);
  let given = '';
  const ids: number[] = [];
  let stage: Stage = 'running';
  for (const event of events) {
    const told = pushed(reader, event);
    given += told.events;
    ids.push(...told.ids!);
    stage = told.stage;
  }
  const { identity, promptIds } = reader.beginning!;
  const cut = { plan, identity, ids: [...promptIds, ...ids], promptTokens: promptIds.length, stage };
  return { cut, given };
}

/** Gives events to a reader as a worker does. */
function pushed(reader: TokenIds, text: string) {
  const told = reader.read(Events.ofBytes(Buffer.from(text)));
  return { ...told, events: Buffer.from(told.events?.bytes ?? []).toString() };
}

/** As of a worker: whoever asks for tokens brings his prompt's, and is shown all. */
function readerOf(path: string): TokenIds {
  return path === GENERATE ? new TokenIds(true, PROMPT) : new TokenIds(false);
}

function bodyOf(cut: Cut): Record<string, unknown> {
  return JSON.parse(Buffer.from(unpack(continuationRequest(cut, 'r'))!.body).toString());
}

/** The rest as another engine generates it, in pieces of any size. */
function restOf(cut: Cut, path: string, includesUsage: boolean, pieceBytes: number): string {
  const body = bodyOf(cut);
  const { max_tokens } = { ...body, ...Object(body.sampling_params) };
  const events = eventsOf(path, idsAsked(body)!, Number(max_tokens), includesUsage, 'other').join('');
  const bytes = Buffer.from(pushed(readerOf(path), events).events);
  const stitcher = new Stitcher(cut);
  let rest = '';
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    rest += Buffer.from(stitcher.push(bytes.subarray(at, at + pieceBytes))).toString();
  }
  return rest;
}

/** Without what is of an engine's own build; of spans of tokens, which one engine cannot tell of another, where they end. */
function sameOfAll(event: { choices?: { weight_versions?: { end: number }[] | null }[] }): object {
  const choices = event.choices?.map(({ weight_versions: spans, ...choice }) => ({
    ...choice,
    end: spans?.map(({ end }) => end),
  }));
  return { ...event, system_fingerprint: undefined, choices };
}

const parsed = (stream: string) =>
  stream
    .split('\n\n')
    .slice(0, -1)
    .map((event) => (event === 'data: [DONE]' ? event : JSON.parse(event.slice(6))));

describe.each([
  [CHAT, true],
  [CHAT, false],
  [TEXT, true],
  [TEXT, false],
  [GENERATE, true],
  [GENERATE, false],
] as const)('an answer of %s, its usage asked for: %s', (path, includesUsage) => {
  const most = { max_tokens: TOKENS };
  const request = {
    [CHAT]: { ...plain, ...most },
    [TEXT]: { model: 'tiny', prompt: 'Hello', stream: true, ...most },
    [GENERATE]: { ...ids, sampling_params: most },
  }[path];
  const options = includesUsage ? { stream_options: { include_usage: true } } : {};
  const plan = planOf(path, { ...request, ...options }) as MovePlan;
  const events = eventsOf(path, PROMPT, TOKENS, includesUsage, 'first');
  const whole = cutBehind(events, plan).given;

  it('is the same stream wherever it is cut', () => {
    for (let behind = 1; behind <= events.length; behind++) {
      const { cut, given } = cutBehind(events.slice(0, behind), plan);
      for (const pieceBytes of [1, 37, 100_000]) {
        const rest = isGenerated(cut)
          ? Buffer.from(closingEvents(cut)).toString()
          : restOf(cut, path, includesUsage, pieceBytes);
        expect(parsed(given + rest).map(sameOfAll)).toEqual(parsed(whole).map(sameOfAll));
      }
    }
  });

  it('shows its caller no ids that were not asked for', () => {
    expect(/token_ids":\s*\[/.test(whole)).toBe(path === GENERATE);
    expect(events.join('')).toMatch(/token_ids":\s*\[/);
  });
});

describe('a continuation', () => {
  const plan = planOf(CHAT, { ...plain, max_tokens: TOKENS, min_tokens: 5 }) as MovePlan;

  it('asks for as many tokens as are left', () => {
    const { cut } = cutBehind(eventsOf(CHAT, PROMPT, TOKENS, false, 'first').slice(0, 4), plan);
    expect(bodyOf(cut)).toMatchObject({ max_tokens: TOKENS - 3, min_tokens: 2, stream: true, model: 'tiny' });
    const later = cutBehind(eventsOf(CHAT, PROMPT, TOKENS, false, 'first').slice(0, 8), plan);
    expect(bodyOf(later.cut)).not.toHaveProperty('min_tokens');
  });

  it('of a continuation counts from the prompt of its caller', () => {
    const { cut } = cutBehind(eventsOf(CHAT, PROMPT, TOKENS, false, 'first').slice(0, 4), {
      ...plan,
      first_prompt: 1,
    });
    const { head } = unpack(continuationRequest(cut, 'r'))!;
    expect(JSON.parse(head)).toMatchObject({
      continues: { prompt_tokens: 1 },
      headers: { 'x-request-id': 'r' },
    });
  });

  it('passes on an error of its engine, and comments, as they are', () => {
    const { cut } = cutBehind(eventsOf(CHAT, PROMPT, TOKENS, false, 'first').slice(0, 4), plan);
    const said = ': keep-alive\n\ndata: {"error":{"message":"no"}}\n\ndata: [DONE]\n\n';
    expect(Buffer.from(new Stitcher(cut).push(Buffer.from(said))).toString()).toBe(said);
  });

  it('has its last event, also where that lacks its empty line', () => {
    const { cut } = cutBehind(eventsOf(CHAT, PROMPT, TOKENS, false, 'first').slice(0, 4), plan);
    const stitcher = new Stitcher(cut);
    const pieces = [stitcher.push(Buffer.from(': a\n\ndata: [DONE]\n')), stitcher.end(), stitcher.end()];
    expect(pieces.map((piece) => Buffer.from(piece).toString())).toEqual([': a\n\n', 'data: [DONE]\n', '']);
  });

  it('is put together whatever its events look like', () => {
    const { cut } = cutBehind(eventsOf(CHAT, PROMPT, TOKENS, false, 'first').slice(0, 4), plan);
    const said = `id: 1\r\ndata:${JSON.stringify({ id: 'other', choices: [{ index: 0, delta: { content: 'x' } }] })}\r\n\r\ndata:[DONE]\r\n\r\n`;
    for (let at = 0; at <= said.length; at++) {
      const stitcher = new Stitcher(cut);
      const pieces = [said.slice(0, at), said.slice(at)].map((piece) => stitcher.push(Buffer.from(piece)));
      const text = Buffer.concat(pieces).toString();
      expect(text).toContain(`"id":"${String((cut.identity as { id: string }).id)}"`);
      expect(text.replace(/:\{.*\}/, '')).toBe('id: 1\r\ndata\r\n\r\ndata:[DONE]\r\n\r\n');
    }
  });
});

describe('an answer of which a parser makes something else than text', () => {
  const OPENING = chatShapes.opening({ id: 'a', model: 'm', created: 1 }, 0, null, PROMPT)!;
  const event = (delta: object) => {
    const logprobs = { content: [{ token: 'a' }] };
    return `data: ${JSON.stringify({ choices: [{ index: 0, delta, logprobs, token_ids: [5] }] })}\n\n`;
  };
  /** Behind each of these pieces: whether all ids are known so far, and whether it may be cut off there. */
  const read = (...pieces: string[]) => {
    const reader = new TokenIds(false);
    return [OPENING, ...pieces].map((piece) => {
      const { ids, mayBeCut } = pushed(reader, piece);
      return ids === null ? 'lost' : mayBeCut;
    });
  };
  const reasoning = event({ reasoning: 'Let me see' });
  const blank = event({ content: '\n ' });
  const content = event({ content: 'Two' });

  it('has no events of ids alone for a caller that did not ask for them', () => {
    const of = (ids: number[], finish_reason: string | null, delta: object = {}) =>
      `data: ${JSON.stringify({ choices: [{ index: 0, delta, logprobs: null, finish_reason, token_ids: ids }] })}\n\n`;
    const [alone, last] = [of([7], null), of([8], 'stop')];
    const told = (isAsked: boolean) => {
      const reader = new TokenIds(isAsked);
      pushed(reader, OPENING);
      const read = [alone + of([6], null, { content: 'a' }) + alone, alone, last].map((piece) =>
        pushed(reader, piece),
      );
      return read.map(({ events, ids }) => [events, ids]);
    };
    const without = (event: string) => event.replace(/\[\d\]/, 'null');
    expect(told(false)).toEqual([
      [without(of([6], null, { content: 'a' })), [7, 6, 7]],
      ['', [7]],
      [without(last), [8]],
    ]);
    expect(told(true).map(([events]) => events)).toEqual([
      alone + of([6], null, { content: 'a' }) + alone,
      alone,
      last,
    ]);
  });

  it('may be cut off once reasoning is behind it, and all its ids are told', () => {
    expect(read(event({}), reasoning, blank, content, blank)).toEqual([true, true, false, false, true, true]);
    expect(read(blank, reasoning, event({ reasoning: 'Aha', content: 'a' }))).toEqual([
      true,
      true,
      false,
      true,
    ]);
    expect(read(reasoning + content)).toEqual([true, true]);
    expect(read(event({ reasoning_content: 'Hm' }), event({ content: '\\n' }))).toEqual([true, false, true]);
    expect(read(event({ content: '"reasoning":"x"' }), content)).toEqual([true, true, true]);
  });

  it('is not followed any further where the parser begins again, or finds a call of a tool', () => {
    expect(read(content, reasoning, content)).toEqual([true, true, 'lost', 'lost']);
    expect(read(content + reasoning)).toEqual([true, 'lost']);
    expect(read(event({ tool_calls: [{ index: 0 }] }), content)).toEqual([true, 'lost', 'lost']);
  });
});

it('how much of a moved answer was reasoning is not told', () => {
  const plan = planOf(CHAT, { ...plain, stream_options: { include_usage: true } }) as MovePlan;
  const { cut } = cutBehind(eventsOf(CHAT, PROMPT, TOKENS, true, 'first').slice(0, 4), plan);
  const usage = {
    prompt_tokens: 6,
    completion_tokens: 9,
    completion_tokens_details: { reasoning_tokens: 0 },
  };
  const told = new Stitcher(cut).push(Buffer.from(`data: ${JSON.stringify({ choices: [], usage })}\n\n`));
  expect(parsed(Buffer.from(told).toString())).toMatchObject([
    { usage: { prompt_tokens: 3, completion_tokens: 12, completion_tokens_details: null } },
  ]);
});
