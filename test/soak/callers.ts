import { setTimeout as sleep } from 'node:timers/promises';
import { type Asked, type Ending, type Heard, judge } from './caller-verdict.ts';
import { LARGE_TEXT } from './engine-text.ts';
import type { Fault } from './faults.ts';
import type { FigureRow } from './figures.ts';

/** Tokens of one answer: long enough that faults meet streams under way. */
const TOKENS = { least: 40, most: 240 };
/** An answer whose caller hangs up would go on for minutes: where its abort is lost, slots stay taken. */
const ENDLESS_TOKENS = 20_000;
/** A caller that hangs up does so by then, ms after its request or after the first byte of the answer. */
const HANG_UP_WITHIN_MS = 2000;
/** One caller in so many: its answer is not streamed; it hangs up; its payload goes by reference. */
const WHOLE_EVERY = 4;
const HANGS_UP_EVERY = 5;
const LARGE_EVERY = 20;
/** One in so many waits for a worker that is not there yet; the others are refused then. */
const WAITS_EVERY = 2;

/** What one caller asks, and how it behaves. */
interface Call extends Asked {
  id: string;
  /** Header `X-Queue-Wait`, s; 0: none. */
  waits: number;
  /** When it hangs up: ms after the request or after the first byte. */
  hangUp: { after: 'request' | 'first_byte'; ms: number } | null;
  heard: Heard | null;
}

/** Callers of `/v1/chat/completions`, straight at the queue: only its own end may break their connections. */
export class Callers {
  readonly #calls: Call[] = [];
  readonly #url: string;
  readonly #workers: readonly string[];
  readonly #random: () => number;
  readonly #mark: string;
  /** How those that were judged ended, and how often each error was shown. */
  readonly #endings: Record<Ending, number> = { whole: 0, error: 0, broken: 0, hung_up: 0 };
  readonly #errors: Record<string, number> = {};
  #open = 0;
  #over = false;

  constructor(url: string, workers: readonly string[], mark: string, random: () => number) {
    this.#url = url;
    this.#workers = workers;
    this.#mark = mark;
    this.#random = random;
  }

  get open(): number {
    return this.#open;
  }

  get started(): number {
    return this.#calls.length;
  }

  /** One more asks. */
  start(): void {
    const call = this.#plan(this.#calls.length);
    this.#calls.push(call);
    this.#open += 1;
    void ask(this.#url, call).then((heard) => {
      // What ends after the count ends because the soak does.
      if (!this.#over) call.heard = heard;
      this.#open -= 1;
    });
  }

  /** Everybody has an end. */
  async ended(): Promise<void> {
    while (this.#open > 0) await sleep(50);
  }

  /** Judges all of them; one that still waits has no end at all. @returns what is wrong */
  count(faults: readonly Fault[]): string[] {
    this.#over = true;
    const wrong: string[] = [];
    for (const call of this.#calls) {
      const { id, heard } = call;
      const verdict = heard ? judge(call, heard, this.#workers, faults) : { wrong: 'it never ended' };
      if ('wrong' in verdict) wrong.push(`${id} ${placeOf(heard)}: ${verdict.wrong}`);
      else this.#endings[verdict.ending] += 1;
      if ('error' in verdict) this.#errors[verdict.error] = (this.#errors[verdict.error] ?? 0) + 1;
    }
    return wrong;
  }

  /** Of those that were counted. */
  figures(): FigureRow[] {
    const { whole, error, broken, hung_up } = this.#endings;
    return [
      ['callers', this.started],
      ['… whose answer was streamed', this.#calls.filter(({ streams }) => streams).length],
      ['… answered whole', whole],
      ['… ended by an error', error],
      ...Object.entries(this.#errors).map(([code, count]): FigureRow => [`… … ${code}`, count]),
      ['… broken by a queue kill', broken],
      ['… hung up by choice', hung_up],
    ];
  }

  #plan(number: number): Call {
    const hangsUp = number % HANGS_UP_EVERY === 2;
    const large = number % LARGE_EVERY === 3 ? LARGE_TEXT : '';
    const id = `caller ${number} of ${this.#mark}`;
    const after = this.#random() < 0.3 ? 'request' : 'first_byte';
    return {
      id,
      messages: [{ role: 'user', content: `This is ${id}. ${large}` }],
      tokens: hangsUp ? ENDLESS_TOKENS : TOKENS.least + this.#below(TOKENS.most - TOKENS.least),
      streams: number % WHOLE_EVERY !== 1,
      hangsUp,
      waits: number % WAITS_EVERY === 0 ? 60 : 0,
      hangUp: hangsUp ? { after, ms: this.#below(HANG_UP_WITHIN_MS) } : null,
      heard: null,
    };
  }

  #below(limit: number): number {
    return Math.floor(this.#random() * limit);
  }
}

async function ask(url: string, call: Call): Promise<Heard> {
  const { hangUp } = call;
  const hangingUp = new AbortController();
  const hangUpIn = (ms: number) => void sleep(ms).then(() => hangingUp.abort());
  const pieces: Uint8Array[] = [];
  const heard: Heard = {
    from: Date.now(),
    to: 0,
    status: null,
    jobId: null,
    bytes: new Uint8Array(),
    end: 'closed',
  };
  try {
    if (hangUp?.after === 'request') hangUpIn(hangUp.ms);
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(call.waits && { 'x-queue-wait': `${call.waits}` }) },
      body: bodyOf(call),
      signal: hangingUp.signal,
    });
    heard.status = response.status;
    heard.jobId = response.headers.get('x-job-id');
    for await (const piece of response.body ?? []) {
      if (pieces.length === 0 && hangUp?.after === 'first_byte') hangUpIn(hangUp.ms);
      pieces.push(piece);
    }
  } catch {
    heard.end = hangingUp.signal.aborted ? 'hung_up' : 'broken';
  }
  return { ...heard, to: Date.now(), bytes: Buffer.concat(pieces) };
}

function bodyOf({ messages, tokens, streams }: Call): string {
  return JSON.stringify({
    model: 'default',
    messages,
    max_tokens: tokens,
    ignore_eos: true,
    stream: streams,
  });
}

/** When and as which job, for looking it up in the logs. */
function placeOf(heard: Heard | null): string {
  if (!heard) return '';
  const [from, to] = [heard.from, heard.to].map((at) => new Date(at).toISOString().slice(11, 23));
  return `(job ${heard.jobId}, ${from} to ${to}, ${heard.bytes.byteLength} bytes)`;
}
