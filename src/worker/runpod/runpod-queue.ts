import { type Job, PING_TEXT, PONG_TEXT, type QueueFrame, type WorkerFrame } from '../../protocol/index.ts';
import type { Clock } from '../clock.ts';
import type { Settlement } from '../jobs/settlement.ts';
import type { InsideQueue, Ports } from '../ports.ts';
import type { Dial, Socket, SocketEvents } from '../session/socket.ts';
import { InsideConnection } from './inside-connection.ts';
import { JobAnswer, outcomeOf } from './job-answer.ts';
import { type Platform, readTakenJob, type TakenJob } from './platform.ts';
import { Pings, Polling } from './polling.ts';

/** The address that the worker dials; it names nothing outside this process. */
export const RUNPOD_URL = 'ws://runpod';
/** The fence token of every attempt: the platform has neither leases nor fences. */
const FENCE = 1;
/** The pause between two requests for jobs to stop, ms, as in RunPod's SDK. */
const STOP_PAUSE_MS = 1000;
/** A job that the worker gave back because it could not run it is offered again after this time, ms. */
const GIVE_AGAIN_MS = 250;

export interface RunpodQueuePorts extends Pick<Ports, 'random' | 'log'> {
  clock: Clock;
  platform: Platform;
  pingIntervalMs: number;
  /** Whether the worker runs only one job: its result asks the platform for a new worker. */
  refreshes: boolean;
  /** Called when the job of a worker that `refreshes` is over. */
  refresh(): void;
}

/** A job that the platform counts as this worker's. */
interface HeldJob {
  /** The job; null: an earlier process left its result. */
  job: TakenJob | null;
  answer: JobAnswer;
  stream: number;
  /** True while the worker runs the job. */
  isRunning: boolean;
}

/**
 * RunPod's queue as a peer of the worker. To the worker it is a queue in this process, at the other end of its control
 * socket, which takes outputs and settlements as values. To the platform it is the loop of RunPod's SDK. So slots,
 * drain, outbox and spool work as with any queue.
 *
 * Jobs that the platform gives beyond the free slots, or while the engine is away, wait here and are named in pings. A
 * job that the worker releases waits here again; at the end of a drain it is not reported, so that the platform gives
 * it to another worker.
 */
export class RunpodQueue implements InsideQueue {
  readonly #ports: RunpodQueuePorts;
  readonly #held = new Map<string, HeldJob>();
  readonly #byStream = new Map<number, HeldJob>();
  readonly #takes: Polling;
  readonly #stops: Polling | null;
  readonly #pings: Pings;
  #control: InsideConnection | null = null;
  #capacity = 0;
  #isPaused = false;
  #nextStream = 1;
  #quiet: (() => void) | null = null;

  constructor(ports: RunpodQueuePorts) {
    const { platform } = ports;
    this.#ports = ports;
    this.#pings = new Pings({ ...ports, held: () => this.held });
    this.#takes = new Polling({
      ...ports,
      ask: (signal) => {
        const wanted = this.#wanted;
        return wanted > 0 ? platform.take(wanted, this.#held.size > 0, signal) : null;
      },
      received: (body) => this.#received(body),
      idlePauseMs: 0,
      says: { begins: 'RunPod gives no jobs; asking again', ends: 'RunPod answers again' },
    });
    const { stops } = platform;
    this.#stops =
      stops &&
      new Polling({
        ...ports,
        ask: (signal) => stops(this.#held.size > 0, signal),
        received: (body) => this.#stopAll(body),
        idlePauseMs: STOP_PAUSE_MS,
        says: {
          begins: 'RunPod does not say which jobs to stop',
          ends: 'RunPod says which jobs to stop again',
        },
      });
  }

  readonly dial: Dial = (_target, worker) => this.#connect(worker);

  yielded(stream: number, output: unknown): void {
    this.#byStream.get(stream)?.answer.yielded(output);
  }

  settled(settlement: Settlement): void {
    const { job_id } = settlement;
    const held = this.#held.get(job_id);
    const outcome = outcomeOf(settlement);
    if (held) held.answer.settle(outcome);
    else this.#hold(job_id, null).answer.settleLate(outcome);
    this.#goOn();
  }

  /** The ids of jobs that are running or waiting here, or whose outcome the platform does not have yet. */
  get held(): string[] {
    return [...this.#held.keys()];
  }

  /**
   * Asks for no more jobs, and gives those that wait here to the worker as its slots become free.
   * @param lingerMs the open request may last this long: a job that arrives together with the signal is run
   * @param limitMs after this time jobs are left waiting
   */
  async stopTaking(lingerMs: number, limitMs: number): Promise<void> {
    const { clock } = this.#ports;
    await this.#takes.stop(Math.min(lingerMs, limitMs));
    if (this.#waiting.length > 0) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = clock.setTimeout(resolve, limitMs);
      this.#quiet = resolve;
      await promise;
      clock.clearTimeout(timer);
    }
    // A job that was given just now is still on its way, and a worker that drains would not run it.
    await new Promise<void>((resolve) => void clock.setImmediate(resolve));
  }

  get #waiting(): HeldJob[] {
    return [...this.#held.values()].filter(({ isRunning, answer }) => !isRunning && !answer.isSettled);
  }

  /** The number of slots that no unsettled job takes or will take. */
  get #wanted(): number {
    if (this.#isPaused) return 0;
    const unsettled = [...this.#held.values()].filter(({ answer }) => !answer.isSettled).length;
    return this.#capacity - unsettled;
  }

  #connect(worker: SocketEvents): Socket {
    const connection = new InsideConnection(this.#ports.clock, worker, {
      text: (text) => this.#hear(text),
      closed: () => this.#close(),
    });
    this.#control = connection;
    return connection.socket;
  }

  #tell(frame: QueueFrame): void {
    this.#control?.frame(frame);
  }

  #hear(text: string): void {
    if (text === PING_TEXT) return this.#control?.text(PONG_TEXT);
    for (const frame of [JSON.parse(text) as WorkerFrame | WorkerFrame[]].flat()) this.#take(frame);
  }

  #take(frame: WorkerFrame): void {
    switch (frame.type) {
      case 'register':
        return this.#register(frame.capacity, frame.jobs?.map(({ job_id }) => job_id) ?? []);
      case 'pause':
      case 'resume':
        this.#isPaused = frame.type === 'pause';
        return this.#goOn();
      case 'drain':
        return this.#takes.end();
      case 'renew':
        return this.#tell({ type: 'renewed', lease_seconds: 3600, lost: [] });
      case 'job_release':
        return this.#released(frame.job_id, frame.reason === 'draining');
    }
  }

  #register(capacity: number, resumed: string[]): void {
    this.#capacity = capacity;
    this.#isPaused = false;
    this.#tell({
      type: 'registered',
      protocol: 1,
      session_id: 'runpod',
      // The worker's jobs have no streams to send there, since outputs go as values.
      answers_url: '',
      lease_seconds: 3600,
      renew_after_seconds: 3600,
      ping_seconds: 3600,
      resumed,
      revoked: [],
    });
    if (capacity === 0) return;
    // The engine is healthy: from now on pings report this worker to the platform.
    this.#pings.start();
    this.#takes.start();
    this.#stops?.start();
    this.#goOn();
  }

  /** Accepts the jobs of an answer. @returns whether there was a job */
  #received(body: unknown): boolean {
    const given = Array.isArray(body) ? body : body ? [body] : [];
    for (const one of given) this.#accept(one);
    this.#goOn();
    return given.length > 0;
  }

  #accept(given: unknown): void {
    const { log } = this.#ports;
    const job = readTakenJob(given);
    if (job === null)
      return log.error({}, 'RunPod gave a job without an id that an address can hold: nobody can answer it');
    // The job is running already, or its result is on its way.
    if (this.#held.has(job.id)) return;
    log.info({ job_id: job.id, ...job.notes }, 'job taken');
    const held = this.#hold(job.id, job);
    if (!job.hasInput) held.answer.settle({ error: 'the job has no input' });
  }

  #hold(jobId: string, job: TakenJob | null): HeldJob {
    const answer = new JobAnswer(jobId, {
      ...this.#ports,
      over: (hasTaken) => {
        this.#forget(jobId);
        const outcome = hasTaken ? 'accepted' : 'unknown';
        this.#tell({ type: 'ack', job_id: jobId, fence_token: FENCE, outcome });
        if (this.#ports.refreshes) this.#ports.refresh();
        this.#goOn();
      },
    });
    const held = { job, answer, stream: this.#nextStream++, isRunning: false };
    this.#held.set(jobId, held);
    this.#byStream.set(held.stream, held);
    return held;
  }

  #forget(jobId: string): void {
    const held = this.#held.get(jobId);
    if (!held) return;
    this.#held.delete(jobId);
    this.#byStream.delete(held.stream);
  }

  /** Gives waiting jobs to the worker, and wakes the poll for the slots still free. */
  #goOn(): void {
    if (!this.#isPaused) {
      const running = [...this.#held.values()].filter((held) => held.isRunning && !held.answer.isSettled);
      const free = Math.max(0, this.#capacity - running.length);
      for (const held of this.#waiting.slice(0, free)) this.#give(held);
    }
    if (this.#waiting.length === 0) this.#quiet?.();
    this.#takes.wake();
  }

  #give(held: HeldJob): void {
    const { id, payload } = held.job!;
    held.isRunning = true;
    const frame: Job = {
      type: 'job',
      job_id: id,
      mode: 'persisted',
      job_type: 'runpod',
      payload,
      fence_token: FENCE,
      stream_id: held.stream,
    };
    this.#tell(frame);
  }

  #released(jobId: string, isForGood: boolean): void {
    const held = this.#held.get(jobId);
    if (!held) return;
    if (isForGood) {
      held.answer.drop();
      return this.#forget(jobId);
    }
    held.isRunning = false;
    this.#ports.clock.setTimeout(() => this.#goOn(), GIVE_AGAIN_MS);
  }

  /** Stops the jobs that an answer names. @returns whether it names any */
  #stopAll(body: unknown): boolean {
    const { jobsToStop } = Object(body) as { jobsToStop?: unknown };
    const ids = Array.isArray(jobsToStop) ? jobsToStop.map(String) : [];
    for (const id of ids) this.#stop(id);
    this.#goOn();
    return ids.length > 0;
  }

  /** Stops a job: nothing more is reported about it, whatever happened to it. */
  #stop(jobId: string): void {
    const held = this.#held.get(jobId);
    if (!held) return;
    this.#ports.log.info({ job_id: jobId }, 'RunPod stops a job');
    held.answer.drop();
    this.#forget(jobId);
    this.#tell({ type: 'job_revoked', job_id: jobId, reason: 'cancelled' });
  }

  #close(): void {
    this.#pings.end();
    this.#takes.end();
    this.#stops?.end();
    for (const { answer } of this.#held.values()) answer.drop();
    this.#held.clear();
    this.#byStream.clear();
  }
}
