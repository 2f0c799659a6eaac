import { describe, expect, it } from 'vitest';
import { Stitcher } from '../../../src/moving/stitch.ts';
import {
  countEvents,
  EventEnds,
  EventTexts,
  eventData,
  type MovePlan,
  splitEvents,
} from '../../../src/protocol/index.ts';
import { EventReader } from '../../../src/worker/answers/events.ts';
import { CompletionWatch } from '../../../src/worker/run/completion-watch.ts';

/** Who reads the events of a stream agrees on where they end, however the stream is written and cut. */
const DATA = [
  '{"choices":[{"text":"größer"}]}',
  'two\nlines',
  '{"choices":[{"finish_reason":"stop"}]}',
  '[DONE]',
];
const LINE_ENDS = { LF: '\n', CRLF: '\r\n', CR: '\r' };

/** A stream with comments, an event of two lines, and more empty lines than it needs. */
function written(end: string): string {
  const [first, two, finish, done] = DATA.map((data) => `data: ${data.replace('\n', '\ndata: ')}\n\n`);
  return `: a comment\n\n${first}\n${two}id: 3\n${finish}: another\n${done}`.replaceAll('\n', end);
}

/** The data of events, without comments and without empty lines that end nothing. */
const dataOf = (events: readonly string[]) => events.map(eventData).filter((data) => data !== '');

/** The two parts of some bytes, for each place where they can be cut, and each byte alone. */
function cuts(bytes: Uint8Array): Uint8Array[][] {
  const each = Array.from(bytes, (_, at) => bytes.subarray(at, at + 1));
  return [each, ...each.map((_, at) => [bytes.subarray(0, at), bytes.subarray(at)])];
}

const READERS: Record<string, (pieces: readonly Uint8Array[]) => string[]> = {
  splitEvents: (pieces) => splitEvents(Buffer.concat(pieces).toString()),
  EventTexts: (pieces) => {
    const texts = new EventTexts();
    return [...pieces.flatMap((piece) => texts.push(piece)), ...texts.end()];
  },
  EventReader: (pieces) => {
    const reader = new EventReader();
    const read = [...pieces.map((piece) => reader.push(piece)), reader.rest()];
    return read.flatMap((events) =>
      events === null ? [] : splitEvents(Buffer.from(events.bytes).toString()),
    );
  },
  EventEnds: (pieces) => {
    const ends = new EventEnds();
    const events: string[] = [];
    let held = Buffer.alloc(0);
    for (const piece of pieces) {
      const end = ends.see(piece);
      if (end > 0) events.push(...splitEvents(Buffer.concat([held, piece.subarray(0, end)]).toString()));
      held = end > 0 ? Buffer.from(piece.subarray(end)) : Buffer.concat([held, piece]);
      expect(ends.isBetween).toBe(held.byteLength === 0);
    }
    return events;
  },
  CompletionWatch: (pieces) => {
    const watch = new CompletionWatch();
    const read = [...pieces.map((piece) => watch.see(piece)), watch.end()];
    expect([watch.isDone, watch.isWhole(() => 1), watch.isGivenUp]).toEqual([true, true, false]);
    return read.flatMap((events) =>
      events === null ? [] : splitEvents(Buffer.from(events.bytes).toString()),
    );
  },
  Stitcher: (pieces) => {
    const stitcher = new Stitcher({
      plan: { path: '/v1/completions' } as MovePlan,
      identity: {} as never,
      ids: [],
      promptTokens: 0,
      stage: 'running',
    });
    return splitEvents(Buffer.concat(pieces.map((piece) => stitcher.push(piece))).toString());
  },
};

describe.each(Object.entries(LINE_ENDS))('a stream whose lines end with %s', (_, lineEnd) => {
  const stream = Buffer.from(written(lineEnd));

  it.each(Object.entries(READERS))('has the same events for %s, wherever it is cut', (_name, read) => {
    for (const pieces of cuts(stream)) expect(dataOf(read(pieces))).toEqual(DATA);
  });

  it('has as many events as it has data and comments', () => {
    expect(countEvents(stream.toString())).toBe(DATA.length + 1);
    const begun = stream.indexOf('größer');
    expect(countEvents(stream.subarray(begun).toString(), true)).toBe(DATA.length);
  });

  it('is between two events behind each empty line, and nowhere else', () => {
    let end = 0;
    const whole = splitEvents(stream.toString()).map((event) => (end += Buffer.byteLength(event)));
    const ends = new EventEnds();
    const between = Array.from(stream, (_byte, at) => {
      ends.see(stream.subarray(at, at + 1));
      return ends.isBetween ? at + 1 : 0;
    }).filter((at) => at > 0);
    expect(between).toEqual(whole);
  });
});

it('the empty line behind a cut may be any of the three', () => {
  for (const [first, second] of ['\n', '\r\n', '\r'].flatMap((one) =>
    ['\n', '\r\n', '\r'].map((two) => [one, two]),
  )) {
    // `\r` and `\n` behind it are one line end.
    const isOne = first === '\r' && second === '\n';
    const text = `data: a${first}${second}data: b\n\n`;
    expect(dataOf(splitEvents(text))).toEqual(isOne ? ['a\nb'] : ['a', 'b']);
    for (const pieces of cuts(Buffer.from(text)))
      expect(dataOf(READERS.EventReader!(pieces))).toEqual(isOne ? ['a\nb'] : ['a', 'b']);
  }
});
