import { beforeEach, describe, expect, it } from 'vitest';
import { channelMessage, readChannelMessage } from '../../../../src/host/node/answers/peer-messages.ts';
import { Port } from '../../../../src/host/node/answers/port.ts';
import {
  type AnswerRecord,
  CLOSE,
  decodeRecords,
  encodeRecords,
  PING_TEXT,
  QUEUE_HOME,
  streamIdOf,
} from '../../../../src/protocol/index.ts';
import type { WorkerSocketEvents } from '../../../../src/relay/object/host.ts';
import { text } from '../../../support/relay-harness.ts';

const GRACE_MS = 10_000;
const bytes = (stream: number): AnswerRecord => ({ type: 'bytes', stream, offset: 0, data: text('abc') });
const [own, other] = [streamIdOf(1, 1), streamIdOf(2, 2)];

/** An end of a socket that keeps what it is sent. */
class Sink {
  readonly sent: (string | Uint8Array)[] = [];
  readonly closed: number[] = [];
  send = (message: string | Uint8Array) => void this.sent.push(message);
  close = (code: number) => void this.closed.push(code);

  get records(): AnswerRecord[] {
    return this.sent.flatMap((message) => (typeof message === 'string' ? [] : decodeRecords(message)));
  }

  get texts(): { type: string; channel: number }[] {
    return this.sent.flatMap((message) => (typeof message === 'string' ? [JSON.parse(message)] : []));
  }

  /** The records by channels. */
  get passed(): [channel: number, records: AnswerRecord[]][] {
    return this.sent.flatMap((message) => {
      if (typeof message === 'string') return [];
      const { channel, records } = readChannelMessage(message)!;
      return [[channel, decodeRecords(records)] as [number, AnswerRecord[]]];
    });
  }
}

/** The port of home 1, and what its relay is handed. */
class Stage {
  now = 0;
  timers: { at: number; run: () => void }[] = [];
  readonly port = new Port(
    { home: 1, reconnect_grace_seconds: GRACE_MS / 1000 },
    { now: () => this.now, after: (ms, run) => void this.timers.push({ at: this.now + ms, run }) },
  );
  readonly relayed: (string | AnswerRecord[])[] = [];
  relayClosed = 0;

  worker(): { socket: Sink; events: WorkerSocketEvents } {
    const socket = new Sink();
    const events = this.port.connected('q', 'w', socket, () => ({
      message: (message) => {
        this.relayed.push(typeof message === 'string' ? message : decodeRecords(message));
        return true;
      },
      closed: () => {
        this.relayClosed += 1;
      },
    }));
    return { socket, events };
  }

  home(instance = 'a', number = 2) {
    const socket = new Sink();
    return { socket, events: this.port.linked(number, instance, socket) };
  }

  pass(ms: number): void {
    const until = this.now + ms;
    for (;;) {
      const next = this.timers.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)[0];
      if (!next) break;
      this.timers.splice(this.timers.indexOf(next), 1);
      this.now = next.at;
      next.run();
    }
    this.now = until;
  }
}

let stage: Stage;
beforeEach(() => {
  stage = new Stage();
});

describe('the port of a process', () => {
  it('hands its own relay a message of its own streams as it came', () => {
    const { events } = stage.worker();
    const home = stage.home();
    const message = encodeRecords([bytes(own)]);
    events.message(message);
    events.message(PING_TEXT);
    expect(stage.relayed).toEqual([[bytes(own)], PING_TEXT]);
    expect(home.socket.passed.filter(([, records]) => records.length > 0)).toEqual([]);
  });

  it('tells a home which workers are here, whichever came first', () => {
    stage.worker();
    stage.now = 500;
    const { socket } = stage.home();
    const late = stage.worker();
    expect(socket.texts).toEqual([
      { type: 'open', channel: 0, queue_id: 'q', worker_id: 'w', age_ms: 500 },
      { type: 'open', channel: 1, queue_id: 'q', worker_id: 'w', age_ms: 0 },
    ]);
    late.events.closed();
    expect(socket.texts.at(-1)).toEqual({ type: 'closed', channel: 1 });
    expect(stage.relayClosed).toBe(1);
  });

  it('gives each home its records, and the worker the replies', () => {
    const { socket, events } = stage.worker();
    const home = stage.home();
    events.message(encodeRecords([bytes(other), bytes(own), bytes(other)]));
    expect(stage.relayed).toEqual([[bytes(own)]]);
    expect(home.socket.passed).toEqual([[0, [bytes(other), bytes(other)]]]);
    const taken = { type: 'taken', stream: other, offset: 3 } as const;
    home.events.message(channelMessage(0, encodeRecords([taken])));
    expect(socket.records).toEqual([taken]);
  });

  it('passes a sign of life on to the homes', () => {
    const { events } = stage.worker();
    const home = stage.home();
    events.message(PING_TEXT);
    expect(home.socket.passed).toEqual([[0, []]]);
  });

  it('closes the socket of a worker when a home says so, and for records that cannot be told apart', () => {
    const { socket, events } = stage.worker();
    const home = stage.home();
    home.events.message(JSON.stringify({ type: 'close', channel: 0, code: 1001, reason: 'silent' }));
    expect(socket.closed).toEqual([1001]);
    expect(home.socket.texts.at(-1)).toEqual({ type: 'closed', channel: 0 });
    events.message(encodeRecords([bytes(other)]));
    const second = stage.worker();
    second.events.message(encodeRecords([bytes(other)]).subarray(0, 12));
    expect(second.socket.closed).toEqual([1007]);
  });

  it('has a worker dial again whose records a home missed, once the home is there', () => {
    const { socket, events } = stage.worker();
    const idle = stage.worker();
    events.message(encodeRecords([bytes(other)]));
    expect(socket.closed).toEqual([]);
    const home = stage.home();
    expect(socket.closed).toEqual([CLOSE.restarting]);
    expect(idle.socket.closed).toEqual([]);
    expect(home.socket.texts.map(({ type, channel }) => [type, channel])).toEqual([
      ['closed', 0],
      ['open', 1],
    ]);
  });

  it('has a worker dial again after the link of its home broke, since what was on its way is lost', () => {
    const { socket, events } = stage.worker();
    const first = stage.home();
    events.message(encodeRecords([bytes(other), { type: 'end', stream: other, size: 3 }]));
    first.events.closed();
    stage.pass(GRACE_MS - 2000);
    stage.home();
    expect(socket.closed).toEqual([CLOSE.restarting]);
  });

  it('cancels the streams of a home that is gone for the grace', () => {
    const { socket, events } = stage.worker();
    const home = stage.home();
    events.message(encodeRecords([bytes(other)]));
    home.events.closed();
    stage.pass(GRACE_MS - 1500);
    events.message(encodeRecords([bytes(other), bytes(other + 1)]));
    expect(socket.records).toEqual([]);
    stage.pass(3000);
    expect(socket.records).toEqual([{ type: 'cancel', stream: other, reason: 'caller_gone' }]);
    stage.pass(GRACE_MS);
    expect(socket.records.map(({ stream }) => stream)).toEqual([other, other + 1]);
    expect([stage.port.streams, stage.timers.length]).toEqual([0, 0]);
  });

  it('cancels the streams of a process that another one has replaced', () => {
    const { socket, events } = stage.worker();
    const first = stage.home('a');
    events.message(encodeRecords([bytes(other)]));
    first.events.closed();
    const next = stage.home('b');
    expect(socket.records).toEqual([{ type: 'cancel', stream: other, reason: 'caller_gone' }]);
    expect(socket.closed).toEqual([]);
    expect(next.socket.texts).toMatchObject([{ type: 'open', channel: 0 }]);
  });

  it('leaves it to the next process of the queue which streams of the last one it wants', () => {
    const { socket, events } = stage.worker();
    const first = stage.home('a', QUEUE_HOME);
    const stored = streamIdOf(5, QUEUE_HOME);
    events.message(encodeRecords([bytes(stored)]));
    first.events.closed();
    events.message(encodeRecords([bytes(stored + 1)]));
    stage.pass(GRACE_MS * 3);
    expect([socket.records, socket.closed]).toEqual([[], []]);
    stage.home('b', QUEUE_HOME);
    expect([socket.records, socket.closed]).toEqual([[], [CLOSE.restarting]]);
    expect([stage.port.streams, stage.timers.length]).toEqual([0, 0]);
  });

  it('keeps no note of streams that are over', () => {
    const { events } = stage.worker();
    const home = stage.home();
    events.message(encodeRecords([bytes(other), bytes(other + 1)]));
    expect(stage.port.streams).toBe(2);
    events.message(encodeRecords([bytes(own), { type: 'end', stream: other, size: 3 }]));
    const cancel = { type: 'cancel', stream: other + 1, reason: 'caller_gone' } as const;
    home.events.message(channelMessage(0, encodeRecords([cancel])));
    expect(stage.port.streams).toBe(0);
  });

  it('goes by the newest link of a home', () => {
    stage.worker();
    const first = stage.home();
    const second = stage.home();
    expect(first.socket.closed).toEqual([CLOSE.superseded]);
    first.events.closed();
    stage.worker();
    expect(second.socket.texts.map(({ channel }) => channel)).toEqual([0, 1]);
  });
});
