import { describe, expect, it } from 'vitest';
import { CompletionWatch } from '../../../src/worker/run/completion-watch.ts';
import { usageInBody } from '../../../src/worker/run/usage.ts';

describe('a completion that passes by', () => {
  it.each(['abort', 'recover_stop'])(
    'is no result with the finish reason %s, however it is cut',
    (reason) => {
      const text = `data: {"choices":[{"delta":{"content":"x"},"finish_reason": "${reason}"}]}\n\ndata: [DONE]\n\n`;
      for (let at = 1; at < text.length; at += 1) {
        const watch = new CompletionWatch();
        const pieces = [text.slice(0, at), text.slice(at)].map((piece) => Buffer.from(piece));
        for (const piece of pieces) watch.see(piece);
        expect(watch.isGivenUp).toBe(true);
      }
    },
  );

  it('may hold those words in its text', () => {
    const content = JSON.stringify('say "finish_reason": "abort" or "recover_stop"');
    const watch = new CompletionWatch();
    watch.see(Buffer.from(`data: {"choices":[{"content":${content},"finish_reason":"stop"}]}\n\n`));
    expect(watch.isGivenUp).toBe(false);
  });

  it("is no result with the engine's own error among its events, however it is cut", () => {
    const error = '{"error": {"message": "EngineCore ging verlören", "code": 500}}';
    const text = Buffer.from(`data: {"choices":[]}\n\ndata: ${error}\n\ndata: [DONE]\n\n`);
    for (let at = 1; at < text.length; at += 1) {
      const watch = new CompletionWatch();
      for (const piece of [text.subarray(0, at), text.subarray(at)]) watch.see(piece);
      expect([watch.failure?.error, watch.isDone]).toEqual([JSON.parse(error).error, true]);
    }
  });

  it.each([
    'data: {"choices":[{"delta":{"content":"data: {\\"error\\": {}}"}}]}\n\n',
    'data: {"error":null,"choices":[]}\n\n',
  ])('has no error in %s', (text) => {
    const watch = new CompletionWatch();
    watch.see(Buffer.from(text));
    expect(watch.failure).toBeNull();
  });

  it.each([
    ['data: [DONE]\n\n'],
    ['data: [DONE]\n\n: keep-alive\n\n'],
    [
      'data: [DONE]\r\n\r\ndata: {"more":"than was needed, and long enough to fill what is remembered of it"}\r\n\r\n',
    ],
    [
      'event: message_stop\ndata: {"type": "message_stop"}\n\n: bye, and a comment that fills what is remembered of it\n\n',
    ],
    ['event: response.completed\ndata: {"response":{"status":"completed"},"type":"response.completed"}\n\n'],
    ['event: response.incomplete\ndata: {"type":"response.incomplete","response":{}}\n\n'],
  ])('is whole with its end, however it is cut: %j', (end) => {
    const text = `data: {"a":1}\n\n${end}`;
    for (let at = 1; at < text.length; at += 1) {
      const watch = new CompletionWatch();
      for (const piece of [text.slice(0, at), text.slice(at)]) watch.see(Buffer.from(piece));
      expect(watch.isDone).toBe(true);
    }
  });

  it.each([
    'data: {"delta":"data: [DONE]"}\n\n',
    'data: {"delta":"{\\"type\\":\\"message_stop\\"}"}\n\n',
    'event: response.completed\ndata: {"response":{"status":"comp',
  ])('is not whole with %j', (text) => {
    const watch = new CompletionWatch();
    for (const byte of Buffer.from(text)) watch.see(Buffer.from([byte]));
    expect(watch.isDone).toBe(false);
  });

  const MESSAGES = '{"type":"error","error":{"type":"internal_error","message":"EngineCore verlören"}}';
  const FAILED =
    '{"response":{"status":"failed","error":{"code":"server_error","message":"x"}},"type":"response.failed"}';
  const INCOMPLETE = '{"response":{"error":{"code":"server_error"}},"type":"response.incomplete"}';
  it.each([
    ['/v1/messages', 'error', MESSAGES],
    ['/v1/responses', 'response.failed', FAILED],
    ['/v1/responses, only part of it', 'response.incomplete', INCOMPLETE],
    ['/v1/responses, its plain error', 'error', '{"code":"server_error","message":"x"}'],
  ])('is no result with the error of %s, however it is cut', (_route, name, data) => {
    const text = Buffer.from(`event: a\ndata: {}\n\nevent: ${name}\ndata: ${data}\n\n`);
    for (let at = 1; at < text.length; at += 1) {
      const watch = new CompletionWatch('/v1/responses');
      for (const piece of [text.subarray(0, at), text.subarray(at)]) watch.see(piece);
      expect(watch.failure?.error).toEqual(errorIn(data));
    }
  });

  it('is no result with an error in its very first event', () => {
    const watch = new CompletionWatch();
    watch.see(Buffer.from(`event: error\ndata: ${MESSAGES}\n\n`));
    expect(watch.failure?.error).toEqual(errorIn(MESSAGES));
  });

  it.each([
    'event: response.incomplete\ndata: {"response":{"error":null,"incomplete_details":{"reason":"max_output_tokens"}},"type":"response.incomplete"}\n\n',
    'event: response.completed\ndata: {"response":{"error":null,"status":"completed"},"type":"response.completed"}\n\n',
    'event: response.output_text.delta\ndata: {"delta":"event: error\\ndata: {\\"type\\":\\"error\\"}"}\n\n',
  ])('is a result with %s', (text) => {
    const watch = new CompletionWatch();
    for (const byte of Buffer.from(text)) watch.see(Buffer.from([byte]));
    expect(watch.failure).toBeNull();
  });

  const CHAT_USAGE =
    '"usage":{"prompt_tokens":15,"total_tokens":18,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":9}}';
  it.each([
    [
      'a chat stream',
      `data: {"model":"tiny","choices":[]}\n\ndata: {"choices":[],${CHAT_USAGE}}\n\ndata: [DONE]\n\n`,
      { prompt_tokens: 15, completion_tokens: 3, cached_tokens: 9, model: 'tiny' },
    ],
    [
      'a stream that counts on',
      `data: {"usage":{"prompt_tokens":15,"completion_tokens":1}}\n\ndata: {${CHAT_USAGE}}\n\n`,
      { prompt_tokens: 15, completion_tokens: 3, cached_tokens: 9 },
    ],
    [
      'messages',
      'data: {"message":{"usage":{"input_tokens":7,"output_tokens":0}}}\n\ndata: {"usage": {"output_tokens": 4, "cache_read_input_tokens": 99}}\n\n',
      { prompt_tokens: 7, completion_tokens: 4, cached_tokens: 99 },
    ],
    [
      'a response',
      'data: {"response":{"model":"m","usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":2},"output_tokens":6,"output_tokens_details":{"reasoning_tokens":4}}}}\n\n',
      { prompt_tokens: 5, completion_tokens: 6, cached_tokens: 2, reasoning_tokens: 4, model: 'm' },
    ],
  ])('tells its usage: %s, however it is cut', (_kind, text, usage) => {
    for (let at = 1; at < text.length; at += 1) {
      const watch = new CompletionWatch();
      for (const piece of [text.slice(0, at), text.slice(at)]) watch.see(Buffer.from(piece));
      expect(watch.usage).toEqual(usage);
    }
  });

  it.each([
    ['embeddings', '{"data":[],"usage":{"prompt_tokens":4,"total_tokens":4}}', {}],
    ['scores', '{"model":"m","data":[],"usage":{"total_tokens":4}}', { model: 'm' }],
  ])('tells its usage in one piece: %s', (_kind, text, more) => {
    expect(usageInBody(Buffer.from(text))).toEqual({ prompt_tokens: 4, completion_tokens: 0, ...more });
    expect(usageInBody(Buffer.from(text.replaceAll('"', "'")))).toBeNull();
  });

  it.each([
    [0, 'after {}', 'x'],
    [300, 'after {}', 'x'],
    [2000, 'after {}', 'the engine failed, and its error is too long to be read'],
    [300, '{} after', 'x'],
    [2000, '{} after', 'the engine failed, and its error is too long to be read'],
  ])('tells its end, its usage and its error in an event of %i KiB, the error %s', (kib, order, message) => {
    const error = '"error":{"message":"x"}';
    const long = `"output":"${'y'.repeat(kib * 1024)}"`;
    const members = order === 'after {}' ? `${long},${error}` : `${error},${long}`;
    const data = `{"type":"response.failed","response":{${members},"usage":{"input_tokens":5,"output_tokens":6}}}`;
    const text = Buffer.from(`data: {"a":1}\n\nevent: response.failed\ndata: ${data}\n\ndata: {"b":1}\n\n`);
    const watch = new CompletionWatch('/v1/responses');
    for (let at = 0; at < text.length; at += 65_521) watch.see(text.subarray(at, at + 65_521));
    expect([watch.isDone, watch.usage, watch.failure?.error]).toEqual([
      true,
      { prompt_tokens: 5, completion_tokens: 6 },
      { message },
    ]);
    expect(watch.estimate?.completion_tokens).toBe(6);
  });

  it('estimates what has come so far by its events, however they are cut', () => {
    const lines = 'data: {"delta":{"role":"a"}}\n\ndata: {"delta":1}\n\ndata: {"delta":2}\n\ndata: {"del';
    for (const events of [lines, lines.replaceAll('\n', '\r\n')])
      for (let at = 1; at < events.length; at += 1) {
        const watch = new CompletionWatch();
        for (const piece of [events.slice(0, at), events.slice(at)]) watch.see(Buffer.from(piece));
        expect(watch.estimate).toEqual({ prompt_tokens: 0, completion_tokens: 2, estimated: true });
      }
    expect(new CompletionWatch().estimate).toBeNull();
  });

  it('estimates what has come of a response by the events that bring tokens', () => {
    const watch = new CompletionWatch('/v1/responses');
    const say = (type: string, more: object = {}) =>
      watch.see(Buffer.from(`event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`));
    expect(watch.estimate).toBeNull();
    for (const type of ['created', 'in_progress']) say(`response.${type}`, { response: { model: 'tiny' } });
    say('response.output_item.added', { item: {} });
    say('response.content_part.added', { part: {} });
    for (const delta of ['one', 'said ".delta"', 'three']) say('response.output_text.delta', { delta });
    say('response.output_text.done', { text: 'all' });
    expect(watch.estimate).toMatchObject({ prompt_tokens: 0, completion_tokens: 3, estimated: true });
  });

  it('has no usage where the engine tells none, or a text only speaks of it', () => {
    const watch = new CompletionWatch();
    watch.see(Buffer.from('data: {"usage":null,"text":"\\"usage\\":{\\"prompt_tokens\\":5}"}\n\n'));
    expect(watch.usage).toBeNull();
  });
});

/** As the event tells it, in whichever place. */
function errorIn(data: string): unknown {
  const value = JSON.parse(data);
  return value.response?.error ?? value.error ?? value;
}
