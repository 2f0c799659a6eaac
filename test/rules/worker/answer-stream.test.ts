import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { AnswerRecord } from '../../../src/protocol/index.ts';
import { AnswerStream } from '../../../src/worker/answers/answer-stream.ts';

/** A relay: drops what it has, refuses holes, forgets nothing. */
class TapeRelay {
  replay = Buffer.alloc(0);
  heads = 0;
  size: number | null = null;

  take(records: AnswerRecord[]): void {
    for (const record of records) {
      if (record.type === 'head') this.heads += 1;
      if (record.type === 'end') this.size = record.size;
      if (record.type !== 'bytes') continue;
      expect(this.heads).toBeGreaterThan(0);
      expect(record.offset).toBeLessThanOrEqual(this.replay.byteLength);
      this.replay = Buffer.concat([
        this.replay,
        record.data.subarray(this.replay.byteLength - record.offset),
      ]);
    }
  }
}

const steps = fc.array(
  fc.oneof(
    fc.record({
      step: fc.constant('write' as const),
      text: fc.constantFrom('a', 'é', 'data: x', '\n\n', 'data: y\n\n'),
    }),
    fc.record({ step: fc.constant('flush' as const) }),
    fc.record({ step: fc.constant('taken' as const), share: fc.constantFrom(0.3, 0.7, 1) }),
    // The connection breaks, and the last message may be lost with it.
    fc.record({ step: fc.constant('cut' as const), isLost: fc.boolean() }),
  ),
  { maxLength: 60, size: 'max' },
);

test('whatever is lost with a connection, the relay ends up with every byte once', () => {
  fc.assert(
    fc.property(steps, fc.constantFrom('text/event-stream', 'audio/wav'), (all, contentType) => {
      const stream = new AnswerStream(1, {
        changed: () => {},
        begun: () => {},
        more: () => {},
        cancelled: () => {},
      });
      const relay = new TapeRelay();
      const flush = (isLost = false) => {
        const records: AnswerRecord[] = [];
        stream.collect(records);
        if (!isLost) relay.take(records);
      };
      let written = '';
      stream.head({ status: 200, headers: { 'content-type': contentType } });
      for (const action of all) {
        if (action.step === 'write') {
          stream.write(Buffer.from(action.text));
          written += action.text;
        } else if (action.step === 'flush') flush();
        else if (action.step === 'taken') stream.taken(Math.floor(relay.replay.byteLength * action.share));
        else {
          flush(action.isLost);
          stream.reconnected();
        }
      }
      stream.end();
      flush();
      expect(relay.replay.toString()).toBe(Buffer.from(written).toString());
      expect(relay.size).toBe(relay.replay.byteLength);
      stream.taken(relay.replay.byteLength);
      expect(stream.state).toBe('complete');
    }),
  );
});
