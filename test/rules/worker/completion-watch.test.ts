import { describe, expect, it } from 'vitest';
import { CompletionWatch } from '../../../src/worker/run/completion-watch.ts';

describe('a completion that passes by', () => {
  it.each(['abort', 'recover_stop'])(
    'is no result with the finish reason %s, however it is cut',
    (reason) => {
      const text = `data: {"choices":[{"delta":{"content":"x"},"finish_reason": "${reason}"}]}\n\ndata: [DONE]\n\n`;
      for (let at = 1; at < text.length; at += 1) {
        const watch = new CompletionWatch();
        const pieces = [text.slice(0, at), text.slice(at)].map((piece) => Buffer.from(piece));
        for (const piece of pieces) watch.see(piece);
        expect(watch.isAborted).toBe(true);
      }
    },
  );

  it('may hold those words in its text', () => {
    const content = JSON.stringify('say "finish_reason": "abort" or "recover_stop"');
    const watch = new CompletionWatch();
    watch.see(Buffer.from(`{"content":${content},"finish_reason":"stop"}`));
    expect(watch.isAborted).toBe(false);
  });

  it("is no result with the engine's own error among its events, however it is cut", () => {
    const error = '{"error": {"message": "EngineCore ging verlören", "code": 500}}';
    const text = Buffer.from(`data: {"choices":[]}\n\ndata: ${error}\n\ndata: [DONE]\n\n`);
    for (let at = 1; at < text.length; at += 1) {
      const watch = new CompletionWatch();
      for (const piece of [text.subarray(0, at), text.subarray(at)]) watch.see(piece);
      expect([watch.error, watch.isDone]).toEqual([error, true]);
    }
  });

  it.each([
    'data: {"choices":[{"delta":{"content":"data: {\\"error\\": {}}"}}]}\n\n',
    'data: {"error":null,"choices":[]}\n\n',
  ])('has no error in %s', (text) => {
    const watch = new CompletionWatch();
    watch.see(Buffer.from(text));
    expect(watch.error).toBeNull();
  });
});
