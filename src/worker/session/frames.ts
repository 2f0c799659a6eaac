import * as z from 'zod';
import { messagesOf, type Parsed, parseFrames, parseJson, QueueFrame, unpack } from '../../protocol/index.ts';
import type { Clock } from '../clock.ts';
import type { Ports } from '../ports.ts';

/**
 * Removes nulls, which some queues write for fields that they leave out. A payload of null stays, as a mistake that the
 * job's failure reports.
 */
export const LenientFrame = z.preprocess(withoutNulls, QueueFrame);

/** Checks frames: nearly all messages by `isUsual`, any other frame by the schema. */
const FRAMES: Pick<typeof LenientFrame, 'safeParse'> = {
  safeParse: (data, words) => (isUsual(data) ? { success: true, data } : LenientFrame.safeParse(data, words)),
};

type Check = (value: unknown) => boolean;

const isText: Check = (value) => typeof value === 'string';
const isId: Check = (value) => typeof value === 'string' && value !== '';
const isCount: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const isTime: Check = (value) => Number.isFinite(value) && (value as number) >= 0;

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const USUAL_TRACE = new Map<string, Check>([
  ['queued_ms', isTime],
  ['attempts_left', isCount],
]);

/** The members of a job that a caller waits for or that is stored, each with a check that is at least as strict. */
const USUAL_JOB = new Map<string, Check>([
  ['type', isText],
  ['job_id', isId],
  ['mode', (mode) => mode === 'transient' || mode === 'persisted'],
  ['config_id', isText],
  ['payload', () => true],
  ['fence_token', isCount],
  ['payload_url', isText],
  ['result_upload_url', isText],
  ['job_type', isText],
  ['attempt', (attempt) => isCount(attempt) && attempt !== 0],
  ['deadline_ms', (left) => Number.isFinite(left)],
  ['lease_seconds', (seconds) => isTime(seconds) && seconds !== 0],
  ['trace', (trace) => isObject(trace) && hasOnly(trace, USUAL_TRACE)],
  ['stream_id', (id) => isCount(id) && (id as number) <= 0xffff_ffff],
  ['account', (account) => typeof account === 'string' && account.length <= 4096],
]);

const USUAL_ACK = new Map<string, Check>([
  ['type', isText],
  ['job_id', isId],
  ['fence_token', isCount],
  ['outcome', (outcome) => outcome === 'accepted' || outcome === 'stale' || outcome === 'unknown'],
]);

/**
 * Tells whether a value is a frame `job` or `ack` with the members that our queue gives these frames. The schema would
 * return the same value, at ten times the cost. False does not mean that the frame is invalid.
 */
export function isUsual(data: unknown): data is QueueFrame {
  if (!isObject(data)) return false;
  const { type, job_id, fence_token, mode, outcome } = data as Record<string, unknown>;
  if (job_id === undefined || fence_token === undefined) return false;
  if (type === 'job') return mode !== undefined && 'payload' in data && hasOnly(data, USUAL_JOB);
  return type === 'ack' && outcome !== undefined && hasOnly(data, USUAL_ACK);
}

function hasOnly(data: object, checks: ReadonlyMap<string, Check>): boolean {
  for (const name in data) {
    const check = checks.get(name);
    if (check === undefined || !check((data as Record<string, unknown>)[name])) return false;
  }
  return true;
}

/** Reads the queue's frames. Unreadable frames are logged and skipped; an unknown type is logged once. */
export class FrameParser {
  readonly #log: Ports['log'];
  readonly #unknownTypes = new Set<string>();

  constructor(log: Ports['log']) {
    this.#log = log;
  }

  /**
   * Yields the frames of a message. Jobs with a body arrive as bytes, and so do large jobs, since the queue makes no
   * strings of them.
   */
  *parse(data: string | Uint8Array): Generator<QueueFrame> {
    const frames = typeof data === 'string' ? parseFrames(FRAMES, data, 'payload') : readJob(data);
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
  if (packed === null) return parseFrames(FRAMES, new TextDecoder().decode(data), 'payload');
  const parsed = parseJson(FRAMES, packed.head);
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

/** Gathers the frames of one tick, for a queue that accepts several in a message. */
export class GatheredFrames {
  readonly #clock: Pick<Clock, 'setImmediate'>;
  readonly #send: (message: string) => void;
  #frames: string[] = [];

  constructor(clock: Pick<Clock, 'setImmediate'>, send: (message: string) => void) {
    this.#clock = clock;
    this.#send = send;
  }

  /** Adds a frame. @param frame its JSON */
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

  /** Forgets the gathered frames, since the connection is gone. */
  forget(): void {
    this.#frames = [];
  }
}
