import * as z from 'zod';
import { messagesOf, type Parsed, parseFrames, parseJson, QueueFrame, unpack } from '../../protocol/index.ts';
import type { Clock } from '../clock.ts';
import type { Ports } from '../ports.ts';

/**
 * Removes nulls, which some queues write for fields that they leave out. A payload of null stays: it is a mistake that
 * the job's failure reports.
 */
const LenientFrame = z.preprocess(withoutNulls, QueueFrame);

/** Reads the queue's frames. Unreadable frames are logged and left out; an unknown type is logged once. */
export class FrameParser {
  readonly #log: Ports['log'];
  readonly #unknownTypes = new Set<string>();

  constructor(log: Ports['log']) {
    this.#log = log;
  }

  /**
   * Yields the frames of a message. Jobs with a body come as bytes, and so do large jobs: the queue makes no strings of
   * them.
   */
  *parse(data: string | Uint8Array): Generator<QueueFrame> {
    const frames = typeof data === 'string' ? parseFrames(LenientFrame, data, 'payload') : readJob(data);
    for (const frame of frames) {
      if (frame.ok) yield frame.value;
      else this.#report(frame);
    }
  }

  #report({ message, unknownType }: Extract<Parsed<QueueFrame>, { ok: false }>): void {
    if (unknownType === undefined) {
      this.#log.warn({ problem: message }, 'the queue sent a frame that cannot be read; ignored');
    } else if (!this.#unknownTypes.has(unknownType)) {
      this.#unknownTypes.add(unknownType);
      this.#log.info({ type: unknownType }, 'the queue sends frames of a type unknown here');
    }
  }
}

function readJob(data: Uint8Array): Parsed<QueueFrame>[] {
  const packed = unpack(data);
  if (packed === null) return parseFrames(LenientFrame, new TextDecoder().decode(data), 'payload');
  const parsed = parseJson(LenientFrame, packed.head);
  return [parsed.ok ? { ok: true, value: withBody(parsed.value, packed.body) } : parsed];
}

function withBody(frame: QueueFrame, body: Uint8Array): QueueFrame {
  if (frame.type !== 'job' || body.byteLength === 0) return frame;
  return { ...frame, payload: { ...Object(frame.payload), body } };
}

function withoutNulls(frame: unknown): unknown {
  if (typeof frame !== 'object' || frame === null) return frame;
  const isLeftOut = ([name, value]: [string, unknown]) => value === null && name !== 'payload';
  const fields = Object.entries(frame);
  return fields.some(isLeftOut) ? Object.fromEntries(fields.filter((field) => !isLeftOut(field))) : frame;
}

/** Gathers the frames of one tick, for a queue that takes several in a message. */
export class GatheredFrames {
  readonly #clock: Pick<Clock, 'setImmediate'>;
  readonly #send: (message: string) => void;
  #frames: string[] = [];

  constructor(clock: Pick<Clock, 'setImmediate'>, send: (message: string) => void) {
    this.#clock = clock;
    this.#send = send;
  }

  /** @param frame as JSON */
  add(frame: string): void {
    this.#frames.push(frame);
    if (this.#frames.length === 1) this.#clock.setImmediate(() => this.send());
  }

  /** Sends the gathered frames without waiting for the tick to end. */
  send(): void {
    const frames = this.#frames;
    this.forget();
    for (const message of messagesOf(frames)) this.#send(message);
  }

  /** Forgets the gathered frames, as the connection is gone. */
  forget(): void {
    this.#frames = [];
  }
}
