import { chatText, type Message, modelOf } from './engine-text.ts';
import type { Fault, FaultKind } from './faults.ts';
import { canCause, faultsDuring, SLACK_MS } from './verdict.ts';

/** What a caller asked of `/v1/chat/completions`. */
export interface Asked {
  messages: Message[];
  tokens: number;
  streams: boolean;
  hangsUp: boolean;
}

/** What it heard, and how that ended. */
export interface Heard {
  /** Epoch ms. */
  from: number;
  to: number;
  /** Null: no answer began. */
  status: number | null;
  /** The header `x-job-id`. */
  jobId: string | null;
  bytes: Uint8Array;
  end: 'closed' | 'broken' | 'hung_up';
}

/**
 * - `whole`: everything that was asked for
 * - `error`: a status, or an error in the stream, or a connection broken because JSON has no other way
 * - `broken`: its connection ended with the queue's process
 * - `hung_up`: by the caller
 */
export type Ending = 'whole' | 'error' | 'broken' | 'hung_up';

/** One error as its caller saw it, e.g. `503 no_worker`, `worker_died in the stream`. */
type Shown = { ending: 'error'; error: string };
export type Verdict = Shown | { ending: Exclude<Ending, 'error'> } | { wrong: string };
type Good = Exclude<Verdict, { wrong: string }>;

/** Why an answer may not be as it is. */
class Wrong extends Error {}

/** An answer that takes this long is begun with blanks, ms: what goes wrong then breaks the connection. */
const BEGUN_EARLY_MS = 1500;

const some = (...kinds: FaultKind[]) => {
  return (during: readonly Fault[]) => during.some(({ kind }) => kinds.includes(kind));
};

/** What accounts for the codes that no attempt of a stored job is charged with, or for other reasons. */
const CALL_CODES: Record<string, (during: readonly Fault[]) => boolean> = {
  // Also said where the lease of a stored job would run out: the worker did not come back within the grace.
  worker_died: (during) => canCause('worker_died', during) || canCause('lease_expired', during),
  draining: some('drain', 'kill_supervisor'),
  engine_restarting: some('kill_engine', 'kill_supervisor'),
  queue_restarting: some('kill_queue'),
  // A relay that ended with its process.
  worker_error: some('kill_queue'),
  // No worker was connected.
  no_worker: (during) => during.some(({ kind }) => kind !== 'lose_answer'),
};

/**
 * Judges one answer: what came is the beginning of what one engine says to this request, in order and once,
 * and its end is one of the four that there are, with a cause.
 * @param workers their ids: the text tells whose engine spoke
 * @returns the ending; or what is wrong
 */
export function judge(
  asked: Asked,
  heard: Heard,
  workers: readonly string[],
  faults: readonly Fault[],
): Verdict {
  try {
    return endingOf(asked, heard, workers, faults);
  } catch (error) {
    if (!(error instanceof Wrong)) throw error;
    return { wrong: error.message };
  }
}

function endingOf(asked: Asked, heard: Heard, workers: readonly string[], faults: readonly Fault[]): Good {
  const during = faultsDuring(heard, faults);
  const ended = () => endOfConnection(asked, heard, during);
  if (heard.status === null) return ended();
  const text = decode(heard.bytes, heard.end);
  if (heard.status !== 200) {
    if (heard.end !== 'closed') return ended();
    return checkError(parse(text), during, heard.status);
  }
  if (heard.jobId === null) throw new Wrong('a 200 without x-job-id');
  if (!asked.streams) return endingInOnePiece(asked, heard, text, workers, during);
  const stream = new Stream(asked, heard.jobId, workers);
  const events = text.split('\n\n');
  const unfinished = events.pop()!;
  for (const event of events) stream.take(event);
  if (heard.end === 'closed' && unfinished !== '') throw new Wrong(`ended within an event: ${unfinished}`);
  if (stream.error !== null) {
    const { speaker } = stream;
    const ofSpeaker = during.filter(
      ({ worker }) => speaker === null || worker === null || worker === speaker,
    );
    return checkError(stream.error, ofSpeaker);
  }
  if (stream.isDone) {
    stream.checkWhole();
    return heard.end === 'broken' ? endOfConnection(asked, heard, during) : { ending: 'whole' };
  }
  if (heard.end === 'closed') throw new Wrong(`ended in silence after ${stream.text.length} characters`);
  return ended();
}

/** The connection ended before the answer did. */
function endOfConnection(asked: Asked, heard: Heard, during: readonly Fault[]): Good {
  if (heard.end === 'hung_up' && asked.hangsUp) return { ending: 'hung_up' };
  const cause = during.find(
    ({ kind, until }) => kind === 'kill_queue' && heard.to <= (until ?? Number.POSITIVE_INFINITY) + SLACK_MS,
  );
  if (heard.end === 'broken' && cause) return { ending: 'broken' };
  throw new Wrong(`the connection ended (${heard.end}) while the queue was alive`);
}

function endingInOnePiece(
  asked: Asked,
  heard: Heard,
  text: string,
  workers: readonly string[],
  during: readonly Fault[],
): Good {
  if (heard.end === 'closed') {
    checkBody(asked, heard.jobId!, parse(text), workers);
    return { ending: 'whole' };
  }
  // What came is the error that broke it, or nothing yet.
  const isOwn = /^(\{"error":.*)?$/.test(text.trim());
  const wasBegunEarly = heard.to - heard.from >= BEGUN_EARLY_MS && isOwn;
  if (heard.end === 'broken' && wasBegunEarly && during.some(({ worker }) => worker !== null)) {
    return { ending: 'error', error: 'broken after it was begun with blanks' };
  }
  return endOfConnection(asked, heard, during);
}

interface Body {
  id?: string;
  model?: string;
  object?: string;
  created?: number;
  choices?: {
    index: number;
    message?: { content: string };
    delta?: { role?: string; content?: string };
    finish_reason: string | null;
  }[];
  error?: { message?: unknown; type?: unknown; code?: unknown; param?: unknown };
}

function checkBody(asked: Asked, jobId: string, body: Body, workers: readonly string[]): void {
  const worker = speakerOf(body, 'chat.completion', jobId, workers);
  const [choice, ...others] = body.choices ?? [];
  const isRight = choice?.message?.content === chatText(asked.messages, asked.tokens, modelOf(worker));
  if (!isRight || choice.finish_reason !== 'length' || others.length > 0) {
    throw new Wrong(`another answer than ${worker} gives: ${JSON.stringify(body.choices).slice(0, 300)}`);
  }
}

/** @returns the worker whose engine speaks */
function speakerOf(body: Body, object: string, jobId: string, workers: readonly string[]): string {
  if (body.object !== object) throw new Wrong(`not a ${object}: ${JSON.stringify(body).slice(0, 300)}`);
  if (body.id !== `chatcmpl-${jobId}`) throw new Wrong(`the answer of ${body.id} came to ${jobId}`);
  const worker = workers.find((id) => modelOf(id) === body.model);
  if (worker === undefined) throw new Wrong(`no engine is called ${body.model}`);
  return worker;
}

/** An error in OpenAI's shape, with a cause; a status is one that a client takes for a reason to try again. */
function checkError(body: Body, during: readonly Fault[], status?: number): Shown {
  const { message, type, code, param } = body.error ?? {};
  const isShaped = [message, type].every((text) => typeof text === 'string' && text !== '');
  if (!isShaped || code === undefined || param === undefined) {
    throw new Wrong(`an error in no shape: ${JSON.stringify(body)}`);
  }
  if (status !== undefined && status !== 429 && status < 500) throw new Wrong(`${status}: ${message}`);
  const explains = CALL_CODES[String(code)];
  const isExplained = explains ? explains(during) : canCause(String(code), during);
  if (!isExplained)
    throw new Wrong(`an error (${status ?? 'in the stream'}, ${code}) without cause: ${message}`);
  return { ending: 'error', error: status === undefined ? `${code} in the stream` : `${status} ${code}` };
}

/** The events of one stream, in order. */
class Stream {
  readonly #asked: Asked;
  readonly #jobId: string;
  readonly #workers: readonly string[];
  /** Whose engine speaks, and the time in its events: they never change in a stream. */
  speaker: string | null = null;
  #created = 0;
  #expected = '';
  #finish: string | null = null;
  text = '';
  error: Body | null = null;
  isDone = false;

  constructor(asked: Asked, jobId: string, workers: readonly string[]) {
    this.#asked = asked;
    this.#jobId = jobId;
    this.#workers = workers;
  }

  /** @throws Wrong when it may not come here */
  take(event: string): void {
    if (event.startsWith(':')) return;
    const [, data] = /^data: (.*)$/.exec(event) ?? [];
    if (data === undefined) throw new Wrong(`no event: ${event.slice(0, 300)}`);
    if (this.isDone) throw new Wrong(`after the end came: ${event.slice(0, 300)}`);
    if (data === '[DONE]') {
      this.isDone = true;
      return;
    }
    if (this.error !== null) throw new Wrong(`after its error came: ${event.slice(0, 300)}`);
    const body = parse(data);
    if (body.error) this.error = body;
    else this.#chunk(body);
  }

  /** @throws Wrong when something is missing at its end */
  checkWhole(): void {
    if (this.text !== this.#expected || this.#finish !== 'length') {
      throw new Wrong(`ended as if whole after ${this.text.length} of ${this.#expected.length} characters`);
    }
  }

  #chunk(body: Body): void {
    const speaker = speakerOf(body, 'chat.completion.chunk', this.#jobId, this.#workers);
    const { created = 0, choices = [] } = body;
    const [choice, ...others] = choices;
    if (!choice?.delta || choice.index !== 0 || others.length > 0) throw new Wrong('not one choice');
    const { role, content = '' } = choice.delta;
    if (this.#finish !== null) throw new Wrong(`it goes on after its finish: ${content}`);
    if (this.speaker === null) {
      if (role === undefined) throw new Wrong(`it begins in the middle: ${content}`);
      this.speaker = speaker;
      this.#created = created;
      this.#expected = chatText(this.#asked.messages, this.#asked.tokens, modelOf(speaker));
    } else if (speaker !== this.speaker || created !== this.#created || role !== undefined) {
      throw new Wrong(`${this.speaker} spoke at ${this.#created}, then ${speaker} at ${created}`);
    }
    if (!this.#expected.startsWith(content, this.text.length)) {
      const wanted = this.#expected.slice(this.text.length, this.text.length + 40);
      throw new Wrong(`"${content}" came after ${this.text.length} characters, where "${wanted}" goes on`);
    }
    this.text += content;
    this.#finish = choice.finish_reason;
  }
}

function parse(text: string): Body {
  try {
    return JSON.parse(text) as Body;
  } catch {
    throw new Wrong(`no JSON: ${text.slice(0, 300)}`);
  }
}

/** An answer that is cut off may end within a character. */
function decode(bytes: Uint8Array, end: Heard['end']): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: end !== 'closed' });
  } catch {
    throw new Wrong('its bytes are no UTF-8');
  }
}
