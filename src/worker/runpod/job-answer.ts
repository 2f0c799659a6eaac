import { sleep } from '../../process/clock.ts';
import { type JobResult, writeJson } from '../../protocol/index.ts';
import type { Settlement } from '../jobs/settlement.ts';
import type { Ports } from '../ports.ts';
import { isTaken, mayPass, type Platform, type PlatformPost, pauseAfterFailure } from './platform.ts';

/** The most bytes of a result: the platform would answer a larger one with 400, and the caller would see no output. */
const MOST_BYTES = 20_000_000;
/**
 * If a result larger than this is refused with 400, the most likely reason is its size: the limit of asynchronous jobs.
 */
const LARGE_BYTES = 10_000_000;
/** The most tries to post one output of a stream, which is in the result as well. */
const STREAM_TRIES = 3;

/** The outcome of a job. */
export type JobOutcome =
  /** The outputs of the job. */
  { output: unknown[] } | { error: string };

export function outcomeOf(settlement: Settlement): JobOutcome {
  if (settlement.type === 'job_error') return { error: settlement.error };
  // Results go by reference only if the job brought an address to upload them to.
  const { output } = (settlement as JobResult).result;
  return { output: output as unknown[] };
}

export interface JobAnswerPorts extends Pick<Ports, 'clock' | 'random' | 'log'> {
  platform: Pick<Platform, 'post'>;
  /** Whether the platform should replace this worker after the job. */
  refreshes: boolean;
  /** Called when the platform has the outcome, or will never accept it. */
  over(hasTaken: boolean): void;
}

/**
 * Sends the answer of one job to the platform: its outputs in order, one post at a time, then its end. Outputs that
 * arrive during a post are joined, so a slow platform gets fewer and larger posts.
 */
export class JobAnswer {
  readonly #jobId: string;
  readonly #ports: JobAnswerPorts;
  readonly #dropped = new AbortController();
  /** The outputs that are not posted yet. */
  readonly #waiting: unknown[] = [];
  /** The posted outputs, as JSON: the end repeats all of them. */
  readonly #posted: string[] = [];
  #yielded = 0;
  #outcome: JobOutcome | null = null;
  #isPosting = false;

  constructor(jobId: string, ports: JobAnswerPorts) {
    this.#jobId = jobId;
    this.#ports = ports;
  }

  get isSettled(): boolean {
    return this.#outcome !== null;
  }

  /** Takes an output of the job. */
  yielded(output: unknown): void {
    if (this.#outcome !== null) return;
    this.#yielded += 1;
    this.#waiting.push(output);
    this.#post();
  }

  /** Takes the outcome of the job; a second outcome changes nothing. */
  settle(outcome: JobOutcome): void {
    if (this.#outcome !== null) return;
    this.#outcome = outcome;
    if ('output' in outcome) this.#waiting.push(...outcome.output.slice(this.#yielded));
    this.#post();
  }

  /**
   * Takes an outcome from an earlier process: nobody knows which outputs that process posted, so none is posted again.
   */
  settleLate(outcome: JobOutcome): void {
    if ('output' in outcome) {
      this.#posted.push(...outcome.output.map((output) => writeJson(output)));
      this.#yielded = outcome.output.length;
    }
    this.settle(outcome);
  }

  /** Ends all posts of this answer. */
  drop(): void {
    this.#dropped.abort();
  }

  #post(): void {
    if (this.#isPosting || this.#dropped.signal.aborted) return;
    this.#isPosting = true;
    void this.#postAll();
  }

  async #postAll(): Promise<void> {
    const { signal } = this.#dropped;
    while (this.#waiting.length > 0 && !signal.aborted) {
      const output = writeJson(takeJoined(this.#waiting));
      this.#posted.push(output);
      await this.#postOutput(output);
    }
    // The flag is cleared in the same step as the last check, so that a later output begins new posts.
    this.#isPosting = false;
    if (this.#outcome === null || signal.aborted) return;
    const hasTaken = await this.#postEnd(this.#outcome);
    if (!signal.aborted) this.#ports.over(hasTaken);
  }

  /** Posts an output. @param output JSON */
  async #postOutput(output: string): Promise<void> {
    const refusal = await this.#try(
      'stream',
      `{"output":${output}}`,
      STREAM_TRIES,
      (answer) =>
        // An output that is posted twice would appear in the stream twice.
        mayPass(answer) && !answer.mayHaveReached,
    );
    if (refusal === null || this.#dropped.signal.aborted) return;
    this.#ports.log.warn(
      { job_id: this.#jobId, problem: refusal },
      'RunPod did not take an output of a stream: its result will have it',
    );
  }

  async #postEnd(outcome: JobOutcome): Promise<boolean> {
    const { log } = this.#ports;
    const said =
      'output' in outcome
        ? `"output":[${this.#posted.join(',')}]`
        : `"error":${JSON.stringify(outcome.error)}`;
    const body = `{${said}${this.#ports.refreshes ? ',"stopPod":true' : ''}}`;
    const bytes = Buffer.byteLength(body);
    if (bytes > MOST_BYTES) return await this.#postTooLarge(bytes);
    const refusal = await this.#try('done', body);
    if (refusal === null || this.#dropped.signal.aborted) return refusal === null;
    log.error({ job_id: this.#jobId, problem: refusal, bytes }, 'RunPod refused the result of a job');
    return bytes > LARGE_BYTES && (await this.#postTooLarge(bytes));
  }

  async #postTooLarge(bytes: number): Promise<boolean> {
    const error = `the result has ${bytes} bytes, more than RunPod takes (10 MB of /run, 20 MB of /runsync)`;
    this.#ports.log.error({ job_id: this.#jobId, bytes }, 'job failed: its result is too large for RunPod');
    return (await this.#try('done', JSON.stringify({ error }))) === null;
  }

  /** Posts until the platform accepts the body. @returns null: it was accepted; else the reason why it was not */
  async #try(
    to: PlatformPost['to'],
    body: string,
    tries = Number.POSITIVE_INFINITY,
    mayRepeat = mayPass,
  ): Promise<string | null> {
    const { platform, random, log } = this.#ports;
    const { signal } = this.#dropped;
    for (let failures = 1; ; failures++) {
      const answer = await platform.post({ to, jobId: this.#jobId, body }, signal);
      if (isTaken(answer)) return null;
      if (signal.aborted || failures >= tries || !mayRepeat(answer)) return answer.problem;
      const pauseMs = pauseAfterFailure(failures, random);
      const fields = { job_id: this.#jobId, problem: answer.problem, again_in_ms: Math.round(pauseMs) };
      log.warn(
        fields,
        `RunPod did not take ${to === 'done' ? 'the end' : 'an output'} of a job; it is posted again`,
      );
      await this.#pause(pauseMs);
      if (signal.aborted) return answer.problem;
    }
  }

  #pause(ms: number): Promise<void> {
    return sleep(this.#ports.clock, ms, this.#dropped.signal);
  }
}

/** Outputs that follow one another are joined up to this many characters. */
const JOINED_CHARACTERS = 256 * 1024;

interface TokenBatch {
  choices: { tokens: string[] }[];
  usage: unknown;
}

/**
 * Takes from the front of a job's outputs as much as one post to the platform may hold. Texts of events, lists of
 * chunks and batches of tokens can be joined without a reader noticing; any other output is posted alone.
 */
export function takeJoined(outputs: unknown[]): unknown {
  const [first] = outputs;
  if (typeof first === 'string') return takeTexts(outputs as string[]);
  if (Array.isArray(first)) return takeRun(outputs, isList).flat();
  if (isTokenBatch(first))
    return takeRun(outputs, (output) => fits(first, output)).reduce(joinTokens as never);
  return outputs.shift();
}

function takeTexts(outputs: string[]): string {
  let size = 0;
  return takeRun(outputs, (output) => {
    if (typeof output !== 'string') return false;
    size += output.length;
    return size <= JOINED_CHARACTERS;
  }).join('');
}

/** Takes the first output, and those after it that may be joined with it. */
function takeRun<T>(outputs: T[], goesWith: (output: T) => boolean): T[] {
  let count = 0;
  while (count < outputs.length && (goesWith(outputs[count]!) || count === 0)) count++;
  return outputs.splice(0, count);
}

function joinTokens(before: TokenBatch, next: TokenBatch): TokenBatch {
  return {
    choices: before.choices.map(({ tokens }, index) => ({
      tokens: [...tokens, ...next.choices[index]!.tokens],
    })),
    usage: next.usage,
  };
}

function fits(first: TokenBatch, output: unknown): boolean {
  return isTokenBatch(output) && output.choices.length === first.choices.length;
}

function isTokenBatch(output: unknown): output is TokenBatch {
  const { choices, usage } = Object(output) as { choices?: { tokens?: unknown }[]; usage?: unknown };
  return Array.isArray(choices) && usage !== undefined && choices.every((choice) => isList(choice?.tokens));
}

function isList(value: unknown): value is unknown[] {
  return Array.isArray(value);
}
