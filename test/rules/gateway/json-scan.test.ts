import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { asHttp, checkBody } from '../../../src/gateway/bodies/body.ts';
import { bounds } from '../../../src/protocol/index.ts';
import { bodyFacts, type RequestFacts } from '../../../src/request-facts/body-facts.ts';

const bytes = (text: string) => new TextEncoder().encode(text);
const readFacts = (body: Uint8Array): RequestFacts => {
  const { model, stream, includeUsage } = asHttp(() => bodyFacts(body, 'application/json'));
  return { model, stream, includeUsage };
};
const facts = (text: string) => readFacts(bytes(text));

/** What a parser finds; null where the body is refused. */
function parsed(text: string): RequestFacts | null {
  let body: Record<string, unknown>;
  try {
    body = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return null;
  const { model, stream, stream_options: options } = body;
  if (model !== undefined && model !== null && typeof model !== 'string') return null;
  if (stream !== undefined && stream !== null && typeof stream !== 'boolean') return null;
  const isObject = typeof options === 'object' && options !== null && !Array.isArray(options);
  return {
    model: model || null,
    stream: stream === true,
    includeUsage: isObject && (options as Record<string, unknown>).include_usage === true,
  };
}

/** What the scan finds; null where it refuses with 400. Any other error is a fault. */
function scanned(text: string): RequestFacts | null {
  try {
    return facts(text);
  } catch (error) {
    expect(error).toMatchObject({ status: 400 });
    return null;
  }
}

const key = fc.oneof(
  fc.constantFrom('model', 'stream', 'stream_options', 'include_usage', 'messages', '', '\\', '"', 'modél'),
  fc.string({ unit: 'binary' }),
);
const { value } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.string({ unit: 'binary' }),
    fc.constantFrom(true, false, null, 'true', 0, -1.5e-7, '}', ']', '\\"', '🙂'),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.array(fc.tuple(key, tie('value')), { maxLength: 4 }).map((entries) => new Fields(entries)),
  ),
}));

/** An object that may have a key twice. */
class Fields {
  readonly entries: [string, unknown][];
  constructor(entries: [string, unknown][]) {
    this.entries = entries;
  }
}

/** As JSON, with any blanks, and any character escaped. */
function write(given: unknown, random: () => number): string {
  const blank = () => [' ', '\n', '\t\r', '', '', ''][Math.floor(random() * 6)] as string;
  const string = (text: string) =>
    JSON.stringify(text).replace(/[a-z]/g, (letter, at, whole: string) =>
      whole[at - 1] === '\\' || random() < 0.9 || /\\u.{0,3}$/.test(whole.slice(0, at))
        ? letter
        : `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`,
    );
  if (typeof given === 'string') return string(given);
  const list = (parts: string[], open: string, close: string) =>
    `${open}${blank()}${parts.map((part) => blank() + part + blank()).join(',')}${close}`;
  if (Array.isArray(given)) {
    return list(
      given.map((entry) => write(entry, random)),
      '[',
      ']',
    );
  }
  if (given instanceof Fields) {
    const parts = given.entries.map(
      ([name, entry]) => `${string(name)}${blank()}:${blank()}${write(entry, random)}`,
    );
    return list(parts, '{', '}');
  }
  return JSON.stringify(given);
}

const body = fc
  .tuple(
    fc.array(fc.tuple(key, value), { maxLength: 6 }),
    fc.infiniteStream(fc.double({ min: 0, max: 0.999, noNaN: true })),
  )
  .map(([entries, random]) => write(new Fields(entries), () => random.next().value as number));

describe('the scan of a body', () => {
  it('finds in every JSON object what a parser finds', () => {
    fc.assert(
      fc.property(body, (text) => {
        expect(scanned(text)).toEqual(parsed(text));
      }),
      { numRuns: 2000 },
    );
  });

  it('takes whatever a parser takes, and finds the same, also where characters were changed', () => {
    const change = fc.tuple(
      fc.nat(),
      fc.constantFrom('', '"', '\\', '{', '}', '[', ']', ':', ',', ' ', '1', 't'),
    );
    fc.assert(
      fc.property(body, fc.array(change, { minLength: 1, maxLength: 3 }), (text, changes) => {
        let changed = text;
        for (const [at, by] of changes) {
          const place = at % (changed.length + 1);
          changed = changed.slice(0, place) + by + changed.slice(place + 1);
        }
        // Half a character cannot be sent, and no body at all is another matter.
        changed = changed.toWellFormed();
        if (changed === '') return;
        const found = scanned(changed);
        const expected = parsed(changed);
        if (expected !== null) expect(found).toEqual(expected);
      }),
      { numRuns: 5000 },
    );
  });

  it('never fails otherwise than with 400, whatever the bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (random) => {
        try {
          readFacts(random);
        } catch (error) {
          expect(error).toMatchObject({ status: 400 });
        }
      }),
    );
  });

  it('reads the fields it needs at the top level alone, written out or escaped, the last of two', () => {
    expect(facts('{"model":"m","stream":true,"stream_options":{"include_usage":true}}')).toEqual({
      model: 'm',
      stream: true,
      includeUsage: true,
    });
    expect(facts('{"messages":[{"model":"no","stream":true}],"mod\\u0065l":"\\u006d"}').model).toBe('m');
    expect(facts('{"model":"a","model":"b"}').model).toBe('b');
    expect(facts('{"model":"","stream":null,"stream_options":null}').model).toBeNull();
  });

  it.each([
    '{',
    '[]',
    '"text"',
    'null',
    '{"model":5}',
    '{"model":{}}',
    '{"stream":1}',
    '{"stream":"true"}',
    '{}}',
    '{} x',
    '{"a"}',
    '{"a":}',
    '{"a":"',
  ])('refuses %j with 400', (text) => {
    expect(() => facts(text)).toThrow(expect.objectContaining({ status: 400 }));
  });

  it('refuses the name of a model that no model has', () => {
    expect(() => facts(JSON.stringify({ model: 'm'.repeat(5000) }))).toThrow(/model: .*4096/);
  });
});

describe('nesting', () => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);

  it(`is taken up to ${bounds.JSON_DEPTH} levels, and refused with 400 beyond`, () => {
    expect(() => checkBody(bytes(nested(bounds.JSON_DEPTH)))).not.toThrow();
    expect(() => checkBody(bytes(nested(bounds.JSON_DEPTH + 1)))).toThrow(/deeper than 512 levels/);
    expect(facts(`{"a":${nested(bounds.JSON_DEPTH - 1)}}`)).toBeTruthy();
    expect(() => facts(`{"a":${nested(bounds.JSON_DEPTH)}}`)).toThrow(
      expect.objectContaining({ status: 400 }),
    );
  });

  it('is not what brackets in texts make', () => {
    expect(() => checkBody(bytes(JSON.stringify(['['.repeat(5000), '\\"['.repeat(5000)])))).not.toThrow();
  });

  it('of four million levels is refused as soon as it is too deep', () => {
    const body = new Uint8Array(4_000_000).fill(0x5b);
    expect(() => checkBody(body)).toThrow(/deeper than 512/);
    body.set(bytes('{"a":'));
    expect(() => readFacts(body)).toThrow(/deeper than 512/);
  });
});
