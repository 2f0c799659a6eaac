import { setTimeout as sleep } from 'node:timers/promises';
import type { JobView } from '../../src/protocol/index.ts';
import type { Random } from '../../test/support/random.ts';
import { bearer } from './cluster.ts';
import type { OperationLog, Outcome, SeenJob } from './operations.ts';

/** The time that a client gives a call, ms: a gateway waits 30 s for its queue. */
const CALL_MS = 40_000;
/** The same of a call straight to a member of the queue, which may stand still. */
const DIRECT_MS = 8000;
const CHAT_MS = 120_000;
/** Codes by which the queue says that nothing was done. */
const REFUSALS = ['not_owner', 'queue_away', 'rate_limit_exceeded', 'queue_full'];

export interface ClientsOptions {
  log: OperationLog;
  random: Random;
  /** Where a call may go: gateways, and queues of which one answers. */
  gateways: readonly string[];
  queues: readonly string[];
  tokens: { jobs: string; chats: string; limited: string; admin: string };
  /** Names the run in ids and prompts. */
  mark: string;
}

interface Known {
  id: string;
  isOver: boolean;
}

/** Jobs that are submitted and not seen ended; more are not submitted meanwhile. */
const MOST_OPEN = 150;

/** The clients of a run. Each notes what it asks for and what it hears, and goes on with the next call. */
export class Clients {
  readonly #options: ClientsOptions;
  readonly #log: OperationLog;
  readonly #random: Random;
  readonly known: Known[] = [];
  #next = 0;
  #open = 0;
  #isOver = false;

  constructor(options: ClientsOptions) {
    this.#options = options;
    this.#log = options.log;
    this.#random = options.random;
  }

  /** Jobs that were acknowledged. */
  get acknowledged(): number {
    return this.known.length;
  }

  /** Runs all clients until they are told to stop. */
  async run(counts: { jobs: number; chats: number; limited: number }): Promise<void> {
    const many = (count: number, client: () => Promise<void>) =>
      Array.from({ length: count }, () => this.#repeat(client));
    await Promise.all([
      ...many(counts.jobs, () => this.#storeAndRead()),
      ...many(counts.chats, () => this.#chat('chats')),
      ...many(counts.limited, () => this.#chat('limited')),
      ...many(1, () => this.#readUsage()),
    ]);
  }

  stop(): void {
    this.#isOver = true;
  }

  /** Submits a job at one address, as the probe of a takeover does. @returns whether it was acknowledged */
  async submitAt(url: string, limitMs: number): Promise<boolean> {
    const { id, prompt, tokens } = this.#newJob(true);
    const outcome = await this.#log.record({ kind: 'submit', id, prompt, tokens }, () =>
      this.#submit(url, id, prompt, tokens, limitMs),
    );
    if (outcome.type === 'ok') this.known.push({ id: outcome.id!, isOver: false });
    return outcome.type === 'ok';
  }

  /** Reads every job that was acknowledged until it has ended. */
  async readToTheEnd(): Promise<void> {
    const open = this.known.filter(({ isOver }) => !isOver).values();
    const read = async () => {
      for (const job of open) while (!job.isOver) if (!(await this.#read(job, 5))) await sleep(200);
    };
    await Promise.all(Array.from({ length: 16 }, read));
  }

  async #repeat(client: () => Promise<void>): Promise<void> {
    while (!this.#isOver) await client();
  }

  #newJob(hasOwnId: boolean) {
    this.#next += 1;
    const name = `${this.#options.mark}-${this.#next}`;
    return { id: hasOwnId ? name : null, prompt: `Job ${name}.`, tokens: this.#random.int(1, 20) };
  }

  async #storeAndRead(): Promise<void> {
    if (this.#open >= MOST_OPEN) return await sleep(50);
    const { id, prompt, tokens } = this.#newJob(this.#random.chance(0.7));
    let known: Known | null = null;
    for (let tries = 0; known === null && tries < 100 && !(tries > 0 && this.#isOver); tries += 1) {
      if (tries > 0) await sleep(100 + this.#random.below(400));
      const outcome = await this.#log.record({ kind: 'submit', id, prompt, tokens }, () =>
        this.#submit(this.#anyUrl(), id, prompt, tokens),
      );
      if (outcome.type === 'ok') known = { id: outcome.id!, isOver: false };
      // Without an id of its own it cannot be submitted again without being there twice.
      else if (id === null && outcome.type === 'unknown') return;
    }
    if (known === null) return;
    this.known.push(known);
    this.#open += 1;
    const { id: of } = known;
    if (this.#random.chance(0.05)) await this.#cancel(of);
    const mayLeave = this.#random.chance(0.3);
    while (!known.isOver && !this.#isOver && !mayLeave) if (!(await this.#read(known, 5))) await sleep(200);
    if (this.#random.chance(0.2)) await this.#read(known, 0);
    this.#open -= 1;
  }

  async #submit(
    url: string,
    id: string | null,
    prompt: string,
    tokens: number,
    limitMs = this.#limitOf(url),
  ): Promise<Outcome> {
    const response = await fetch(`${url}/api/jobs`, {
      method: 'POST',
      headers: bearer(this.#options.tokens.jobs),
      body: JSON.stringify({
        ...(id === null ? {} : { id }),
        job_type: 'chat_completion',
        config_id: 'pool',
        max_attempts: 100,
        payload: { messages: [{ role: 'user', content: prompt }], max_tokens: tokens, ignore_eos: true },
      }),
      signal: AbortSignal.timeout(limitMs),
    });
    const body = await response.text();
    if (response.ok) return { type: 'ok', id: (JSON.parse(body) as JobView).id };
    return notDone(response.status, body);
  }

  /** @returns whether it was answered */
  async #read(job: Known, waitSeconds: number): Promise<boolean> {
    const outcome = await this.#log.record({ kind: 'read', id: job.id }, () =>
      this.#view('GET', job.id, `?wait=${waitSeconds}`),
    );
    if (outcome.type === 'ok' && outcome.job?.settledAt) job.isOver = true;
    return outcome.type === 'ok';
  }

  async #cancel(id: string): Promise<void> {
    await this.#log.record({ kind: 'cancel', id }, () => this.#view('DELETE', id, ''));
  }

  async #view(method: string, id: string, query: string): Promise<Outcome & { job?: SeenJob }> {
    const url = this.#anyUrl();
    const response = await fetch(`${url}/api/jobs/${id}${query}`, {
      method,
      headers: bearer(this.#options.tokens.jobs),
      signal: AbortSignal.timeout(this.#limitOf(url)),
    });
    const body = await response.text();
    if (!response.ok) return notDone(response.status, body);
    const view = JSON.parse(body) as JobView | { error: { code: string } };
    // An answer that began while the job was waited for may end with an error.
    if (!('state' in view)) return notDone(503, body);
    return { type: 'ok', job: seen(view) };
  }

  async #chat(token: 'chats' | 'limited'): Promise<void> {
    this.#next += 1;
    const prompt = `Chat ${this.#options.mark}-${this.#next}.`;
    const tokens = token === 'limited' ? 100 : this.#random.chance(0.1) ? 1000 : this.#random.int(20, 200);
    const outcome = await this.#log.record({ kind: 'chat', token, prompt, tokens }, () =>
      this.#stream(token, prompt, tokens),
    );
    if (outcome.type !== 'ok') await sleep(500);
  }

  async #stream(token: 'chats' | 'limited', prompt: string, tokens: number): Promise<Outcome> {
    const chat = { text: '', firstAt: 0, lastAt: 0, totalTokens: 0 };
    const broken = (why: string): Outcome => ({ type: 'unknown', why, ...(chat.firstAt > 0 && { chat }) });
    try {
      const response = await fetch(`${this.#random.pick(this.#options.gateways)}/v1/chat/completions`, {
        method: 'POST',
        headers: {
          ...bearer(this.#options.tokens[token]),
          'content-type': 'application/json',
          'x-queue-wait': '60',
        },
        body: JSON.stringify({
          model: 'default',
          messages: [{ role: 'user', content: prompt }],
          max_tokens: tokens,
          ignore_eos: true,
          stream: true,
          stream_options: { include_usage: true },
        }),
        signal: AbortSignal.timeout(CHAT_MS),
      });
      if (!response.ok || !response.body) return notDone(response.status, await response.text());
      let rest = '';
      let isDone = false;
      for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
        const events = (rest + piece).split('\n\n');
        rest = events.pop()!;
        for (const event of events) {
          const data = /^data: (.*)$/m.exec(event)?.[1];
          if (data === undefined) continue;
          if (data === '[DONE]') {
            isDone = true;
            continue;
          }
          const body = JSON.parse(data) as Chunk;
          if (body.error) return broken(`${body.error.code}: ${body.error.message}`);
          chat.totalTokens = body.usage?.total_tokens ?? chat.totalTokens;
          const content = body.choices[0]?.delta.content ?? '';
          if (content === '') continue;
          chat.text += content;
          chat.lastAt = performance.now();
          if (chat.firstAt === 0) chat.firstAt = chat.lastAt;
        }
      }
      return isDone ? { type: 'ok', chat } : broken('the answer ended without [DONE]');
    } catch (error) {
      const { message, cause } = error as { message: string; cause?: { code?: string } };
      return broken(`${message} ${cause?.code ?? ''}`);
    }
  }

  async #readUsage(): Promise<void> {
    await sleep(1000);
    const { admin } = this.#options.tokens;
    await this.#log.record({ kind: 'usage' }, async () => {
      const sums = await usageOf(this.#anyUrl(), admin);
      return { type: 'ok', usage: sums.get('jobs') ?? { requests: 0, output: 0 } };
    });
  }

  #limitOf(url: string): number {
    return this.#options.queues.includes(url) ? DIRECT_MS : CALL_MS;
  }

  /** Returns an address; of the queues, only one answers at a time. */
  #anyUrl(): string {
    const { gateways, queues } = this.#options;
    return this.#random.pick(this.#random.chance(0.6) ? gateways : queues);
  }
}

interface Chunk {
  error?: { code: string; message: string };
  usage?: { total_tokens: number } | null;
  choices: { delta: { content?: string } }[];
}

/** Returns the usage of each token, of all times that a clock may have been set to. */
export async function usageOf(
  url: string,
  token: string,
): Promise<Map<string, { requests: number; output: number }>> {
  const [since, until] = [-2, 2].map((days) => Math.floor(Date.now() / 1000) + days * 86_400);
  const response = await fetch(`${url}/api/usage?since=${since}&until=${until}&group_by=token_name`, {
    headers: bearer(token),
    signal: AbortSignal.timeout(CALL_MS),
  });
  if (!response.ok) throw new Error(`${response.status} ${(await response.text()).slice(0, 200)}`);
  const { usage } = (await response.json()) as {
    usage: { token_name: string; requests: number; output: number }[];
  };
  const sums = new Map<string, { requests: number; output: number }>();
  for (const { token_name, requests, output } of usage) {
    const sum = sums.get(token_name) ?? { requests: 0, output: 0 };
    sums.set(token_name, { requests: sum.requests + requests, output: sum.output + output });
  }
  return sums;
}

/** Returns a job as the checker compares it. */
export function seen(view: JobView): SeenJob {
  const result = view.result as { completion?: { choices: { message: { content: string } }[] } } | null;
  const text = result?.completion?.choices[0]?.message.content ?? null;
  return { state: view.state, fence: view.fence_token, text, settledAt: view.settled_at };
}

function notDone(status: number, body: string): Outcome {
  const why = `${status} ${body.slice(0, 300)}`;
  const code = /"code":\s*"(\w+)"/.exec(body)?.[1] ?? '';
  const isRefused = REFUSALS.includes(code) || (status >= 400 && status < 500);
  return { type: isRefused ? 'fail' : 'unknown', why };
}
