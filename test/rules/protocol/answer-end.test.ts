import { describe, expect, it } from 'vitest';
import { choicesAsked, type EngineError, messageOf, readWholeAnswer } from '../../../src/protocol/index.ts';
import { CompletionWatch } from '../../../src/worker/run/completion-watch.ts';
import { RECORDED, type RecordedEnd, recordedStream } from '../../support/recorded-streams/index.ts';

function endOf(path: string, pieces: readonly Uint8Array[], choices = 1): RecordedEnd {
  const watch = new CompletionWatch(path);
  for (const piece of pieces) watch.see(piece);
  watch.end();
  if (watch.failure !== null) return shown(watch.failure);
  if (watch.isGivenUp) return 'given up';
  return watch.isWhole(() => choices) ? 'whole' : 'cut';
}

const shown = (failed: EngineError) => ({ status: failed.status, message: messageOf(failed) });

const expected = (end: RecordedEnd) =>
  typeof end === 'string' ? end : { ...end, message: expect.stringContaining(end.message) };

describe('a recorded stream', () => {
  it.each(RECORDED)('%s of %s is %j, however it is cut', (name, path, end) => {
    const whole = recordedStream(name);
    expect(endOf(path, [whole])).toEqual(expected(end));
    for (let at = 1; at < whole.length; at++) {
      expect(endOf(path, [whole.subarray(0, at), whole.subarray(at)])).toEqual(expected(end));
    }
    expect(
      endOf(
        path,
        [...whole].map((byte) => Buffer.from([byte])),
      ),
    ).toEqual(expected(end));
  });

  it.each(RECORDED.filter(([, , end]) => end === 'whole'))(
    '%s of %s is cut where its body ends before its last word',
    (name, path) => {
      const text = recordedStream(name).toString('latin1');
      const finish =
        /"(?:finish|stop)_reason":"[^"]|"type":"(?:message_stop|response\.(?:completed|incomplete))/;
      const events = text.split(/(?<=\n\r?\n)/);
      const before = events.slice(
        0,
        events.findIndex((event) => finish.test(event)),
      );
      expect(endOf(path, [Buffer.from(before.join(''), 'latin1')])).toBe('cut');
    },
  );

  it('is whole without an end mark only where all choices that were asked for have finished', () => {
    const choice = (index: number, reason: string | null) =>
      Buffer.from(
        `data: {"choices":[{"index":${index},"delta":{},"finish_reason":${JSON.stringify(reason)}}]}\n\n`,
      );
    expect(endOf('/v1/chat/completions', [choice(0, 'stop'), choice(1, null)], 2)).toBe('cut');
    expect(endOf('/v1/chat/completions', [choice(0, 'stop')], 2)).toBe('cut');
    expect(endOf('/v1/chat/completions', [choice(1, 'stop'), choice(0, 'length')], 2)).toBe('whole');
  });

  it('tells where its error begins, and whether clients see it', () => {
    const failure = (name: string, path: string) => {
      const watch = new CompletionWatch(path);
      const stream = recordedStream(name);
      watch.see(stream);
      return [watch.failure?.isRaised, stream.subarray(watch.failure?.at).toString().slice(0, 24)];
    };
    const chat = '/v1/chat/completions';
    expect(failure('vllm-engine-dead', chat)).toEqual([true, 'data: {"error":{"message']);
    expect(failure('vllm-old-error', chat)).toEqual([false, 'data: {"object":"error",']);
    expect(failure('llama-cpp-error-before-2025', chat)).toEqual([false, 'error: {"code":500,"mess']);
    expect(failure('messages-error', '/v1/messages')).toEqual([true, 'event: error\ndata: {"typ']);
  });
});

describe('an answer in one piece', () => {
  const chat = '/v1/chat/completions';
  const choice = (fields: object) => ({ object: 'chat.completion', choices: [{ index: 0, ...fields }] });
  it.each([
    ['an error at its top', chat, { error: { message: 'no', code: 400 } }, { status: 400, message: 'no' }],
    ['an error as a text', chat, { error: 'no', error_type: 'validation' }, { status: 422, message: 'no' }],
    [
      'an object "error"',
      chat,
      { object: 'error', message: 'no', code: 404 },
      { status: 404, message: 'no' },
    ],
    [
      'a choice with an error',
      chat,
      choice({ finish_reason: 'error', error: { code: 502, message: 'no' } }),
      { status: 502, message: 'no' },
    ],
    ['a choice that failed', chat, choice({ finish_reason: 'error' }), { status: 500 }],
    [
      'Anthropic’s error',
      '/v1/messages',
      { type: 'error', error: { type: 'not_found_error', message: 'no' } },
      { status: 404, message: 'no' },
    ],
    [
      'a failed response',
      '/v1/responses',
      { object: 'response', status: 'failed', error: { code: 'server_error', message: 'no' } },
      { status: 500, message: 'no' },
    ],
    [
      'one that does not say why',
      '/v1/responses',
      { object: 'response', status: 'failed', error: null },
      { status: 500 },
    ],
    [
      'embeddings',
      '/v1/embeddings',
      { object: 'error', message: 'no', code: 400 },
      { status: 400, message: 'no' },
    ],
  ])('has failed: %s', (_what, path, body, error) => {
    const { failed } = readWholeAnswer(path, body);
    expect(failed && shown(failed)).toMatchObject(error);
  });

  it.each([
    ['a choice', chat, choice({ finish_reason: 'stop', message: { content: 'error' } })],
    ['no error', chat, { ...choice({ finish_reason: 'stop' }), error: null }],
    [
      'a response that reached its limit',
      '/v1/responses',
      { object: 'response', status: 'incomplete', error: null },
    ],
    ['no object', '/pooling', [1]],
    ['a list of another route', '/rerank', [{ index: 0, score: 1 }]],
  ])('has not: %s', (_what, path, body) => {
    expect(readWholeAnswer(path, body).failed).toBeNull();
  });

  it.each([
    ['a detail', chat, { detail: 'no' }],
    ['a message', '/v1/embeddings', { message: 'no', code: 400 }],
    ['errors', '/v1/messages', { errors: [{ message: 'no' }] }],
    ['no success', '/v1/responses', { success: false, message: 'no' }],
    ['an error in a list', chat, [{ error: { message: 'no', code: 400 } }]],
    ['a message beside an error that is none', chat, { error: true, message: 'no' }],
    ['a part of it', chat, '{"choices":[{"message":{"content":"no'],
    ['null', chat, null],
  ])('is none, and its error says what came: %s', (_what, path, body) => {
    const { failed } = readWholeAnswer(path, body);
    expect(failed && shown(failed).message).toMatch(/no|null/);
  });

  it.each(['network_error', 'ERROR'])('has failed with the reason %s', (finish_reason) => {
    expect(readWholeAnswer(chat, choice({ finish_reason })).failed).not.toBeNull();
  });

  it.each(['abort', 'recover_stop', 'cancelled', 'timeout'])(
    'was given up with the reason %s',
    (finish_reason) => {
      expect(readWholeAnswer(chat, choice({ finish_reason }))).toMatchObject({
        failed: null,
        isGivenUp: true,
      });
    },
  );
});

it('choices are asked for by n, and for each of several prompts', () => {
  const asked: [object | null, number][] = [
    [null, 1],
    [{ n: 3, messages: [] }, 3],
    [{ n: null, prompt: 'a' }, 1],
    [{ prompt: [1, 2, 3] }, 1],
    [{ prompt: ['a', 'b'], n: 2 }, 4],
    [{ prompt: [[1, 2], [3]] }, 2],
  ];
  for (const [body, choices] of asked) expect(choicesAsked(body)).toBe(choices);
});
