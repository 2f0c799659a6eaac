import { isSettled, type JobView } from '../../../protocol/index.ts';
import { followResponse } from './follower.ts';
import { endOfJob, type JobEnd, NOTHING_USED } from './job-end.ts';
import type { BackgroundPorts } from './ports.ts';
import { attempt, end, NO_JOB, running } from './progress.ts';
import { Readers } from './readers.ts';
import { isAnyRunning, runningResponses } from './tables.ts';

/** A question for settled jobs waits at most this long, ms. */
const QUESTION_MS = 20_000;
/** The pause after a call that failed, ms. */
const PAUSE_MS = 1000;
/** The pause after the queue has restarted, ms. */
const RESTART_MS = 200;
/** A response may be stored before its job. A job that is not there after this time, ms, never will be. */
const SUBMITTED_WITHIN_MS = 60_000;
/** All jobs are named again after this time, ms, since a job may have settled before its response was stored. */
const NAMES_AGAIN_MS = 60_000;
/** The jobs of this many responses are named to the queue at a time. */
const NAMED_AT_ONCE = 1000;

/**
 * Brings each response in the background to its end, which is that of its job: the queue decides, and what it decided
 * is written once, in one commit. Every step may be repeated, so a restart of this object or of the queue loses none.
 */
export class Background {
  readonly #ports: BackgroundPorts;
  readonly #readers: Readers;
  readonly #followed = new Set<string>();
  #isRunning = false;
  /** Epoch ms at which the jobs of all running responses are named to the queue; by then some may be new to it. */
  #namesAt = 0;

  constructor(ports: BackgroundPorts) {
    this.#ports = ports;
    this.#readers = new Readers(ports.after);
  }

  /** Starts the work, unless it goes on already or no response is running. */
  wake(): void {
    if (this.#isRunning || !isAnyRunning(this.#ports.on.sql)) return;
    this.#isRunning = true;
    const run = this.#run().finally(() => {
      this.#isRunning = false;
    });
    this.#ports.background(run);
  }

  /** Brings a response up to what its job is now. */
  async refresh(id: string): Promise<void> {
    const job = await this.#ports.ask.job(id, 0);
    if (job !== null) this.#take(id, job);
  }

  /** Cancels a response, unless its job has come to an end before: the queue decides. */
  async cancel(id: string): Promise<void> {
    const job = await this.#ports.ask.cancel(id);
    if (job !== null) this.#take(id, job);
    else this.#end(id, { kind: 'cancelled', usage: NOTHING_USED });
  }

  /** Erases what the job of a final response was asked and has answered. */
  async erase(id: string): Promise<void> {
    await this.#ports.ask.erase(id);
  }

  /** Resolves when there are further events of a response, when it has ended, or after `waitMs`. */
  news(id: string, waitMs: number): Promise<void> {
    return this.#readers.news(id, waitMs);
  }

  /** Follows the answer of a response that streams, until its end. Called again, it does nothing. */
  follow(id: string): void {
    if (this.#followed.has(id)) return;
    this.#followed.add(id);
    const ports = {
      ...this.#ports,
      refresh: () => this.refresh(id),
      tell: () => this.#readers.tell(id),
    };
    this.#ports.background(followResponse(id, ports).finally(() => this.#followed.delete(id)));
  }

  async #run(): Promise<void> {
    const { ask, on, sleep, log } = this.#ports;
    // The queue forgets a listener that does not ask for a minute.
    this.#namesAt = 0;
    while (isAnyRunning(on.sql)) {
      try {
        if (on.now() >= this.#namesAt) await this.#listen();
        const jobs = await ask.nextSettled(QUESTION_MS);
        const isAllTaken = (jobs ?? []).map((job) => this.#takes(job)).every(Boolean);
        if (jobs !== null && isAllTaken) continue;
        this.#namesAt = 0;
        await sleep(isAllTaken ? RESTART_MS : PAUSE_MS);
      } catch (error) {
        const text = String((error as Error)?.message ?? error);
        log('warn', 'responses in the background wait: the queue cannot be reached', { error: text });
        this.#namesAt = 0;
        await sleep(PAUSE_MS);
      }
    }
  }

  /** Names the jobs of all running responses to the queue. */
  async #listen(): Promise<void> {
    const { ask, on } = this.#ports;
    await ask.listenAnew();
    const all = runningResponses(on.sql);
    const unknown = new Set<string>();
    for (let at = 0; at < all.length; at += NAMED_AT_ONCE)
      for (const id of await ask.listen(all.slice(at, at + NAMED_AT_ONCE).map(({ id }) => id)))
        unknown.add(id);
    this.#namesAt = on.now() + NAMES_AGAIN_MS;
    for (const { id, created_at, is_streamed } of all) {
      if (!unknown.has(id)) {
        if (is_streamed) this.follow(id);
      } else if (on.now() - created_at >= SUBMITTED_WITHIN_MS) this.#end(id, NO_JOB);
    }
  }

  /** Takes the end of a job. @returns false if that failed: the others of its answer are taken nevertheless */
  #takes(job: JobView): boolean {
    try {
      this.#take(job.id, job);
      if (job.state === 'cancelled' || job.state === 'expired')
        this.#ports.background(this.#takeUsage(job.id));
      return true;
    } catch (error) {
      this.#ports.log('warn', 'the end of a response in the background could not be stored; trying again', {
        id: job.id,
        error: String(error),
      });
      return false;
    }
  }

  /** Takes what a job used that was ended while it ran. */
  async #takeUsage(id: string): Promise<void> {
    // A request for the response asks again.
    const job = await this.#ports.ask.job(id, QUESTION_MS).catch(() => null);
    if (job !== null) this.#take(id, job);
  }

  /** Takes what a job is now. */
  #take(id: string, job: JobView): void {
    const { on } = this.#ports;
    if (isSettled(job.state)) this.#end(id, endOfJob(job), job.fence_token);
    else if (job.state === 'leased' && running(on, id)?.status === 'queued') {
      attempt(on, id, job.fence_token);
      this.#readers.tell(id);
    }
  }

  #end(id: string, ending: JobEnd, fence?: number): void {
    const fault = end(this.#ports.on, id, ending, fence);
    if (fault !== null)
      this.#ports.log(
        'warn',
        "a response in the background failed: its engine's answer could not be stored",
        {
          id,
          error: fault.message,
        },
      );
    this.#ports.ended();
    this.#readers.tell(id);
  }
}
