import { EngineGone, EngineUnreachable } from '../../src/engine/client/types.ts';
import type { Timer } from '../../src/worker/clock.ts';
import type { Ports } from '../../src/worker/ports.ts';
import type { Socket } from '../../src/worker/session/socket.ts';

const PING_EVERY_MS = 30_000;
const PONG_WITHIN_MS = 10_000;
const PROGRESS_EVERY_MS = 30_000;
const RECONNECT_MS = { first: 1000, most: 60_000 };
/** How often its OpenAI client asks the engine in all. */
const ENGINE_TRIES = 3;
const ENGINE_PAUSE_MS = 500;

interface Job {
  job_id: string;
  mode: 'transient' | 'persisted';
  config_id: string;
  fence_token: number;
  payload: Record<string, unknown>;
}

type Settlement = { type: 'job_result'; result: object } | { type: 'job_error'; error: string };

/**
 * The deployed worker that speaks only the base protocol, with what it does to lose work: nothing is listed
 * at a reconnect, nothing acknowledged, a result that is ready while the socket is down is dropped.
 */
export class BaseWorker {
  readonly unacknowledged = 0;
  readonly #ports: Ports;
  readonly #settings: { workerId: string; configId: string; capacity: number };
  readonly #ended: () => void;
  /** Tokens of the persisted jobs that are its own as far as it knows. */
  readonly #tokens = new Map<string, number>();
  #socket: Socket | null = null;
  #isOpen = false;
  #reconnectMs = RECONNECT_MS.first;
  #pingTimer: Timer;
  #pongTimer: Timer;
  #isServing = false;
  #isDraining = false;
  #hasEnded = false;
  running = 0;

  constructor(
    ports: Ports,
    settings: { workerId: string; configId: string; capacity: number },
    ended: () => void,
  ) {
    this.#ports = ports;
    this.#settings = settings;
    this.#ended = ended;
  }

  get state(): string {
    if (this.#isDraining) return 'draining';
    return this.#isOpen ? 'ready' : 'connecting';
  }

  start(): void {}

  /** It looks at its engine only once, at the start. */
  engineHealthy(): void {
    if (this.#isServing) return;
    this.#isServing = true;
    this.#renewLater();
    this.#dial();
  }

  engineUnhealthy(): void {}

  /** Ends without a word about what ran. */
  engineFailed(): void {
    this.#end();
  }

  /** It ends with the first job that is done, whatever else runs. */
  drain(): void {
    this.#isDraining = true;
    this.#send({ type: 'drain' });
    if (this.running === 0) this.#end();
  }

  force(): void {
    this.#end();
  }

  #end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#socket?.close(1000, '');
    this.#ended();
  }

  #dial(): void {
    const { clock, dial } = this.#ports;
    const socket = dial(
      { url: 'ws://queue/ws', token: undefined },
      {
        opened: () => {
          this.#isOpen = true;
          this.#reconnectMs = RECONNECT_MS.first;
          const { workerId, configId, capacity } = this.#settings;
          this.#send({ type: 'register', worker_id: workerId, config_id: configId, capacity });
          this.#pingLater(socket);
        },
        text: (text) => this.#onText(text),
        binary: () => {},
        frame: () => {},
        pong: () => clock.clearTimeout(this.#pongTimer),
        closed: () => {
          if (this.#socket !== socket) return;
          this.#isOpen = false;
          clock.clearTimeout(this.#pingTimer);
          clock.clearTimeout(this.#pongTimer);
          clock.setTimeout(() => this.#dial(), this.#reconnectMs * (1 + 0.3 * this.#ports.random()));
          this.#reconnectMs = Math.min(RECONNECT_MS.most, this.#reconnectMs * 2);
        },
      },
    );
    this.#socket = socket;
    // A dial that nobody answers is given up as a ping is.
    this.#pongTimer = clock.setTimeout(() => socket.destroy(), PONG_WITHIN_MS);
  }

  #pingLater(socket: Socket): void {
    const { clock } = this.#ports;
    clock.clearTimeout(this.#pongTimer);
    this.#pingTimer = clock.setTimeout(() => {
      socket.ping();
      this.#pingLater(socket);
      this.#pongTimer = clock.setTimeout(() => socket.destroy(), PONG_WITHIN_MS);
    }, PING_EVERY_MS);
  }

  /** The only renewal, counted from the start and not from the job. */
  #renewLater(): void {
    this.#ports.clock.setTimeout(() => {
      for (const [job_id, fence_token] of this.#tokens)
        this.#send({ type: 'job_progress', job_id, fence_token, status_message: 'processing' });
      this.#renewLater();
    }, PROGRESS_EVERY_MS);
  }

  #onText(text: string): void {
    const frame = JSON.parse(text) as { type: string; job_id: string };
    if (frame.type === 'job_revoked') this.#tokens.delete(frame.job_id);
    if (frame.type === 'job' && !this.#isDraining) void this.#run(frame as typeof frame & Job);
  }

  async #run(job: Job): Promise<void> {
    if (job.mode === 'persisted') this.#tokens.set(job.job_id, job.fence_token);
    this.running += 1;
    const settlement = await this.#answer(job);
    this.running -= 1;
    const fence_token = this.#tokens.get(job.job_id) ?? 0;
    this.#tokens.delete(job.job_id);
    this.#send({ ...settlement, job_id: job.job_id, fence_token });
    if (this.#isDraining) this.#end();
  }

  async #answer({ job_id, config_id, payload }: Job): Promise<Settlement> {
    const { clock, engine } = this.#ports;
    let error = '';
    for (let tries = 1; tries <= ENGINE_TRIES; tries++) {
      if (tries > 1) await new Promise<void>((resolve) => clock.setTimeout(resolve, ENGINE_PAUSE_MS));
      try {
        const { task: _, ...asked } = payload;
        const body = JSON.stringify({ ...asked, model: 'default', stream: false });
        const signal = new AbortController().signal;
        const path = '/v1/chat/completions';
        const answer = await engine.request({ method: 'POST', path, body, requestId: job_id, signal });
        const pieces: Uint8Array[] = [];
        for await (const piece of answer.body) pieces.push(piece);
        const said = JSON.parse(Buffer.concat(pieces).toString());
        if (answer.status === 200) {
          const { id, model, choices, usage } = said;
          const completion = { id, model, choices, usage };
          return {
            type: 'job_result',
            result: { status: 'success', config_id, task: payload.task, completion },
          };
        }
        error = `Error code: ${answer.status} - ${said.error.message}`;
        if (answer.status < 500 && answer.status !== 429) break;
      } catch (thrown) {
        if (!(thrown instanceof EngineGone || thrown instanceof EngineUnreachable)) throw thrown;
        error = 'Connection error.';
      }
    }
    return { type: 'job_error', error };
  }

  /** What cannot be sent now is never sent. */
  #send(frame: object): void {
    if (this.#isOpen) this.#socket?.send(JSON.stringify(frame));
  }
}
