import { DatabaseSync } from 'node:sqlite';
import type { QueueStub } from '../../src/asking/objects.ts';
import type { ObjectHost } from '../../src/durable/host.ts';
import type { Row } from '../../src/durable/ports.ts';
import { inputItems, newItem, newResponse, readCreate } from '../../src/features/responses/create-body.ts';
import { LISTENER, responsesAsk } from '../../src/features/responses/gateway/asks.ts';
import { ownFields } from '../../src/features/responses/gateway/create.ts';
import { ResponsesObject, type ResponsesSettings } from '../../src/features/responses/object/object.ts';
import { begunResponse } from '../../src/features/responses/response-object.ts';
import type { EndedResponse, Fields, NewResponse } from '../../src/features/responses/types.ts';
import type { Env } from '../../src/gateway/env.ts';
import type { BrokenReason } from '../../src/protocol/index.ts';
import type { SubmitJob } from '../../src/queue/rpc.ts';
import { responseOf } from '../../src/relay/object/responses.ts';
import { playedObjects } from './objects.ts';
import { type FakeConnection, QueueHarness } from './queue-harness.ts';
import { settled, VirtualClock } from './virtual-clock.ts';

/** The answer of an attempt, which the test plays piece by piece. */
export class PlayedReplay {
  readonly response: Response;
  #controller!: ReadableStreamDefaultController<Uint8Array>;
  /** Whether its reader has left. */
  #isLeft = false;

  constructor() {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#controller = controller;
      },
      cancel: () => {
        this.#isLeft = true;
      },
    });
    this.response = new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  }

  say(...events: Fields[]): void {
    this.write(streamOf(events));
  }

  write(text: string): void {
    if (!this.#isLeft) this.#controller.enqueue(new TextEncoder().encode(text));
  }

  end(): void {
    if (!this.#isLeft) this.#controller.close();
  }

  break(): void {
    if (!this.#isLeft) this.#controller.error(new Error('the relay is gone'));
  }
}

/** Writes events as an engine does. */
export function streamOf(events: readonly Fields[]): string {
  return events
    .map(
      (event, sequence_number) =>
        `event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number })}\n\n`,
    )
    .join('');
}

const USUAL: ResponsesSettings = {
  retention_seconds: 30 * 86_400,
  conversations_retention_seconds: null,
};

/** More bytes than any list of items has here. */
export const ROOM = 1_000_000;

/** The end of a response with one message. */
export function ending(text: string, status: EndedResponse['status'] = 'completed'): EndedResponse {
  const part = { type: 'output_text', text, annotations: [] };
  return { status, body: '{}', output: [newItem({ type: 'message', role: 'assistant', content: [part] })] };
}

/** The most bytes of a value, as Cloudflare has it. */
const ROW_BYTES = 2_000_000;

/** @throws Error as SQLite does for a value that is too long */
function withinRow(values: readonly unknown[]): true {
  for (const value of values)
    if (typeof value === 'string' && Buffer.byteLength(value) > ROW_BYTES)
      throw new Error('string or blob too big: SQLITE_TOOBIG');
  return true;
}

/** The object of responses over real SQLite and the rules of a real queue, with a clock that the test moves. */
export class ResponsesHarness {
  readonly queue = new QueueHarness();
  readonly replays = new Map<number, PlayedReplay>();
  readonly database = new DatabaseSync(':memory:');
  object!: ResponsesObject;
  /** What was posted to the receiver of events, and how it answers. */
  readonly posts: { headers: Record<string, string>; text: string }[] = [];
  answers = 200;
  readonly webhooks = {
    WEBHOOK_URL: 'https://hooks.test/events',
    WEBHOOK_HOSTS: 'hooks.test',
    WEBHOOK_SECRET: `whsec_${Buffer.alloc(32, 7).toString('base64')}`,
  };
  alarmAt: number | null = null;
  /** Why the relay breaks the next answer that it is asked for; null: it does not. */
  broken: BrokenReason | null = null;
  /** How long a cancelled job's worker is waited for, ms: the workers of most tests report nothing. */
  reportMs = 0;
  readonly #settings: ResponsesSettings;
  #clock = new VirtualClock();
  /** Counts up with each life of the object: an earlier one does nothing more. */
  #life = 0;

  constructor(settings: Partial<ResponsesSettings> = {}) {
    // As the Node host has it.
    this.database.exec('PRAGMA page_size = 8192');
    this.#settings = { ...USUAL, ...settings };
    this.restart();
  }

  /** The object ends, and begins again from its tables. */
  restart(): void {
    this.#life += 1;
    const env: Env = {
      objects: playedObjects({
        queue: () => this.#calls(this.#life),
        fleet: () => ({ eraseError: async () => {} }),
        keptRequests: () => ({ erase: async () => 0 }),
        relay: () => ({ openReplay: async (stream: number) => this.#openReplay(stream) }),
      }),
    };
    this.object = new ResponsesObject(this.#host(this.#life), this.#settings, responsesAsk(env, 'q'), {
      settings: this.webhooks,
      post:
        () =>
        async (_, { body, headers }) => {
          this.posts.push({ headers: headers as Record<string, string>, text: String(body) });
          return new Response(null, { status: this.answers });
        },
    });
  }

  /** The process of queue and gateway ends, and begins again. */
  restartAll(): void {
    this.queue.restart();
    this.replays.clear();
    this.restart();
  }

  #openReplay(stream: number): Response {
    const broken = this.broken;
    this.broken = null;
    return broken === null ? this.replay(stream).response : responseOf({ broken }, {});
  }

  replay(stream: number): PlayedReplay {
    const replay = this.replays.get(stream) ?? new PlayedReplay();
    this.replays.set(stream, replay);
    return replay;
  }

  /** Stores a response in the background. Its job is submitted too unless `isSubmitted` is false. */
  async create(body: Fields, tenant: string | null = null, isSubmitted = true): Promise<NewResponse> {
    const fields = readCreate({ model: 'tiny', input: 'Hi', background: true, ...body }, true);
    const asked = newResponse('q', fields, { tenant, token_name: tenant }, '{}');
    asked.echo = JSON.stringify(begunResponse(body, ownFields(asked, fields.metadata), this.#clock.now()));
    const prepared = await this.object.prepare(asked, tenant, {
      job: asked.id,
      stored_bytes: null,
      history_bytes: ROOM,
    });
    if ('status' in prepared) throw new Error(prepared.message);
    if (isSubmitted) this.submit(asked);
    await settled();
    return asked;
  }

  /** Makes a conversation with these messages of the user. */
  async conversation(tenant: string | null = null, ...texts: string[]): Promise<string> {
    const items = texts.flatMap((text) => inputItems(text));
    const made = await this.object.createConversation(tenant, {}, items, null);
    return String(Object(made).id);
  }

  /** Begins a response whose caller waits for it. */
  async begin(
    body: Fields,
    tenant: string | null = null,
    stored_bytes: number | null = null,
    history_bytes = ROOM,
  ) {
    const fields = readCreate({ model: 'tiny', input: 'Hi', ...body }, true);
    const asked = newResponse('q', fields, { tenant, token_name: tenant }, '{}');
    return {
      asked,
      said: await this.object.prepare(asked, tenant, {
        job: `req-${asked.id}`,
        stored_bytes,
        history_bytes,
      }),
    };
  }

  submit(asked: NewResponse, more: Partial<SubmitJob> = {}): void {
    const engineBody = JSON.stringify({ model: 'tiny', input: 'Hi', stream: asked.stream });
    const job: SubmitJob = {
      id: asked.id,
      job_type: 'engine_request',
      payload: JSON.stringify({ method: 'POST', path: '/v1/responses', body: engineBody }),
      priority: 0,
      max_attempts: 3,
      config_id: 'cfg',
      stream: asked.stream,
      ...more,
    };
    this.queue.queue.do('submitAndListen', [job], [asked.id], LISTENER);
    this.queue.queue.beforeCommit();
    this.queue.queue.answerListeners();
  }

  /** A worker says how its job ended. */
  result(worker: FakeConnection, body: unknown): void {
    const { job_id, fence_token } = worker.lastJob();
    this.say(worker, {
      type: 'job_result',
      job_id,
      fence_token,
      result: { response: { status: 200, body } },
    });
  }

  error(worker: FakeConnection, failure: Fields): void {
    const { job_id, fence_token } = worker.lastJob();
    this.say(worker, { type: 'job_error', job_id, fence_token, ...failure });
  }

  say(worker: FakeConnection, frame: Fields): void {
    this.queue.say(worker, frame);
    this.queue.queue.answerListeners();
  }

  /** Lets so many ms pass for all, alarms included. */
  async advance(ms: number): Promise<void> {
    for (let left = ms; left >= 0; left -= 1000) {
      const step = Math.min(left, 1000);
      this.queue.advance(step / 1000);
      this.queue.queue.answerListeners();
      await this.#clock.advance(step);
      if (this.alarmAt !== null && this.alarmAt <= this.#clock.now()) {
        this.alarmAt = null;
        await this.object.alarm();
      }
      if (left === 0) break;
    }
    await settled();
  }

  async status(id: string): Promise<string | null> {
    return String((await this.object.get(id, null))?.response.status ?? 'missing');
  }

  /** Returns the events of a response, without waiting. */
  async events(id: string, after = -1): Promise<Fields[]> {
    const page = await this.object.events(id, after, 0, null);
    if (typeof page === 'string') throw new Error(page);
    return page.text
      .split('\n\n')
      .filter(Boolean)
      .map((event) => JSON.parse(event.slice(event.indexOf('data: ') + 6)) as Fields);
  }

  #calls(life: number): Partial<QueueStub> {
    const { queue } = this.queue;
    /** An answer for an object that has ended is lost. */
    const told = <T>(ask: (answer: (value: T) => void) => void) =>
      new Promise<T>((answer) => {
        ask((value) => {
          if (life === this.#life) answer(value);
        });
        this.queue.queue.answerListeners();
      });
    const command = <T>(value: T) => {
      this.queue.queue.beforeCommit();
      this.queue.queue.answerListeners();
      return value;
    };
    return {
      listen: async (listener, ids) => queue.do('listen', listener, ids, null),
      nextSettled: (listener, waitMs) =>
        told((answer) => queue.wait('nextSettled', listener, waitMs, answer)),
      leaveListener: async (listener) => queue.do('leaveListener', listener),
      follow: (id, fence, waitMs) => told((answer) => queue.wait('follow', id, fence, waitMs, null, answer)),
      used: (id) => told((answer) => queue.wait('used', id, this.reportMs, null, answer)),
      get: async (id) => queue.read('get', id, null),
      ownerOf: async (id) => queue.read('ownerOf', id),
      contents: async (id, kind) => queue.read('contents', id, kind, null),
      eraseContents: async (id) => command(queue.do('eraseContents', id)),
      cancel: async (id, reason) => command(queue.do('cancel', id, reason, null)),
    };
  }

  #host(life: number): ObjectHost {
    const ofLife = <T>(work: () => T): T => {
      if (life !== this.#life) throw new Error('this object has ended');
      return work();
    };
    return {
      queueId: 'q',
      sql: {
        exec: (query, ...bindings) =>
          ofLife(
            () => withinRow(bindings) && (this.database.prepare(query).all(...bindings) as unknown as Row[]),
          ),
      },
      transaction: (work) => {
        this.database.exec('SAVEPOINT work');
        try {
          const value = ofLife(work);
          this.database.exec('RELEASE work');
          return value;
        } catch (error) {
          this.database.exec('ROLLBACK TO work');
          this.database.exec('RELEASE work');
          throw error;
        }
      },
      alarm: {
        get: () => this.alarmAt,
        set: (at) => {
          this.alarmAt = at;
        },
        clear: () => {
          this.alarmAt = null;
        },
      },
      now: () => this.#clock.now(),
      after: (ms, run) => {
        const timer = this.#clock.setTimeout(() => life === this.#life && run(), ms);
        return () => this.#clock.clearTimeout(timer);
      },
      background: (work) => void work.catch(() => {}),
      log: () => {},
    } as Partial<ObjectHost> as ObjectHost;
  }
}
