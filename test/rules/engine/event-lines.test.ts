import { describe, expect, it } from 'vitest';
import { EventLines, readableEvents } from '../../../src/engine/client/answer-body.ts';

const EVENTS = 'data: {"a":"größe"}\n\n: keep-alive\n\nevent: x\ndata: 1\n\ndata: [DONE]\n\n';

/** What comes out of two pieces, and when: with the first, the second, and at the end. */
function through(text: string, at: number): string[] {
  const lines = new EventLines();
  const bytes = Buffer.from(text);
  const pieces = [lines.push(bytes.subarray(0, at)), lines.push(bytes.subarray(at)), lines.rest()];
  return pieces.map((piece) => Buffer.from(piece).toString('latin1'));
}
const latin1 = (text: string) => Buffer.from(text).toString('latin1');

describe('the lines of an event stream', () => {
  it.each([
    ['\n', EVENTS],
    ['\r\n', EVENTS.replaceAll('\n', '\r\n')],
  ])('pass as they are with %j', (_end, text) => {
    for (let at = 0; at <= Buffer.byteLength(text); at++)
      expect(through(text, at).join('')).toBe(latin1(text));
  });

  it('that end with \\r alone end with \\n, also where a line feed follows', () => {
    const text = EVENTS.replaceAll('\n', '\r');
    for (let at = 0; at <= Buffer.byteLength(text); at++)
      expect(through(text, at).join('')).toBe(latin1(EVENTS));
    expect(through('data: 1\r\rdata: 2\r\n\r\n', 10).join('')).toBe('data: 1\n\ndata: 2\n\n');
  });

  it('that end with \\r are whole at once, but for a first line', () => {
    const text = EVENTS.replaceAll('\n', '\r');
    const second = Buffer.from(text).indexOf('event');
    expect(through(text, second)[0]).toBe(latin1(EVENTS.slice(0, EVENTS.indexOf('event'))));
    expect(through('data: 1\r', 8)).toEqual(['data: 1', '', '\n']);
  });

  it('have no byte order mark before them', () => {
    const text = `\ufeff${EVENTS}`;
    for (let at = 0; at <= Buffer.byteLength(text); at++)
      expect(through(text, at).join('')).toBe(latin1(EVENTS));
  });
});

describe('an answer that is called no stream', () => {
  const labelled = async (text: string, headers: Record<string, string>, path = '/v1/chat/completions') => {
    async function* pieces() {
      yield Buffer.from(text);
    }
    const answer = await readableEvents({ status: 200, headers, body: pieces() }, path);
    const got: Uint8Array[] = [];
    for await (const piece of answer.body) got.push(piece);
    return [answer.headers['content-type'], Buffer.concat(got).toString()];
  };

  it.each<Record<string, string>>([
    {},
    { 'content-type': 'text/plain' },
    { 'content-type': 'application/json' },
  ])('is called one where it is one: %j', async (headers) => {
    for (const text of [EVENTS, `\n${EVENTS}`, ': hi\n\n', 'event: error\n\n'])
      expect(await labelled(text, headers)).toEqual(['text/event-stream', text]);
  });

  it('stays what it is where it is JSON, and has no mark before it', async () => {
    expect(await labelled('{"data":1}', {})).toEqual([undefined, '{"data":1}']);
    expect(await labelled('\ufeff{"data":1}', {})).toEqual([undefined, '{"data":1}']);
    expect(await labelled('', {})).toEqual([undefined, '']);
  });

  it('stays what it is at a route that answers with anything', async () => {
    expect(await labelled('data: 1\n\n', {}, '/v1/audio/transcriptions')).toEqual([undefined, 'data: 1\n\n']);
  });
});
