import {
  isTaken,
  type Platform,
  type PlatformAnswer,
  type PlatformPost,
} from '../../src/worker/runpod/platform.ts';
import type { Random } from '../support/random.ts';
import type { VirtualClock } from '../support/virtual-clock.ts';
import type { WorldJob } from './job.ts';
import type { Seen } from './promises.ts';

/** A job that no ping has named for so long is given again, ms. */
const LOST_AFTER_MS = 45_000;
const HOLD_MS = 20_000;

/** RunPod's platform on virtual time, with accidents. */
export class WorldPlatform {
  readonly jobs: WorldJob[] = [];
  /** Nothing goes wrong any more. */
  isCalm = false;
  readonly #clock: VirtualClock;
  readonly #random: Random;
  readonly #note: (text: string) => void;
  readonly #toStop: string[] = [];

  constructor(clock: VirtualClock, random: Random, note: (text: string) => void) {
    this.#clock = clock;
    this.#random = random;
    this.#note = note;
  }

  submit(id: string, input: unknown): void {
    const status = 'queued' as const;
    const namedAtMs = 0;
    this.jobs.push({ id, input, status, gives: 0, pieces: [], output: null, error: null, namedAtMs });
  }

  stop(job: WorldJob): void {
    if (job.status === 'done') return;
    job.status = 'stopped';
    this.#note(`${job.id} is cancelled`);
    this.#toStop.push(job.id);
  }

  /** As one process sees it. @param isAlive what a dead one sends never arrives, nor does an answer to it */
  seenBy(seen: Seen, isAlive: () => boolean): Platform {
    const reach = <T>(act: () => T | Promise<T>, signal?: AbortSignal) => this.#reach(act, isAlive, signal);
    return {
      take: async (wanted, _isBusy, signal) => {
        seen.asksForJobs(this.#clock.now());
        const answer = await reach(() => this.#take(wanted, signal), signal);
        if (isTaken(answer)) seen.given(idsIn(answer.body));
        seen.takeAnswered(answer.status, this.#clock.now());
        return answer;
      },
      stops: async (_isBusy, signal) => {
        const answer = await reach(() => this.#stops(signal), signal);
        const { jobsToStop = [] } = Object(answer.body) as { jobsToStop?: string[] };
        seen.toldToStop(jobsToStop, this.#clock.now());
        return answer;
      },
      post: async (post, signal) => {
        seen.posts(post);
        const answer = await reach(() => this.#post(post, seen.name), signal);
        seen.postAnswered(post, isTaken(answer), isFinal(answer));
        return answer;
      },
      ping: (ids) => {
        seen.pings(ids);
        return reach(() => this.#ping(ids));
      },
    };
  }

  /** A request on its way, what becomes of it there, and its answer on its way back. */
  async #reach<T>(
    act: () => T | Promise<T>,
    isAlive: () => boolean,
    signal?: AbortSignal,
  ): Promise<PlatformAnswer> {
    await this.#sleep(this.#random.wait(20));
    if (!isAlive()) return await new Promise<never>(() => {});
    if (signal?.aborted || this.#strikes(0.05)) return none('closed');
    if (this.#strikes(0.1)) return refused(this.#random.pick([429, 500, 502, 408]));
    const body = await act();
    await this.#sleep(this.#random.wait(20));
    if (!isAlive()) return await new Promise<never>(() => {});
    // The answer is lost: what it was about has taken effect.
    if (signal?.aborted || this.#strikes(0.05)) return none('lost');
    return typeof body === 'number' ? refused(body) : { status: 200, body, problem: '' };
  }

  async #take(wanted: number, signal: AbortSignal): Promise<unknown> {
    const until = this.#clock.now() + HOLD_MS;
    for (;;) {
      this.#takeBack();
      const jobs = this.jobs.filter(({ status }) => status === 'queued').slice(0, wanted);
      // Now and then one that is somebody's already.
      const again = this.jobs.filter(({ status }) => status === 'given');
      if (jobs.length > 0 && again.length > 0 && this.#strikes(0.1)) jobs.push(this.#random.pick(again));
      if (jobs.length > 0) return jobs.map((job) => this.#give(job));
      if (this.#clock.now() >= until || signal.aborted) return 204;
      await this.#sleep(250);
    }
  }

  #give(job: WorldJob): object {
    this.#note(`${job.id} is given`);
    Object.assign(job, { status: 'given', gives: job.gives + 1, pieces: [], namedAtMs: this.#clock.now() });
    return { id: job.id, input: job.input };
  }

  async #stops(signal: AbortSignal): Promise<unknown> {
    const until = this.#clock.now() + HOLD_MS;
    while (this.#toStop.length === 0) {
      if (this.#clock.now() >= until || signal.aborted) return 204;
      await this.#sleep(250);
    }
    return { jobsToStop: this.#toStop.splice(0) };
  }

  #ping(ids: readonly string[]): object {
    for (const job of this.jobs) if (ids.includes(job.id)) job.namedAtMs = this.#clock.now();
    return {};
  }

  #post({ to, jobId, body }: PlatformPost, by: string): unknown {
    const job = this.jobs.find(({ id }) => id === jobId);
    this.#note(`${by} posts to ${to} of ${jobId} (${job?.status}): ${body}`);
    if (!job || job.status === 'stopped' || job.status === 'done') return 400;
    const { output, error } = JSON.parse(body) as { output?: never; error?: string };
    if (to === 'stream') job.pieces.push(output);
    else Object.assign(job, { status: 'done', output: output ?? null, error: error ?? null });
    return {};
  }

  #takeBack(): void {
    const now = this.#clock.now();
    for (const job of this.jobs) {
      if (job.status === 'given' && now - job.namedAtMs > LOST_AFTER_MS) job.status = 'queued';
    }
  }

  #strikes(probability: number): boolean {
    return !this.isCalm && this.#random.chance(probability);
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.#clock.setTimeout(resolve, ms));
  }
}

function idsIn(body: unknown): string[] {
  return Array.isArray(body) ? body.map(({ id }: { id: string }) => id) : [];
}

/** Not with the worker's own eyes: what it takes for final may be its mistake. */
function isFinal({ status }: PlatformAnswer): boolean {
  return status === 400;
}

function none(problem: string): PlatformAnswer {
  return { status: null, mayHaveReached: true, body: undefined, problem };
}

function refused(status: number): PlatformAnswer {
  return { status, body: undefined, problem: `HTTP ${status}` };
}
