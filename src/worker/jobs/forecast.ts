import type { Job } from '../../protocol/index.ts';
import type { Clock } from '../clock.ts';
import type { RunningJob } from '../run/running-job.ts';
import { maxTokensOf } from '../run/usage.ts';

/** The rate is computed from this many jobs. */
const SAMPLES = 16;
/** A sample older than this says nothing about the present load, ms. */
const FRESH_MS = 5 * 60_000;
/** An answer of fewer tokens than this says more about its prompt than about generation. */
const FEWEST_TOKENS = 8;

interface Sample {
  tokensPerSecond: number;
  atMs: number;
}

/**
 * The rate at which one request generates here at present, learnt from finished jobs: their tokens over their whole
 * time in the engine, waiting and prompt included. The fastest of the recent jobs counts: a job that cannot end at this
 * rate cannot end even if all goes well.
 */
export class TokenRate {
  #samples: Sample[] = [];

  /** Learns from a finished job. @param tokens the number generated for one choice */
  finished(tokens: number, tookMs: number, nowMs: number): void {
    if (tokens < FEWEST_TOKENS || tookMs <= 0) return;
    this.#samples.push({ tokensPerSecond: (tokens * 1000) / tookMs, atMs: nowMs });
    if (this.#samples.length > SAMPLES) this.#samples.shift();
  }

  /** Returns the tokens a second of one request; null when nothing recent is known. */
  tokensPerSecond(nowMs: number): number | null {
    const fresh = this.#samples.filter(({ atMs }) => nowMs - atMs <= FRESH_MS);
    if (fresh.length === 0) return null;
    return Math.max(...fresh.map((sample) => sample.tokensPerSecond));
  }
}

/** The facts about a job's length. */
export interface Workload {
  /** The most tokens that the job may generate; null: not known. */
  maxTokens: number | null;
  /** The time that the job's request has been in the engine, ms; 0 before it is sent. */
  elapsedMs: number;
}

/**
 * Tells whether a job that uses up its `max_tokens` at this rate would still run after `withinMs`. Returns false if
 * that is not known: the job is then tried.
 * @param tokensPerSecond the rate of one request at the present load; null: not known
 */
export function cannotEndWithin(
  { maxTokens, elapsedMs }: Workload,
  tokensPerSecond: number | null,
  withinMs: number,
): boolean {
  if (maxTokens === null || tokensPerSecond === null) return false;
  return (maxTokens / tokensPerSecond) * 1000 - elapsedMs > withinMs;
}

/**
 * Tells whether a drain moves an answer at its start, because at its present pace the rest takes longer than the grace.
 * An answer whose rest is not known may run, and moves at the end of the grace.
 * @param streamedMs the time since the answer's first token
 */
export function mustMoveInDrain(
  { made, left }: { made: number; left: number | null },
  streamedMs: number,
  graceMs: number,
): boolean {
  if (left === null || made < 2) return false;
  return (left * streamedMs) / (made - 1) > graceMs;
}

/**
 * Tells whether a drain releases the job at its start: the job cannot end within the grace, and no reader has a part of
 * its answer, which another attempt could not continue.
 */
export function mustReleaseInDrain(
  job: Workload & { hasReader: boolean },
  tokensPerSecond: number | null,
  graceMs: number,
): boolean {
  return !job.hasReader && cannotEndWithin(job, tokensPerSecond, graceMs);
}

/**
 * Learns from finished jobs how long others take, and tells which of them this worker cannot end in time: it declines
 * those, and releases them in a drain.
 */
export class Forecast {
  readonly #clock: Clock;
  readonly #rate = new TokenRate();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  finished(running: RunningJob): void {
    if (running.generatedTokens === null) return;
    const nowMs = this.#clock.now();
    this.#rate.finished(running.generatedTokens, running.elapsedMs(nowMs), nowMs);
  }

  /** Tells whether a job that starts now would be cut off by its own deadline. */
  wouldMissDeadline(job: Job): boolean {
    if (job.deadline_ms === undefined) return false;
    const rate = this.#rate.tokensPerSecond(this.#clock.now());
    return (
      rate !== null && cannotEndWithin({ maxTokens: maxTokensOf(job), elapsedMs: 0 }, rate, job.deadline_ms)
    );
  }

  /** Tells whether the job cannot end within the grace, while another attempt at it loses nothing. */
  mustReleaseInDrain(running: RunningJob, graceMs: number): boolean {
    const nowMs = this.#clock.now();
    const { stream } = running;
    const answer = running.assembly ?? stream;
    const tokens = answer?.isMovable ? answer.tokens : null;
    if (tokens) return mustMoveInDrain(tokens, running.streamedMs(nowMs), graceMs);
    // The caller has already received a part of its answer.
    const hasReader = stream !== null && !stream.isReplayed && stream.size > 0;
    const rate = this.#rate.tokensPerSecond(nowMs);
    if (rate === null) return false;
    const elapsedMs = running.elapsedMs(nowMs);
    return mustReleaseInDrain({ maxTokens: maxTokensOf(running.job), elapsedMs, hasReader }, rate, graceMs);
  }
}
