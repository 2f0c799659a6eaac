import {
  type AnswerHead,
  type EngineRequestResult,
  isEventStream,
  keepMembers,
  parseValue,
  RunpodPayload,
  type RunpodResult,
  splitEvents,
  writeJson,
  writeJsonLine,
} from '../../protocol/index.ts';
import { finalFailure } from '../failure.ts';
import type { Ports } from '../ports.ts';
import type { Attempt } from './attempt.ts';
import { type AnswerCopy, runEngineRequest } from './engine-request-job.ts';
import { type RunpodCall, type RunpodSettings, readRunpodInput } from './runpod-input.ts';
import { type OutputMaker, outputMaker, wholeOutput } from './runpod-output.ts';

const EVENTS_HEAD: AnswerHead = {
  status: 200,
  headers: { 'content-type': 'text/event-stream; charset=utf-8' },
};

/** Members of an input that become part of a request to the engine. */
const NESTED = ['openai_input', 'body', 'messages', 'sampling_params'];

const COMMENT_LINES = /^:[^\r\n]*(?:\r\n|\n|\r)/gm;

/** Tells whether a job is in RunPod's form. A base queue names no type: then the payload's form decides. */
export function isRunpodJob(jobType: string | undefined, payload: object): boolean {
  if (jobType !== undefined) return jobType === 'runpod';
  const { task, input, messages } = payload as Record<string, unknown>;
  return !task && messages === undefined && typeof input === 'object' && input !== null;
}

/**
 * Runs a job in the form of RunPod's worker. Its result is the list of its outputs, and each output goes to the replay
 * buffer as an event `data: {"output": …}`.
 * @param replay takes the outputs of a job that is watched; after a throw it is still open
 * @throws JobFailure; `deadline` when the policy's executionTimeout has passed
 */
export async function runRunpodJob(
  attempt: Attempt,
  replay: AnswerCopy | null,
  { clock, settings }: { clock: Ports['clock']; settings: RunpodSettings },
): Promise<RunpodResult> {
  const parsed = parseValue(RunpodPayload, attempt.payload);
  if (!parsed.ok) throw finalFailure('invalid_request', parsed.message);
  const { input, policy, model } = parsed.value;
  const { input: asWritten } = attempt.payload as { input?: unknown };
  keepMembers(asWritten, Buffer.from(writeJson(asWritten)), NESTED);
  const call = readRunpodInput(input, settings, model ? attempt.modelFor(model) : attempt.servedModel);
  const output: unknown[] = [];
  const sink = new OutputSink(call, (yielded) => {
    output.push(yielded);
    attempt.yielded(yielded);
    replay?.write(Buffer.from(`data: ${writeJsonLine({ output: yielded })}\n\n`));
  });
  replay?.head(EVENTS_HEAD);
  const { response } = await withinLimit(attempt, policy?.executionTimeout ?? null, clock, (signal) =>
    runEngineRequest({ ...attempt, payload: call.request, signal }, sink),
  );
  if (!sink.hasEvents) sink.whole(bodyOf(response));
  replay?.end();
  return { status: 'success', job_type: 'runpod', processed_at: attempt.timestamp(), output };
}

async function withinLimit<T>(
  attempt: Attempt,
  limitMs: number | null,
  clock: Ports['clock'],
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  if (limitMs === null) return await run(attempt.signal);
  const limit = new AbortController();
  const timer = clock.setTimeout(() => {
    limit.abort(finalFailure('deadline', `the job ran longer than its executionTimeout of ${limitMs} ms`));
  }, limitMs);
  try {
    return await run(AbortSignal.any([attempt.signal, limit.signal]));
  } catch (error) {
    throw limit.signal.aborted ? limit.signal.reason : error;
  } finally {
    clock.clearTimeout(timer);
  }
}

/** Returns a body as an output; one that is no text, such as audio, as the results of other jobs have it. */
function bodyOf({ body, body_base64, content_type }: EngineRequestResult['response']): unknown {
  return body_base64 === undefined ? body : { content_type, body_base64 };
}

/** Takes the engine's events, or its whole answer, and makes the job's outputs from them. */
class OutputSink implements AnswerCopy {
  readonly #call: RunpodCall;
  readonly #emit: (output: unknown) => void;
  readonly #decoder = new TextDecoder();
  #maker: OutputMaker | null = null;

  constructor(call: RunpodCall, emit: (output: unknown) => void) {
    this.#call = call;
    this.#emit = emit;
  }

  /** True if the answer comes as events. */
  get hasEvents(): boolean {
    return this.#maker !== null;
  }

  head({ headers }: AnswerHead): void {
    if (isEventStream(headers)) this.#maker = outputMaker(this.#call, this.#emit);
  }

  write(events: Uint8Array): void {
    if (this.#maker === null) return;
    for (const event of splitEvents(this.#decoder.decode(events))) {
      const said = event.replace(COMMENT_LINES, '');
      if (said.trim() !== '') this.#maker.event(said);
    }
  }

  end(): void {
    this.#maker?.end();
  }

  whole(body: unknown): void {
    this.#emit(wholeOutput(this.#call.form, body));
  }
}
