import { describe, expect, it } from 'vitest';
import { CompletionWatch } from '../../../src/worker/completion-watch.ts';

describe('a completion that passes by', () => {
  it.each(['abort', 'recover_stop'])(
    'is no result with the finish reason %s, however it is cut',
    (reason) => {
      const text = `data: {"choices":[{"delta":{"content":"x"},"finish_reason": "${reason}"}]}\n\ndata: [DONE]\n\n`;
      for (let at = 1; at < text.length; at += 1) {
        const watch = new CompletionWatch();
        const pieces = [text.slice(0, at), text.slice(at)].map((piece) => Buffer.from(piece));
        expect(pieces.map((piece) => watch.sawAbort(piece))).toContain(true);
      }
    },
  );

  it('may hold those words in its text', () => {
    const content = JSON.stringify('say "finish_reason": "abort" or "recover_stop"');
    const watch = new CompletionWatch();
    expect(watch.sawAbort(Buffer.from(`{"content":${content},"finish_reason":"stop"}`))).toBe(false);
  });
});
