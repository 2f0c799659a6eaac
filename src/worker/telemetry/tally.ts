import { ENGINE_PHASES, type EnginePhase } from '../../engine/kinds/report.ts';
import type { Heartbeat, StartTimes } from '../../protocol/index.ts';
import type { EndedAttempt, WorkObserver } from '../ports.ts';

/** A step of the engine's start, as its supervisor sees it. */
export interface EngineStep {
  phase: EnginePhase;
  /** The progress from 0 to 1, if the engine reports it. */
  progress?: number | undefined;
  /** When the step was seen, epoch ms. */
  atMs: number;
}

/** The part of a step that differs from the last report. */
type StepChange = 'phase' | 'progress' | 'nothing';

const LOADING = ENGINE_PHASES.indexOf('loading');

/**
 * The progress of the engine's start, and the times at which its first start reached each step. Later starts in the
 * same container are no cold starts, and are not timed.
 */
export class EngineStart {
  #phase: EnginePhase | 'restarting' = 'starting';
  #sinceMs: number;
  #progress: number | undefined;
  #hasLoaded = false;
  readonly #times: StartTimes;

  /** @param createdMs when the container was created, epoch ms; undefined: not known */
  constructor(nowMs: number, createdMs: number | undefined) {
    this.#sinceMs = nowMs;
    this.#times = createdMs === undefined ? {} : { created_ms: whole(createdMs) };
  }

  get times(): StartTimes {
    return { ...this.#times };
  }

  /** The fields that a `starting` heartbeat adds. */
  get phase(): Pick<Heartbeat, 'phase' | 'phase_since_ms' | 'progress'> {
    const known = { phase: this.#phase, phase_since_ms: whole(this.#sinceMs) };
    return this.#progress === undefined ? known : { ...known, progress: this.#progress };
  }

  step({ phase, progress, atMs }: EngineStep): StepChange {
    this.#times.engine_started_ms ??= whole(atMs);
    this.#hasLoaded ||= phase === 'loading';
    if (this.#hasLoaded && ENGINE_PHASES.indexOf(phase) > LOADING)
      this.#times.weights_loaded_ms ??= whole(atMs);
    const isSame = phase === this.#phase;
    if (isSame && (progress === undefined || progress === this.#progress)) return 'nothing';
    if (!isSame) this.#sinceMs = atMs;
    this.#phase = phase;
    this.#progress = progress;
    return isSame ? 'progress' : 'phase';
  }

  healthy(nowMs: number): void {
    this.#times.engine_healthy_ms ??= whole(nowMs);
  }

  restarting(nowMs: number): void {
    this.#phase = 'restarting';
    this.#progress = undefined;
    this.#sinceMs = nowMs;
  }

  firstJob(nowMs: number): void {
    this.#times.first_job_ms ??= whole(nowMs);
  }
}

function whole(ms: number): number {
  return Math.round(ms);
}

/** The number of times to the first token that are stored: enough for a median. */
const FIRST_TOKENS_KEPT = 1000;

/** Counts what this process has done with jobs since its start. */
export class WorkTally implements WorkObserver {
  missedRenewals = 0;
  /** The number of tokens generated, as far as the engine reported them. */
  generatedTokens = 0;
  /** Called with each ended attempt. */
  listener: ((attempt: EndedAttempt) => void) | null = null;
  #hasRequested = false;
  #firstTokens: number[] = [];
  readonly #firstRequest: () => void;

  /** @param firstRequest called when the first job has gone to the engine */
  constructor(firstRequest: () => void) {
    this.#firstRequest = firstRequest;
  }

  requested(): void {
    if (!this.#hasRequested) this.#firstRequest();
    this.#hasRequested = true;
  }

  ended(attempt: EndedAttempt): void {
    const { firstTokenMs, usage } = attempt;
    this.listener?.(attempt);
    this.generatedTokens += usage?.completion_tokens ?? 0;
    if (firstTokenMs !== null && this.#firstTokens.length < FIRST_TOKENS_KEPT)
      this.#firstTokens.push(firstTokenMs);
  }

  renewalMissed(): void {
    this.missedRenewals += 1;
  }

  /** Returns the median time to the first token since the last call, ms; undefined: there was none. */
  takeFirstTokenMs(): number | undefined {
    const sorted = this.#firstTokens.sort((a, b) => a - b);
    this.#firstTokens = [];
    return sorted[Math.floor(sorted.length / 2)];
  }
}

/** A rate over less time than this, ms, says too little. */
const SHORTEST_MS = 1000;

/** Turns a counter, read at intervals, into a rate. */
export class RateMeter {
  #last: { total: number; atMs: number } | null = null;
  #perSecond: number | undefined;

  /**
   * Takes a reading. @returns units a second since the previous one; undefined: there was none, or from another engine
   */
  read(total: number, nowMs: number): number | undefined {
    const last = this.#last;
    if (last && nowMs - last.atMs < SHORTEST_MS) return this.#perSecond;
    this.#last = { total, atMs: nowMs };
    const isComparable = last !== null && total >= last.total;
    this.#perSecond = isComparable ? ((total - last.total) * 1000) / (nowMs - last.atMs) : undefined;
    return this.#perSecond;
  }
}
