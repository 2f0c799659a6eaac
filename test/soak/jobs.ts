import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { JobView, LedgerView } from '../../src/protocol/index.ts';
import { chatText, echoedTexts, LARGE_TEXT, type Message, modelOf } from './engine-text.ts';

/** Tokens of one answer: long enough that faults meet running jobs. */
const TOKENS = { least: 10, most: 80 };
/** One job in so many has a payload of 300 KB, and one a result of 330 KB: both go by reference. */
const LARGE_PAYLOAD_EVERY = 25;
const LARGE_RESULT_EVERY = 50;
/** A prompt that stays in its frame and is repeated before each of the result's choices. */
const ECHOED = { prompt: LARGE_TEXT.slice(0, 33_000), choices: 10 };
/** More than faults can take from one job. */
const MAX_ATTEMPTS = 50;
const BATCH = 10;
/** A submitter that heard nothing by then asks again, ms. */
const ANSWER_WITHIN_MS = 5000;

/** One job as its submitter knows it. */
interface Entry {
  id: string;
  kind: 'chat' | 'large_payload' | 'large_result';
  prompt: string;
  tokens: number;
  state: 'new' | 'accepted';
  /** How it looked when it was first seen settled; it must never look different again. */
  settled: string | null;
}

/** Every job of a soak: made, submitted until accepted, looked at again and again. */
export class JobBook {
  readonly #entries: Entry[] = [];
  readonly #byId = new Map<string, Entry>();
  readonly #random: () => number;
  readonly #webhook: string;
  #next = 0;
  accepted = 0;
  /** Submissions that were made again because no answer was heard. */
  resubmissions = 0;
  /** Answers to a submission that must not come. */
  readonly refused: string[] = [];
  /** Jobs that were seen settled in two ways. */
  readonly settledTwice = new Set<string>();

  constructor(count: number, mark: string, webhook: string, random: () => number) {
    this.#random = random;
    this.#webhook = webhook;
    for (let number = 0; number < count; number++) {
      const tokens = TOKENS.least + Math.floor(random() * (TOKENS.most - TOKENS.least));
      const kind = kindOf(number);
      const long = { chat: '', large_payload: LARGE_TEXT, large_result: ECHOED.prompt }[kind];
      const entry: Entry = {
        id: `${mark}-${number}`,
        kind,
        prompt: `Job ${number} of ${mark}. ${long}`,
        tokens,
        state: 'new',
        settled: null,
      };
      this.#entries.push(entry);
      this.#byId.set(entry.id, entry);
    }
  }

  get count(): number {
    return this.#entries.length;
  }

  get ids(): string[] {
    return this.#entries.map(({ id }) => id);
  }

  /**
   * Submits jobs in batches until all are accepted, keeping no more than the queue should hold.
   * @param mayGoOn false while enough jobs wait
   */
  async submitAll(url: string, mayGoOn: () => boolean): Promise<void> {
    for (;;) {
      const batch = this.#entries.slice(this.#next, this.#next + BATCH);
      if (batch.length === 0) return;
      if (!mayGoOn()) {
        await sleep(50);
        continue;
      }
      this.#next += batch.length;
      await this.#submit(url, batch);
    }
  }

  /** Looks at one view and compares it with what was seen before. */
  see(view: JobView): void {
    const entry = this.#byId.get(view.id);
    if (!entry || view.settled_at === null) return;
    const now = fingerprint(view);
    if (entry.settled !== null && entry.settled !== now) this.settledTwice.add(view.id);
    entry.settled ??= now;
  }

  /** Some jobs that were accepted, at random: most are looked at more than once in a run. */
  sample(count: number): string[] {
    if (this.#next === 0) return [];
    const picked = Array.from({ length: count }, () => Math.floor(this.#random() * this.#next));
    return picked
      .map((at) => this.#entries[at]!)
      .filter(({ state }) => state === 'accepted')
      .map(({ id }) => id);
  }

  /**
   * Whether the result is what one engine says to this job's prompt: that of the worker that settled it or, where it moved,
   * that of one whose answer went on elsewhere.
   */
  isRight(view: JobView, movedFrom: readonly string[] = []): boolean {
    const entry = this.#byId.get(view.id);
    if (!entry || view.worker_id === null) return false;
    const answers = answersIn(view.result);
    return [view.worker_id, ...movedFrom].some((worker) =>
      isDeepStrictEqual(answers, expectedAnswers(entry, modelOf(worker))),
    );
  }

  isLargeResult(id: string): boolean {
    return this.#byId.get(id)?.kind === 'large_result';
  }

  countOf(kind: Entry['kind']): number {
    return this.#entries.filter((entry) => entry.kind === kind).length;
  }

  async #submit(url: string, batch: Entry[]): Promise<void> {
    const body = JSON.stringify(batch.map((entry) => submission(entry, this.#webhook)));
    for (let attempt = 0; ; attempt++) {
      if (attempt > 0) {
        this.resubmissions += 1;
        await sleep(200);
      }
      const answers = await post(url, body);
      if (answers === null) continue;
      for (const [place, answer] of answers.entries()) {
        const entry = batch[place];
        if (!entry) continue;
        if (answer.job?.id === entry.id) {
          entry.state = 'accepted';
          this.accepted += 1;
        } else {
          this.refused.push(`${entry.id}: ${JSON.stringify(answer)}`);
        }
      }
      return;
    }
  }
}

type Answer = { job?: { id: string }; error?: unknown };

/** Null when nothing was heard, or only that it should be tried again. */
async function post(url: string, body: string): Promise<Answer[] | null> {
  try {
    const response = await fetch(`${url}/api/jobs`, {
      method: 'POST',
      body,
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    });
    const text = await response.text();
    if (response.status >= 500 || response.status === 429) return null;
    if (!response.ok) throw new Error(`the queue refused a submission: ${response.status} ${text}`);
    return JSON.parse(text) as Answer[];
  } catch (error) {
    if ((error as Error).message.startsWith('the queue refused')) throw error;
    return null;
  }
}

/** One job's view; null when it could not be had now. */
export async function look(url: string, id: string): Promise<JobView | null> {
  return await ask<JobView>(`${url}/api/jobs/${id}`);
}

export async function readLedger(url: string, id: string): Promise<LedgerView | null> {
  return await ask<LedgerView>(`${url}/api/jobs/${id}/ledger`);
}

async function ask<T>(url: string): Promise<T | null> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(ANSWER_WITHIN_MS) });
    const text = await response.text();
    return response.ok ? (JSON.parse(text) as T) : null;
  } catch {
    return null;
  }
}

/** The workers at which parts of its answer were made that were kept. */
export function movedFrom({ steps }: LedgerView): string[] {
  const details = steps.filter(({ step }) => step === 'moved').map(({ detail }) => detail ?? '');
  return details.flatMap((detail) => /^from (\S+) at token/.exec(detail)?.[1] ?? []);
}

/** A large result's place is between those of two large payloads. */
function kindOf(number: number): Entry['kind'] {
  if (number % LARGE_PAYLOAD_EVERY === 0) return 'large_payload';
  return number % LARGE_RESULT_EVERY === Math.floor(LARGE_PAYLOAD_EVERY / 2) ? 'large_result' : 'chat';
}

function submission(entry: Entry, webhook: string) {
  const { id, tokens: max_tokens } = entry;
  const shared = { id, config_id: 'soak', max_attempts: MAX_ATTEMPTS, webhook };
  if (entry.kind !== 'large_result') {
    const payload = { messages: messagesOf(entry), max_tokens, ignore_eos: true };
    return { ...shared, job_type: 'chat_completion', payload };
  }
  const asked = { prompt: entry.prompt, n: ECHOED.choices, echo: true, max_tokens, ignore_eos: true };
  const payload = { method: 'POST', path: '/v1/completions', body: JSON.stringify(asked) };
  return { ...shared, job_type: 'engine_request', payload };
}

function messagesOf(entry: Entry): Message[] {
  return [{ role: 'user', content: entry.prompt }];
}

function expectedAnswers(entry: Entry, model: string): string[] {
  const { kind, prompt, tokens } = entry;
  if (kind === 'large_result') return echoedTexts(prompt, ECHOED.choices, tokens, model);
  return [chatText(messagesOf(entry), tokens, model)];
}

/** The text of every choice, in both forms of a result. */
function answersIn(result: unknown): (string | undefined)[] | null {
  const { completion, response } = (result ?? {}) as {
    completion?: { choices: Choice[] };
    response?: { body: { choices: Choice[] } };
  };
  const choices = completion?.choices ?? response?.body.choices;
  return choices?.map(({ text, message }) => text ?? message?.content) ?? null;
}

interface Choice {
  text?: string;
  message?: { content: string };
}

function fingerprint(view: JobView): string {
  const { state, settled_at, fence_token, worker_id, attempts } = view;
  const result = createHash('sha256')
    .update(JSON.stringify([view.result, view.error]))
    .digest('hex');
  return [state, settled_at, fence_token, worker_id, attempts, result].join(' ');
}
