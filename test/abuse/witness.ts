import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, fetch } from 'undici';

/** Connections of its own: those that an attack has sent half a body on are closed by the queue. */
const dispatcher = new Agent();

const PAUSE_MS = 200;
/** A well-behaved caller gives up after this long. */
const ANSWER_WITHIN_MS = 60_000;

export interface Testimony {
  answered: number;
  /** 429 and 503 with `Retry-After`: told to come again, which an overloaded service may do. */
  toldToWait: number;
  /** How the others failed. */
  failed: string[];
  slowestMs: number;
}

/** A well-behaved caller that asks for one streamed answer after another while others misbehave. */
export class Witness {
  readonly #url: string;
  readonly #over = new AbortController();
  readonly #done: Promise<void>;
  readonly #seen: Testimony = { answered: 0, toldToWait: 0, failed: [], slowestMs: 0 };

  constructor(url: string) {
    this.#url = url;
    this.#done = this.#run();
  }

  /** What it saw until now; its last request is waited for. */
  async stop(): Promise<Testimony> {
    this.#over.abort();
    await this.#done;
    return this.#seen;
  }

  async #run(): Promise<void> {
    while (!this.#over.signal.aborted) {
      const began = performance.now();
      await this.#ask();
      this.#seen.slowestMs = Math.max(this.#seen.slowestMs, Math.round(performance.now() - began));
      await sleep(PAUSE_MS);
    }
  }

  async #ask(): Promise<void> {
    try {
      const outcome = await ask(this.#url);
      if (outcome === 'answered') this.#seen.answered += 1;
      else if (outcome === 'told to wait') this.#seen.toldToWait += 1;
      else this.#seen.failed.push(outcome);
    } catch (error) {
      this.#seen.failed.push(String((error as Error).cause ?? error));
    }
  }
}

/** One streamed answer, checked to be whole. Other outcomes in words. */
export async function ask(url: string): Promise<string> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'default',
      messages: [{ role: 'user', content: 'Still there?' }],
      max_tokens: 4,
      stream: true,
    }),
    signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    dispatcher,
  });
  const text = await response.text();
  if (response.ok && text.trimEnd().endsWith('data: [DONE]')) return 'answered';
  const mayComeAgain = response.status === 429 || response.status === 503;
  if (mayComeAgain && response.headers.has('retry-after')) return 'told to wait';
  return `${response.status} ${text.slice(-200)}`;
}
