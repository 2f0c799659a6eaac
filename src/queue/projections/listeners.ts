import { isSettled } from '../../protocol/index.ts';
import type { JobEvent } from '../events/event.ts';
import type { Projection } from '../events/projection.ts';
import { maySee, type SettledJobs, type Viewer } from '../rpc.ts';
import type { Core } from '../state/state.ts';
import { viewOf } from '../store/job-view.ts';

/**
 * Answers a listener's question.
 * @param why `settled`: the listener may take settled jobs, if there are any. `superseded`: it may take none, since it
 * asked anew or left. `leaving`: the queue's process is about to end, and answers no more
 */
type Answer = (why: 'settled' | 'superseded' | 'leaving') => void;

/** A program that listens for many jobs. */
interface Listener {
  readonly watched: Set<string>;
  /** Jobs that are settled and not reported yet, oldest first. */
  readonly settled: Set<string>;
  /** The listener's question that waits for an answer until then, epoch ms; null if there is none. */
  asked: { until: number; answer: Answer } | null;
  /** Whether the listener was asked to name its jobs. */
  hasAsked: boolean;
  /** Epoch ms after which the listener is forgotten if it does not ask again. */
  forgotten_at: number;
}

/** A listener that does not ask again within this many ms is gone. */
const FORGOTTEN_AFTER_MS = 60_000;

/**
 * Programs that take all their settled jobs by one call at a time. Between two calls of a listener the queue keeps ids;
 * the results stay in their rows. All of it is memory: a listener's first call after a restart of the queue, or after
 * it was forgotten, is answered by asking it to name its jobs.
 */
export class Listeners implements Projection {
  readonly #byId = new Map<string, Listener>();
  readonly #byJob = new Map<string, Set<Listener>>();
  readonly #toAnswer = new Set<Listener>();
  readonly #now: () => number;

  constructor({ now }: Pick<Core, 'now'>) {
    this.#now = now;
  }

  /** Makes a listener listen for a job. @param isSettled whether the job is over, so that the next answer reports it */
  listen(id: string, jobId: string, isSettled: boolean): void {
    const listener = this.#byId.get(id) ?? this.#add(id);
    if (isSettled) return this.#settle(listener, jobId);
    listener.watched.add(jobId);
    const others = this.#byJob.get(jobId);
    if (others) others.add(listener);
    else this.#byJob.set(jobId, new Set([listener]));
  }

  /** Marks a job that has settled for all that listen for it. */
  after({ job, ending }: JobEvent): void {
    const hasSettled = ending !== undefined && job.mode === 'stored';
    const listeners = !hasSettled ? undefined : this.#byJob.get(job.id);
    if (!listeners) return;
    this.#byJob.delete(job.id);
    for (const listener of listeners) {
      listener.watched.delete(job.id);
      this.#settle(listener, job.id);
    }
  }

  /**
   * Asks for what is settled. A listener has one question at a time: a newer one ends the older with nothing.
   * @param until epoch ms at which it is answered in any case
   * @param answer is called once; after `settled`, `take` says what there is
   * @returns false if the listener has not asked before: jobs that it named earlier may be forgotten, and it has to
   * name them again
   */
  ask(id: string, until: number, answer: Answer): boolean {
    const listener = this.#byId.get(id) ?? this.#add(id);
    if (!listener.hasAsked) {
      listener.hasAsked = true;
      return false;
    }
    listener.asked?.answer('superseded');
    listener.asked = { until, answer };
    if (listener.settled.size > 0) this.#toAnswer.add(listener);
    return true;
  }

  /** Takes the oldest settled job that was not taken yet; null if there is none. */
  take(id: string): string | null {
    const settled = this.#byId.get(id)?.settled;
    for (const jobId of settled ?? []) {
      settled?.delete(jobId);
      return jobId;
    }
    return null;
  }

  /** Answers listeners that have a settled job. Called after every commit. */
  answerAll(): void {
    for (const listener of this.#toAnswer) this.#answer(listener);
    this.#toAnswer.clear();
  }

  /** Answers listeners whose time is over, and forgets those that have not asked again for long. */
  due(): void {
    const now = this.#now();
    for (const [id, listener] of this.#byId) {
      if (listener.asked && listener.asked.until <= now) this.#answer(listener);
      else if (!listener.asked && listener.forgotten_at <= now) this.leave(id);
    }
  }

  /** Forgets a listener that listens no more. */
  leave(id: string): void {
    const listener = this.#byId.get(id);
    if (!listener) return;
    this.#byId.delete(id);
    this.#toAnswer.delete(listener);
    listener.asked?.answer('superseded');
    for (const jobId of listener.watched) {
      const others = this.#byJob.get(jobId);
      others?.delete(listener);
      if (others?.size === 0) this.#byJob.delete(jobId);
    }
  }

  /** Answers every listener that waits with `leaving`, since the process ends. */
  endAll(): void {
    for (const { asked } of this.#byId.values()) asked?.answer('leaving');
    this.#byId.clear();
    this.#byJob.clear();
    this.#toAnswer.clear();
  }

  /** Epoch ms at which `due` may have something to do; null if there is no listener. */
  get dueAt(): number | null {
    let soonest: number | null = null;
    for (const { asked, forgotten_at } of this.#byId.values()) {
      const at = asked?.until ?? forgotten_at;
      if (soonest === null || at < soonest) soonest = at;
    }
    return soonest;
  }

  #add(id: string): Listener {
    const listener: Listener = {
      watched: new Set(),
      settled: new Set(),
      asked: null,
      hasAsked: false,
      forgotten_at: this.#now() + FORGOTTEN_AFTER_MS,
    };
    this.#byId.set(id, listener);
    return listener;
  }

  #settle(listener: Listener, jobId: string): void {
    listener.settled.add(jobId);
    if (listener.asked) this.#toAnswer.add(listener);
  }

  #answer(listener: Listener): void {
    const { asked } = listener;
    listener.asked = null;
    listener.forgotten_at = this.#now() + FORGOTTEN_AFTER_MS;
    asked?.answer('settled');
  }
}

/** The most characters that one answer holds, about; the rest comes with the next. */
const ANSWER_CHARACTERS = 4_000_000;
/** The most results in files that one answer may name: the gateway reads them side by side, all in memory. */
const LONG_RESULTS = 4;

/** Listens for jobs by id. @returns the ids under which there is no job, or none for this viewer */
export function listen(core: Core, listener: string, jobIds: readonly string[], viewer: Viewer): string[] {
  return jobIds.filter((id) => {
    const job = core.stored.find(id);
    if (job === null || !maySee(viewer, job.tenant)) return true;
    core.projections.get(Listeners).listen(listener, id, isSettled(job.state));
    return false;
  });
}

/** Forgets a listener that is gone. */
export function leaveListener(core: Core, listener: string): void {
  core.projections.get(Listeners).leave(listener);
}

/** Answers as soon as jobs that the listener listens for have settled, or with none after `waitMs`. */
export function nextSettled(
  core: Core,
  listener: string,
  waitMs: number,
  answer: (settled: SettledJobs) => void,
): void {
  const listeners = core.projections.get(Listeners);
  const until = core.now() + waitMs;
  const isKnown = listeners.ask(listener, until, (why) =>
    answer({
      listener: why === 'leaving' ? 'leaving' : 'known',
      jobs: why === 'settled' ? takeSettled(core, listener) : [],
    }),
  );
  if (!isKnown) answer({ listener: 'unknown', jobs: [] });
}

function takeSettled(core: Core, listener: string): SettledJobs['jobs'] {
  const jobs: SettledJobs['jobs'] = [];
  for (let characters = 0, long = 0; characters < ANSWER_CHARACTERS && long < LONG_RESULTS; ) {
    const jobId = core.projections.get(Listeners).take(listener);
    if (jobId === null) break;
    const told = settledText(core, jobId);
    // The queue has forgotten the job meanwhile.
    if (told === null) continue;
    jobs.push({ id: jobId, view: told.view });
    characters += told.view.length;
    if (told.isLong) long += 1;
  }
  return jobs;
}

/**
 * Writes a settled job as JSON, with the text of the result in its row.
 * @returns `isLong`: the result is left out; the program reads it at the job's own address
 */
function settledText(core: Core, jobId: string): { view: string; isLong: boolean } | null {
  const job = core.stored.find(jobId);
  if (job === null) return null;
  const { result: _, ...view } = viewOf(core.sql, job, false);
  const head = JSON.stringify(view).slice(0, -1);
  if (job.state !== 'succeeded') return { view: `${head},"result":null}`, isLong: false };
  if (job.result_file !== null)
    return { view: `${head},"result":null,"has_long_result":true}`, isLong: true };
  return { view: `${head},"result":${core.stored.takeResult(jobId) ?? 'null'}}`, isLong: false };
}
