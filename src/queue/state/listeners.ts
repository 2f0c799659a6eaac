/**
 * @param why `settled`: what is settled is to be taken, or the time is over. `superseded`: nothing may be taken, since
 * whoever asked has asked anew or is gone. `leaving`: the queue's process is about to end: there will be no more answers
 */
type Answer = (why: 'settled' | 'superseded' | 'leaving') => void;

/** Somebody who listens to many jobs. */
interface Listener {
  /** Jobs it listens for. */
  readonly watched: Set<string>;
  /** Those of them that are settled and were not told yet, oldest first. */
  readonly settled: Set<string>;
  /** Its question that waits for an answer. */
  asked: { until: number; answer: Answer } | null;
  /** It was told to name its jobs. */
  hasAsked: boolean;
  /** Epoch ms after which it is forgotten, should it not ask again. */
  forgotten_at: number;
}

/** One that does not ask again within this time is gone, ms. */
const FORGOTTEN_AFTER_MS = 60_000;

/**
 * Those who hear of all their jobs in one answer, rather than by a question for each. What is settled for one that
 * asks nothing at the moment is kept as an id; the results stay in their rows. All of it is memory: the first question
 * after a restart of the queue, or after it was forgotten, tells a listener to name its jobs, whatever it submitted since.
 */
export class Listeners {
  readonly #byId = new Map<string, Listener>();
  readonly #byJob = new Map<string, Set<Listener>>();
  readonly #toAnswer = new Set<Listener>();
  readonly #now: () => number;

  /** @param now epoch ms */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** @param isSettled it is over already: told with the next answer */
  listen(id: string, jobId: string, isSettled: boolean): void {
    const listener = this.#byId.get(id) ?? this.#add(id);
    if (isSettled) return this.#settle(listener, jobId);
    listener.watched.add(jobId);
    const others = this.#byJob.get(jobId);
    if (others) others.add(listener);
    else this.#byJob.set(jobId, new Set([listener]));
  }

  /** Whether any of them listens for the job. */
  hear(jobId: string): boolean {
    return this.#byJob.has(jobId);
  }

  /** A job is over. */
  settled(jobId: string): void {
    const listeners = this.#byJob.get(jobId);
    if (!listeners) return;
    this.#byJob.delete(jobId);
    for (const listener of listeners) {
      listener.watched.delete(jobId);
      this.#settle(listener, jobId);
    }
  }

  /**
   * Asks for what is settled. A listener has one question at a time: a newer one ends the older with nothing.
   * @param until epoch ms at which it is answered in any case
   * @param answer is called once, by `answerAll`; then `take` says what there is
   * @returns false: it has not asked before, so what it named may be forgotten. All that it names from now on is known
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

  /** The oldest job that is settled and was not taken yet; null: there is none. */
  take(id: string): string | null {
    const settled = this.#byId.get(id)?.settled;
    for (const jobId of settled ?? []) {
      settled?.delete(jobId);
      return jobId;
    }
    return null;
  }

  /** Answers those for whom something was settled since, or whose time is over. Called after every commit. */
  answerAll(): void {
    for (const listener of this.#toAnswer) this.#answer(listener);
    this.#toAnswer.clear();
  }

  /** Answers those whose time is over, and forgets those who have gone without a word. */
  expire(): void {
    const now = this.#now();
    for (const [id, listener] of this.#byId) {
      if (listener.asked && listener.asked.until <= now) this.#answer(listener);
      else if (!listener.asked && listener.forgotten_at <= now) this.leave(id);
    }
  }

  /** It listens no more. */
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

  /** The process ends: every listener that waits is answered so. */
  endAll(): void {
    for (const { asked } of this.#byId.values()) asked?.answer('leaving');
    this.#byId.clear();
    this.#byJob.clear();
    this.#toAnswer.clear();
  }

  /** Epoch ms at which `expire` may have something to do; null: never. */
  get soonest(): number | null {
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
