import type { Faults } from './faults.ts';
import type { Metrics } from './metrics.ts';
import type { TokenSource } from './text.ts';

export interface Pace {
  /** The time from a sequence's place in the batch to its first token. */
  time_to_first_token_ms: number;
  /** The time between two tokens of one stream. */
  inter_token_latency_ms: number;
}

export interface Clock {
  /** Returns the time of a monotonic clock, ms. */
  now(): number;
  /** Calls back after the delay (0: as soon as other work has had its turn). Returns how to cancel that. */
  schedule(delayMs: number, callback: () => void): () => void;
}

/** The reason why a sequence ended, with the stop string if that was the reason. */
export interface Finish {
  reason: 'stop' | 'length';
  stopReason: string | null;
}

/** The receiver of one choice's tokens. */
export interface Receiver {
  /** Takes the text of one more token, and its id; the last call has the finish. */
  token(text: string, finish: Finish | null, id: number): void;
  /** Is called after all tokens of a turn. */
  flush(): void;
  /** Is called when the engine has died, after which nothing comes. */
  engineDied(): void;
  /** Breaks the connection after the tokens so far, by the fault `cut_stream_after`. */
  cut(): void;
}

export interface SequenceRequest {
  promptTokens: number;
  maxTokens: number;
  minTokens: number;
  ignoreEos: boolean;
  stop: readonly string[];
  includeStop: boolean;
  source: TokenSource;
  receiver: Receiver;
}

/**
 * One choice of one request.
 *
 * - `waiting` → `running` when the batch has room; → `ended` by abort or the engine's death
 * - `running` → `ended` by its last token, a stop string, abort or the engine's death
 */
interface Sequence extends SequenceRequest {
  state: 'waiting' | 'running' | 'ended';
  arrivedAt: number;
  lastTokenAt: number;
  /** The time at which the next token is due; the pace moves it forward. */
  nextDueAt: number;
  generated: number;
  /** The withheld end of the text, in which a stop string may begin; empty if stop strings are shown. */
  held: string;
}

/** The most tokens that one stream makes in a turn, so that the others get their turn. */
const TOKENS_PER_TURN = 64;

/** The size of the KV cache, tokens, in blocks of vLLM's size on a CPU. */
export const KV_CACHE_TOKENS = 2_097_152;
export const KV_BLOCK_TOKENS = 128;

/**
 * The engine's loop: a batch of at most `maxNumSeqs` sequences, while the others wait in order of arrival.
 * One timer serves all sequences: every turn gives each of them the tokens that are due.
 */
export class Scheduler {
  private readonly waitingQueue: Sequence[] = [];
  private readonly batch = new Set<Sequence>();
  private readonly maxNumSeqs: number;
  private readonly pace: Pace;
  private readonly faults: Faults;
  private readonly metrics: Metrics;
  private readonly clock: Clock;
  private readonly onDeath: () => void;
  private wake: { at: number; cancel: () => void } | null = null;

  /** @param parts.onDeath is called when the fault `die_after_tokens` strikes */
  constructor(parts: {
    maxNumSeqs: number;
    pace: Pace;
    faults: Faults;
    metrics: Metrics;
    clock: Clock;
    onDeath: () => void;
  }) {
    this.maxNumSeqs = parts.maxNumSeqs;
    this.pace = parts.pace;
    this.faults = parts.faults;
    this.metrics = parts.metrics;
    this.clock = parts.clock;
    this.onDeath = parts.onDeath;
  }

  get running(): number {
    return this.batch.size;
  }

  get waiting(): number {
    return this.waitingQueue.length;
  }

  get kvCacheUsage(): number {
    let blocks = 0;
    for (const sequence of this.batch) {
      blocks += Math.ceil((sequence.promptTokens + sequence.generated) / KV_BLOCK_TOKENS);
    }
    return blocks / (KV_CACHE_TOKENS / KV_BLOCK_TOKENS);
  }

  /** Queues one sequence; returns how to abort it. */
  add(request: SequenceRequest): () => void {
    const now = this.clock.now();
    const sequence: Sequence = {
      ...request,
      state: 'waiting',
      arrivedAt: now,
      lastTokenAt: now,
      nextDueAt: now,
      generated: 0,
      held: '',
    };
    this.waitingQueue.push(sequence);
    this.wakeAt(now);
    return () => this.end(sequence);
  }

  /** Ends every sequence with an error for its receiver, since the engine dies. */
  failAll(): void {
    for (const sequence of [...this.batch, ...this.waitingQueue]) {
      this.end(sequence);
      sequence.receiver.engineDied();
    }
  }

  /** Applies a change of faults or pace; the owner calls it after each. */
  settingsChanged(): void {
    const now = this.clock.now();
    for (const sequence of this.batch) {
      const delay = sequence.generated ? this.pace.inter_token_latency_ms : this.pace.time_to_first_token_ms;
      sequence.nextDueAt = now + delay;
    }
    this.wakeAt(now);
  }

  private wakeAt(at: number): void {
    if (this.wake) {
      if (this.wake.at <= at) return;
      this.wake.cancel();
    }
    const cancel = this.clock.schedule(Math.max(0, at - this.clock.now()), () => {
      this.wake = null;
      this.turn();
    });
    this.wake = { at, cancel };
  }

  private turn(): void {
    if (this.faults.hang) return;
    const now = this.clock.now();
    this.admit(now);
    let earliest = Number.POSITIVE_INFINITY;
    let made = 0;
    for (const sequence of this.batch) {
      if (sequence.nextDueAt <= now) {
        made += this.generate(sequence, now);
        sequence.receiver.flush();
      }
      if (sequence.state === 'running') earliest = Math.min(earliest, sequence.nextDueAt);
    }
    if (made > 0) this.metrics.iterationTokens.observe(made);
    if (this.waitingQueue.length > 0 && this.batch.size < this.maxNumSeqs) earliest = now;
    if (earliest < Number.POSITIVE_INFINITY) this.wakeAt(earliest);
  }

  private admit(now: number): void {
    while (this.batch.size < this.maxNumSeqs) {
      const sequence = this.waitingQueue.shift();
      if (!sequence) return;
      sequence.state = 'running';
      sequence.nextDueAt = now + this.pace.time_to_first_token_ms;
      this.batch.add(sequence);
      this.metrics.promptTokens += sequence.promptTokens;
      this.metrics.queueTime.observe((now - sequence.arrivedAt) / 1000);
    }
  }

  /** Gives a sequence the tokens that are due; returns how many. */
  private generate(sequence: Sequence, now: number): number {
    let made = 0;
    while (sequence.state === 'running' && sequence.nextDueAt <= now && made < TOKENS_PER_TURN) {
      made++;
      this.generateOne(sequence, now);
      sequence.nextDueAt += this.pace.inter_token_latency_ms;
    }
    return made;
  }

  private generateOne(sequence: Sequence, now: number): void {
    sequence.generated++;
    this.metrics.generationTokens++;
    if (sequence.generated === 1) {
      this.metrics.timeToFirstToken.observe((now - sequence.arrivedAt) / 1000);
    } else {
      this.metrics.interTokenLatency.observe((now - sequence.lastTokenAt) / 1000);
    }
    sequence.lastTokenAt = now;

    const { text, finish, id } = nextText(sequence);
    if (finish) {
      this.end(sequence);
      this.metrics.finished[finish.reason]++;
      this.metrics.requestLatency.observe((now - sequence.arrivedAt) / 1000);
    }
    sequence.receiver.token(text, finish, id);
    this.strikeFaults(sequence);
  }

  private strikeFaults(sequence: Sequence): void {
    const { cut_stream_after, die_after_tokens } = this.faults;
    if (cut_stream_after !== null && sequence.generated >= cut_stream_after) {
      sequence.receiver.cut();
    }
    if (die_after_tokens === null) return;
    this.faults.die_after_tokens = die_after_tokens - 1;
    if (this.faults.die_after_tokens <= 0) this.onDeath();
  }

  private end(sequence: Sequence): void {
    if (sequence.state === 'waiting') this.waitingQueue.splice(this.waitingQueue.indexOf(sequence), 1);
    const hadPlace = this.batch.delete(sequence);
    sequence.state = 'ended';
    if (hadPlace && this.waitingQueue.length > 0) this.wakeAt(this.clock.now());
  }
}

/** Returns the text that the next token adds, cut off at a stop string. */
function nextText(sequence: Sequence): { text: string; finish: Finish | null; id: number } {
  const { stop, generated, held, includeStop } = sequence;
  const { id, text: token } = sequence.source.next();
  const unfinished = held + token;
  const given = includeStop ? held.length : 0;
  if (generated >= sequence.minTokens) {
    const found = firstStop(unfinished, stop);
    if (found) {
      const text = unfinished.slice(given, found.at + (includeStop ? found.stop.length : 0));
      return { text, id, finish: { reason: 'stop', stopReason: found.stop } };
    }
  }
  const reason = ending(sequence);
  if (reason) return { text: unfinished.slice(given), id, finish: { reason, stopReason: null } };
  // As in vLLM, the letters that could begin a stop string are held back, unless stop strings are shown.
  const hold = Math.max(0, ...stop.map((text) => text.length - 1));
  let end = Math.max(0, unfinished.length - hold);
  if (/[\ud800-\udbff]$/.test(unfinished.slice(0, end))) end--;
  sequence.held = unfinished.slice(end);
  return { text: includeStop ? token : unfinished.slice(0, end), id, finish: null };
}

function ending(sequence: Sequence): Finish['reason'] | null {
  const { generated } = sequence;
  if (generated >= sequence.maxTokens) return 'length';
  const mayStop = !sequence.ignoreEos && generated >= sequence.minTokens;
  return mayStop && generated >= sequence.source.naturalLength ? 'stop' : null;
}

function firstStop(text: string, stops: readonly string[]): { at: number; stop: string } | null {
  let first: { at: number; stop: string } | null = null;
  for (const stop of stops) {
    const at = text.indexOf(stop);
    if (at >= 0 && (!first || at < first.at)) first = { at, stop };
  }
  return first;
}
