import type { Job } from '../../protocol/index.ts';
import type { AnswerStream } from '../answers/answer-stream.ts';
import type { Clock } from '../clock.ts';
import type { RunningJob } from '../run/running-job.ts';
import { maxTokensOf } from '../run/usage.ts';
import { cannotEndWithin, mustMoveInDrain, mustReleaseInDrain } from './estimate.ts';
import { TokenRate } from './token-rate.ts';

/** Learns from finished jobs how long others take. */
export class AdmissionControl {
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

  /** Tells whether the job cannot end inside the grace, while another attempt loses nothing. */
  mustReleaseInDrain(running: RunningJob, stream: AnswerStream | undefined, graceMs: number): boolean {
    const nowMs = this.#clock.now();
    const answer = running.assembly ?? stream;
    const tokens = answer?.isMovable ? answer.tokens : null;
    if (tokens) return mustMoveInDrain(tokens, running.streamedMs(nowMs), graceMs);
    // The caller has a part of its answer already.
    const hasReader = stream !== undefined && !stream.isReplayed && stream.size > 0;
    const rate = this.#rate.tokensPerSecond(nowMs);
    if (rate === null) return false;
    const elapsedMs = running.elapsedMs(nowMs);
    return mustReleaseInDrain({ maxTokens: maxTokensOf(running.job), elapsedMs, hasReader }, rate, graceMs);
  }
}
