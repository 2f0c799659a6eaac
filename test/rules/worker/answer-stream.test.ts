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

/** A relay that keeps copies for readers: where it lacks something, it asks the worker to go back. */
class ReplayRelay {
  bytes = Buffer.alloc(0);
  hasHead = false;
  size: number | null = null;
  isBroken = false;

  take(records: AnswerRecord[], stream: AnswerStream): void {
    for (const record of records) {
      if (record.type === 'head') this.hasHead = true;
      if (record.type === 'broken') this.isBroken = true;
      const end = record.type === 'bytes' ? record.offset : record.type === 'end' ? record.size : 0;
      expect(this.hasHead).toBe(true);
      if (end > this.bytes.byteLength) stream.taken(this.bytes.byteLength);
      else if (record.type === 'end') this.size = record.size;
      else if (record.type === 'bytes')
        this.bytes = Buffer.concat([this.bytes, record.data.subarray(this.bytes.byteLength - record.offset)]);
    }
  }
}

const replaySteps = fc.array(
  fc.oneof(
    fc.record({ step: fc.constant('write' as const), text: fc.constantFrom('data: x\n\n', 'data: yy\n\n') }),
    fc.record({ step: fc.constant('flush' as const) }),
    fc.record({ step: fc.constant('taken' as const) }),
    fc.record({ step: fc.constant('cut' as const), isLost: fc.boolean() }),
    fc.record({ step: fc.constant('restart' as const) }),
  ),
  { maxLength: 60, size: 'max' },
);

const replayed = () => {
  const nothing = () => {};
  const stream = new AnswerStream(
    1,
    { changed: nothing, begun: nothing, more: nothing, cancelled: nothing },
    true,
  );
  stream.head({ status: 200, headers: { 'content-type': 'text/event-stream' } });
  let relay = new ReplayRelay();
  return {
    stream,
    relay: () => relay,
    flush: (isLost = false) => {
      const records: AnswerRecord[] = [];
      stream.collect(records);
      if (!isLost) relay.take(records, stream);
    },
    restart: () => {
      relay = new ReplayRelay();
      stream.reconnected();
    },
  };
};

test('a copy for readers gets to a relay that restarts from its beginning', () => {
  fc.assert(
    fc.property(replaySteps, (all) => {
      const { stream, relay, flush, restart } = replayed();
      let written = '';
      for (const action of all) {
        if (action.step === 'write') {
          stream.write(Buffer.from(action.text));
          written += action.text;
        } else if (action.step === 'flush') flush();
        else if (action.step === 'taken') stream.taken(relay().bytes.byteLength);
        else if (action.step === 'restart') restart();
        else {
          flush(action.isLost);
          stream.reconnected();
        }
      }
      stream.end();
      flush();
      flush();
      expect(relay().bytes.toString()).toBe(written);
      expect(relay().size).toBe(written.length);
      stream.taken(written.length);
      expect(stream.state).toBe('complete');
    }),
  );
});

test('a copy whose beginning is not kept any more is broken at a relay that restarts', () => {
  const { stream, relay, flush, restart } = replayed();
  for (let at = 0; at < 20; at += 1) {
    stream.write(Buffer.alloc(100_000, 'x'));
    flush();
    stream.taken(relay().bytes.byteLength);
  }
  restart();
  stream.write(Buffer.from('data: x\n\n'));
  flush();
  flush();
  expect(relay().isBroken).toBe(true);
  expect(stream.isPending).toBe(false);
});
