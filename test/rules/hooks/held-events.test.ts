import { describe, expect, it } from 'vitest';
import { FilterRefusal } from '../../../src/asking/filters.ts';
import { seenAnswer } from '../../../src/features/hooks/answer.ts';
import type { AskedText, AskHook } from '../../../src/features/hooks/held-events.ts';
import { spread } from '../../../src/features/hooks/spread.ts';
import { eventData, splitEvents } from '../../../src/protocol/index.ts';
import { Random } from '../../support/random.ts';

/** A stream is held back so that a hook sees whole what events cut, and what passes is the same whatever the cuts. */

const WORD = 'geheimö😀';
const hide: AskHook = async ({ text }) => (text.includes(WORD) ? text.replaceAll(WORD, '***') : null);

const chunk = (content: string) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`;
const USAGE = 'data: {"choices":[],"usage":{"completion_tokens":3}}\n\n';
const DONE = 'data: [DONE]\n\n';

function streamed(bytes: Uint8Array, sizes: () => number): Response {
  let at = 0;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (at >= bytes.length) return controller.close();
      const end = at + sizes();
      controller.enqueue(bytes.slice(at, end));
      at = end;
    },
  });
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
}

interface Passed {
  hold?: number;
  sizes?: () => number;
  path?: string;
}

async function pass(
  events: string[],
  ask: AskHook,
  { hold = 12, sizes = () => 17, path = '/v1/chat/completions' }: Passed = {},
) {
  const response = streamed(new TextEncoder().encode(events.join('')), sizes);
  return await (await seenAnswer(response, { ask, hold, path, requestId: 'r' })).text();
}

function said(stream: string): string {
  return splitEvents(stream)
    .map((event) => eventData(event))
    .filter((data) => data.startsWith('{'))
    .map((data) => JSON.parse(data).choices[0]?.delta.content ?? '')
    .join('');
}

describe('a stream behind a hook', () => {
  it('has the same text whatever its events and bytes cut', async () => {
    for (let seed = 1; seed <= 150; seed++) {
      const random = new Random(seed, 'cuts');
      const below = (most: number) => random.below(most);
      let text = '';
      while (text.length < 120) text += below(3) === 0 ? WORD : 'abcdefgehei ö😀'.slice(0, below(15));
      const cuts: string[] = [];
      for (let at = 0, end = 0; at < text.length; at = end) {
        end = at + 1 + below(9);
        cuts.push(text.slice(at, end));
      }
      const stream = await pass([...cuts.map(chunk), USAGE, DONE], hide, { sizes: () => 1 + below(60) });
      expect(said(stream)).toBe(text.replaceAll(WORD, '***'));
      expect(splitEvents(stream)).toHaveLength(cuts.length + 2);
      expect(stream.endsWith(USAGE + DONE)).toBe(true);
    }
  });

  it('keeps the bytes of events that the hook allows, and their order', async () => {
    const events = [
      ': hello\n\n',
      'event: x\ndata: {"a": 1.0}\n\n',
      ...['Hi ', 'you'].map(chunk),
      USAGE,
      DONE,
    ];
    expect(await pass(events, async () => null)).toBe(events.join(''));
  });

  it('passes nothing that the hook has not seen with what follows', async () => {
    const seen: AskedText[] = [];
    const ask: AskHook = async (asked) => {
      seen.push(asked);
      if (asked.text.includes('no')) throw new FilterRefusal(400, 'refused_by_hook', 'Not this.');
      return null;
    };
    const stream = await pass([...['aaaaaa', 'bbbbbb', 'cccccc', 'dddddd', 'n', 'o'].map(chunk), DONE], ask, {
      hold: 6,
    });
    expect(said(stream.replace(/data: \{"error".*/s, ''))).toBe('aaaaaabbbbbbcccccc');
    expect(stream).toContain('"code":"refused_by_hook","status":400');
    expect(seen.map(({ text, offset, isLast }) => [text, offset, isLast])).toEqual([
      ['aaaaaa', 0, false],
      ['aaaaaabbbbbb', 0, false],
      ['bbbbbbcccccc', 6, false],
      ['ccccccdddddd', 12, false],
      ['ddddddno', 18, true],
    ]);
  });

  it('judges each choice, its reasoning and its tool calls apart', async () => {
    const seen: string[] = [];
    const ask: AskHook = async ({ part, text, isLast }) => {
      seen.push(`${part}:${text}:${isLast}`);
      return null;
    };
    const delta = (index: number, delta: object, finish_reason: string | null = null) =>
      `data: ${JSON.stringify({ choices: [{ index, delta, finish_reason }] })}\n\n`;
    await pass(
      [
        delta(0, { reasoning: 'why' }),
        delta(1, { content: 'other' }),
        delta(0, { content: 'text' }),
        delta(0, { tool_calls: [{ index: 0, function: { arguments: '{"a"' } }] }),
        delta(0, { tool_calls: [{ index: 0, function: { arguments: ':1}' } }] }, 'tool_calls'),
        delta(1, {}, 'stop'),
      ],
      ask,
    );
    expect(seen).toEqual([
      'reasoning:why:true',
      'content:text:true',
      'arguments:{"a":1}:true',
      'content:other:true',
    ]);
  });

  it('has the events that repeat a text say what passed', async () => {
    const at = { output_index: 0, content_index: 0 };
    const events = [
      { type: 'response.output_text.delta', ...at, delta: 'It is geh' },
      { type: 'response.output_text.delta', ...at, delta: 'eimö😀.' },
      { type: 'response.output_text.done', ...at, text: `It is ${WORD}.` },
      {
        type: 'response.completed',
        response: {
          output: [{ type: 'message', content: [{ type: 'output_text', text: `It is ${WORD}.` }] }],
        },
      },
    ].map((data) => `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`);
    const stream = await pass(events, hide, { path: '/v1/responses' });
    expect(stream).not.toContain('geh');
    expect(stream.split('It is ***.')).toHaveLength(3);
  });

  it('leaves out the tokens of a text that was replaced', async () => {
    const event = `data: ${JSON.stringify({ choices: [{ index: 0, text: WORD, logprobs: { tokens: [WORD] }, token_ids: [1] }] })}\n\n`;
    const stream = await pass([event], hide, { path: '/v1/completions' });
    expect(JSON.parse(eventData(stream)).choices[0]).toEqual({
      index: 0,
      text: '***',
      logprobs: null,
      token_ids: null,
    });
  });
});

describe('tokens beside a text', () => {
  const told = (content: string, token: string | null) =>
    `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, logprobs: token && { content: [{ token }] } }] })}\n\n`;

  it.each([
    ['are told by an event before its text', [told('', 'geh'), told('', 'eim'), told(WORD, 'ö😀')]],
    [
      'are ahead of the text, as with stop strings',
      [told('Say ', 'Say '), told('it ', 'geh'), told(': ', 'eimö'), told(WORD, '😀')],
    ],
  ])('go with it where they %s', async (_, events) => {
    const stream = await pass([...events, told('x'.repeat(40), 'xx'), DONE], hide);
    expect(said(stream)).toContain('***');
    expect(stream).not.toMatch(/geh|eim/);
    expect(stream).toContain('xx"');
  });

  it('keep their bytes where the text stays', async () => {
    const events = [told('', 'a'), told('ab', 'b'), told('', 'c'), told('', 'd'), DONE];
    expect(await pass(events, hide)).toBe(events.join(''));
  });

  it('pass as they come where no text does', async () => {
    const ids = Array.from(
      { length: 40 },
      (_, id) => `data: {"choices":[{"index":0,"token_ids":[${id}]}]}\n\n`,
    );
    const endless = streamed(new TextEncoder().encode(ids.join('')), () => 45);
    const never = new ReadableStream<Uint8Array>({ pull: () => new Promise(() => {}) });
    const reader = endless.body!.getReader();
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        const { value, done } = await reader.read();
        if (done) await never.getReader().read();
        else controller.enqueue(value);
      },
    });
    const response = new Response(body, { headers: { 'content-type': 'text/event-stream' } });
    const seen = await seenAnswer(response, { ask: hide, hold: 12, path: null, requestId: 'r' });
    const first = await seen.body!.getReader().read();
    expect(new TextDecoder().decode(first.value)).toBe(ids[0]);
  });
});

describe('a text in place of pieces', () => {
  it.each([
    [['ab', 'cd'], 'abcd', ['ab', 'cd']],
    [['ab', 'cd', 'ef'], 'aXef', ['aX', '', 'ef']],
    [['ab', 'cd'], '', ['', '']],
    [['ab', 'cd'], 'abcdX', ['ab', 'cdX']],
    [['a😀', 'b'], 'a😁b', ['a😁', 'b']],
  ])('%j becomes %s', (pieces, text, wanted) => {
    expect(spread(pieces, text)).toEqual(wanted);
  });
});
