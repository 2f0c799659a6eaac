import { describe, expect, it } from 'vitest';
import type { Objects } from '../../../src/asking/objects.ts';
import {
  type AnswerRecord,
  CLOSE,
  encodeRecords,
  PING_TEXT,
  PONG_TEXT,
} from '../../../src/protocol/index.ts';
import { RelayHost } from '../../../src/relay/object/host.ts';
import { Caller } from '../../support/relay-harness.ts';

const HEAD: AnswerRecord = {
  type: 'head',
  stream: 1,
  head: { status: 200, headers: { 'content-type': 'text/event-stream' } },
};
const bytes = (offset: number, text: string): AnswerRecord => ({
  type: 'bytes',
  stream: 1,
  offset,
  data: new TextEncoder().encode(text),
});

/** A relay, and the worker's end of its answer socket. */
class Stage {
  readonly relay = new RelayHost({ reconnect_grace_seconds: 10 }, {} as Objects, {
    now: () => 0,
    after: () => {},
  });
  readonly sent: (string | Uint8Array)[] = [];
  readonly closed: number[] = [];
  readonly worker = this.relay.connected({
    send: (message) => this.sent.push(message),
    close: (code) => this.closed.push(code),
  });

  say(...records: AnswerRecord[]): boolean {
    return this.worker.message(encodeRecords(records));
  }

  async open() {
    const opened = await this.relay.openAnswer(1, null);
    if ('broken' in opened) throw new Error(opened.broken.message);
    return opened;
  }
}

describe('the relay of a worker', () => {
  it('gives an answer that is whole when it opens as bytes', async () => {
    const stage = new Stage();
    const opening = stage.open();
    stage.say(HEAD, bytes(0, 'data: a\n\n'), { type: 'end', stream: 1, size: 9 });
    const { head, whole } = await opening;
    expect([head.status, new TextDecoder().decode(whole!)]).toEqual([200, 'data: a\n\n']);
    expect(stage.relay.streams).toBe(0);
  });

  it('writes any other answer to its caller, and says which messages nobody reads any more', async () => {
    const stage = new Stage();
    const opening = stage.open();
    expect(stage.say(HEAD, bytes(0, 'data: a\n\n'))).toBe(false);
    const opened = await opening;
    const caller = new Caller();
    expect(opened.whole).toBeNull();
    opened.attach(caller);
    expect(stage.say(bytes(9, 'data: b\n\n'))).toBe(true);
    opened.gone();
    expect(stage.say(bytes(18, 'data: c\n\n'))).toBe(false);
    expect(caller.received).toBe('data: a\n\ndata: b\n\n');
  });

  it('answers pings, and counts what it was sent', () => {
    const stage = new Stage();
    stage.worker.message(PING_TEXT);
    stage.say(HEAD);
    expect(stage.sent).toEqual([PONG_TEXT]);
    expect(stage.relay.received).toBe(encodeRecords([HEAD]).byteLength);
  });

  it('is idle once its worker and all answers are gone', async () => {
    const stage = new Stage();
    expect(stage.relay.isIdle).toBe(false);
    stage.worker.closed();
    expect(stage.relay.isIdle).toBe(true);
  });

  it('tells callers and its worker when it leaves', async () => {
    const stage = new Stage();
    const opening = stage.open();
    stage.say(HEAD, bytes(0, 'data: a\n\n'));
    const caller = new Caller();
    (await opening).attach(caller);
    stage.relay.leave();
    expect(caller.broken).toBe('the queue starts again');
    expect(stage.closed).toEqual([CLOSE.restarting]);
  });
});
