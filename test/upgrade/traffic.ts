import type { JobEnd } from '../../src/client/index.ts';
import type { JobView } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { chatJob } from '../support/road.ts';
import type { Version } from './versions.ts';

/** Tokens of each stored job and of each stream. */
export const TOKENS = 30;
const STREAMS = 6;
const JOBS = 6;

/** Stored jobs over the job socket of a version's client, and streams beside them, until it is told to end. */
export class Traffic {
  /** Stored jobs as their submitter learnt their end, by id. */
  readonly jobs = new Map<string, JobView>();
  /** Stored jobs that ended with an error of the client. */
  readonly refused: JobEnd[] = [];
  /** The number of streams that came whole. */
  whole = 0;
  /** What callers read of streams that did not come whole. */
  readonly broken: string[] = [];
  readonly #url: string;
  readonly #tokens: { jobs?: string; streams?: string };
  readonly #all: Promise<unknown>;
  #isOver = false;

  /** @param tokens those of the programs that submit jobs and of the callers of streams */
  constructor(url: string, { client }: Version, tokens: { jobs?: string; streams?: string } = {}) {
    this.#url = url;
    this.#tokens = tokens;
    const connection = new client.JobConnection({ url, token: tokens.jobs });
    const jobs = Array.from({ length: JOBS }, () => this.#submit(connection));
    const streams = Array.from({ length: STREAMS }, () => this.#stream());
    this.#all = Promise.all([Promise.all(jobs).finally(() => connection.close()), ...streams]);
    // A test that has failed before it ends the traffic has said why.
    this.#all.catch(() => {});
  }

  /** Waits until so many more jobs have ended and so many more streams have come whole. */
  async more(count: number): Promise<void> {
    const [jobs, whole] = [this.jobs.size + count, this.whole + count];
    await until(() => this.jobs.size >= jobs && this.whole >= whole, `${count} more jobs and streams ended`, {
      timeoutMs: 120_000,
    });
  }

  /** Submits nothing more, and waits for what was submitted. */
  async end(): Promise<void> {
    this.#isOver = true;
    await this.#all;
  }

  async #submit(connection: InstanceType<Version['client']['JobConnection']>): Promise<void> {
    while (!this.#isOver) {
      const end = await connection.settle(chatJob(TOKENS) as never);
      if ('job' in end) this.jobs.set(end.id, end.job);
      else this.refused.push(end);
    }
  }

  async #stream(): Promise<void> {
    while (!this.#isOver) {
      const { got, isRefused } = await this.#streamOnce();
      if (got.endsWith('data: [DONE]\n\n') && !got.includes('"error"')) this.whole += 1;
      else if (!isRefused) this.broken.push(got);
      else await new Promise((done) => setTimeout(done, 50));
    }
  }

  /** Returns what was read, and whether nothing listened at the address. */
  async #streamOnce(): Promise<{ got: string; isRefused: boolean }> {
    let got = '';
    const headers = { authorization: `Bearer ${this.#tokens.streams ?? 'none'}` };
    const body = {
      model: 'tiny',
      stream: true,
      max_tokens: TOKENS,
      ignore_eos: true,
      messages: [{ role: 'user', content: 'Say something.' }],
    };
    try {
      const init = { method: 'POST', headers, body: JSON.stringify(body) };
      const response = await fetch(`${this.#url}/v1/chat/completions`, init);
      for await (const part of response.body!.pipeThrough(new TextDecoderStream())) got += part;
      return { got, isRefused: false };
    } catch (error) {
      const { code } = ((error as Error).cause ?? {}) as { code?: string };
      return { got: `${got}\n${(error as Error).message} ${code}`, isRefused: code === 'ECONNREFUSED' };
    }
  }
}
