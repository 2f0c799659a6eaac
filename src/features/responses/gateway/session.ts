import { HttpError } from '../../../gateway/errors.ts';
import {
  EventCutter,
  eventData,
  fieldsOf,
  openAIType,
  splitEvents,
  withMembers,
} from '../../../protocol/index.ts';
import { BodyFault, inputItems, readCreate } from '../create-body.ts';
import { begunResponse, jsonObject } from '../response-object.ts';
import type { Fields } from '../types.ts';

/** The part of the gateway that a session needs. */
export interface SessionPorts {
  /** Answers a body of `POST /v1/responses` as that route does. */
  create(body: string): Promise<Response>;
  /** Counts a frame, or what is remembered, as a body in memory. @returns a function that gives the bytes back @throws HttpError */
  hold(bytes: number): () => void;
  send(text: string): void;
  now(): number;
  /** Makes the id of a response. */
  newId(): string;
}

/** A response that is not stored, as its connection remembers it. */
interface Remembered {
  id: string;
  /** The stored response that it goes on from; null: from none. */
  stored: string | null;
  /** The JSON of the items since then, with those that it made itself. */
  items: string[];
}

/** The frames that may wait behind a response that is being made. */
const MOST_WAITING = 16;
/** The characters of items that a connection remembers: as many as an input may have. */
const MOST_CHARACTERS = 10_485_760;

/**
 * The responses of one WebSocket, made one after another in the order of their `response.create` frames. It remembers
 * its last response even if that is not stored, so that the next one can go on from it.
 */
export class ResponsesSession {
  readonly #ports: SessionPorts;
  #remembered: Remembered | null = null;
  /** Gives back the bytes of what is remembered. */
  #forget: () => void = () => {};
  #last: Promise<void> = Promise.resolve();
  #waiting = 0;
  /** Functions that give back the bytes of the frames that wait. */
  readonly #held = new Set<() => void>();
  #isClosed = false;
  /** Leaves the answer that is read. */
  #leave: () => void = () => {};

  constructor(ports: SessionPorts) {
    this.#ports = ports;
  }

  /** Takes a frame of the client. */
  onMessage(data: string | ArrayBuffer): void {
    if (this.#waiting >= MOST_WAITING) {
      const message = `More than ${MOST_WAITING} frames wait already: send the next one when a response has ended.`;
      return this.#refuse(429, message, 'rate_limit_exceeded', null);
    }
    let release: () => void;
    try {
      release = this.#ports.hold(typeof data === 'string' ? data.length : data.byteLength);
    } catch (error) {
      return this.#fail(error);
    }
    this.#held.add(release);
    const free = () => {
      if (this.#held.delete(release)) release();
    };
    this.#waiting++;
    this.#last = this.#last
      .then(() => this.#take(typeof data === 'string' ? data : new TextDecoder().decode(data), free))
      .catch((error: unknown) => this.#fail(error))
      .finally(() => {
        this.#waiting--;
        free();
      });
  }

  /** The connection is closed: the answer is left, and frames that wait are forgotten. */
  onClose(): void {
    this.#isClosed = true;
    this.#remember(null, 0);
    for (const release of this.#held) release();
    this.#held.clear();
    this.#leave();
  }

  /** @param free gives back the frame's bytes: the request that is made of it counts its own */
  async #take(text: string, free: () => void): Promise<void> {
    if (this.#isClosed) return;
    const frame = jsonObject(text);
    if (frame?.type !== 'response.create') {
      const message = 'Expected the JSON of an object with "type": "response.create".';
      return this.#refuse(400, message, 'invalid_frame', 'type');
    }
    if (frame.background === true) {
      const message = 'A connection answers as the events come; make a response in the background by HTTP.';
      return this.#refuse(400, message, 'invalid_request_error', 'background');
    }
    const remembered =
      this.#remembered !== null && frame.previous_response_id === this.#remembered.id
        ? this.#remembered
        : null;
    const own = inputItems(frame.input).map(({ json }) => json);
    const items = [...(remembered?.items ?? []), ...own];
    const stored = remembered ? remembered.stored : asId(frame.previous_response_id);
    if (frame.generate === false) return this.#warmUp(frame, { stored, items });
    const body = withMembers(text, {
      type: undefined,
      generate: undefined,
      stream: 'true',
      background: undefined,
      ...(remembered && {
        previous_response_id: stored === null ? undefined : JSON.stringify(stored),
        input: `[${items.join(',')}]`,
      }),
    });
    free();
    const answer = await this.#ports.create(body);
    await this.#pass(answer, frame, { stored, items });
  }

  /** Passes an answer on, an event in each frame. */
  async #pass(answer: Response, frame: Fields, before: Omit<Remembered, 'id'>): Promise<void> {
    if (answer.body === null || !answer.headers.get('content-type')?.startsWith('text/event-stream')) {
      const { error } = jsonObject(await answer.text()) ?? {};
      return this.#ports.send(JSON.stringify({ type: 'error', status: answer.status, error: error ?? null }));
    }
    const reader = answer.body.getReader();
    this.#leave = () => void reader.cancel().catch(() => {});
    if (this.#isClosed) this.#leave();
    for await (const event of eventsOf(reader)) {
      const data = eventData(event);
      if (!data.startsWith('{')) continue;
      if (!data.includes('"response":')) {
        this.#ports.send(data);
        continue;
      }
      const fields = fieldsOf(JSON.parse(data));
      const response = fieldsOf(fields.response);
      this.#note(response, frame, before);
      const previous = asId(frame.previous_response_id);
      this.#ports.send(
        JSON.stringify({ ...fields, response: { ...response, previous_response_id: previous } }),
      );
    }
  }

  /** Answers a frame that only prepares: its items are remembered, and no engine is asked. */
  #warmUp(frame: Fields, before: Omit<Remembered, 'id'>): void {
    readCreate(frame, false);
    const own = { id: this.#ports.newId(), store: false, output: [] };
    const previous = asId(frame.previous_response_id);
    const begun = {
      ...begunResponse(frame, own, this.#ports.now()),
      previous_response_id: previous,
    };
    const event = (type: string, sequence_number: number, status: string) => {
      const response = { ...begun, status };
      this.#note(response, frame, before);
      this.#ports.send(JSON.stringify({ type, sequence_number, response }));
    };
    event('response.created', 0, 'in_progress');
    event('response.completed', 1, 'completed');
  }

  /** Remembers a response that has ended and is not stored. One in a conversation is not remembered: that goes on from it. */
  #note(response: Fields, frame: Fields, { stored, items }: Omit<Remembered, 'id'>): void {
    const { id, status, store, output } = response;
    if (store !== false || (status !== 'completed' && status !== 'incomplete')) return;
    const made = Array.isArray(output) ? output.map((item) => JSON.stringify(item)) : [];
    const all = [...items, ...made];
    const characters = all.reduce((sum, { length }) => sum + length, 0);
    const isKept = (frame.conversation ?? null) === null && characters <= MOST_CHARACTERS;
    this.#remember(isKept ? { id: String(id), stored, items: all } : null, characters);
  }

  /**
   * Remembers a response, in the place of the one before. It counts as a body that waits: where there is no room for it,
   * nothing is remembered.
   */
  #remember(response: Remembered | null, characters: number): void {
    this.#forget();
    this.#forget = () => {};
    this.#remembered = null;
    if (response === null || this.#isClosed) return;
    try {
      this.#forget = this.#ports.hold(characters);
      this.#remembered = response;
    } catch (error) {
      if (!(error instanceof HttpError)) throw error;
    }
  }

  #fail(error: unknown): void {
    if (error instanceof HttpError) return this.#refuse(error.status, error.message, error.code, null);
    if (!(error instanceof BodyFault))
      return this.#refuse(500, (error as Error).message, 'server_error', null);
    this.#refuse(400, error.message, error.code ?? 'invalid_request_error', error.param);
  }

  #refuse(status: number, message: string, code: string | null, param: string | null): void {
    const error = { message, type: openAIType(status), param, code };
    this.#ports.send(JSON.stringify({ type: 'error', status, error }));
  }
}

function asId(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

/** Cuts a stream into its events. */
async function* eventsOf(reader: ReadableStreamDefaultReader<Uint8Array>): AsyncGenerator<string> {
  const cutter = new EventCutter();
  const decoder = new TextDecoder();
  for (;;) {
    const { value: piece, done } = await reader.read();
    if (done) return;
    const whole = cutter.push(piece);
    if (whole !== null) yield* splitEvents(decoder.decode(whole));
  }
}
