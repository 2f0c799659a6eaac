import { setTimeout as sleep } from 'node:timers/promises';
import { askUntilAnswered } from './ask.ts';
import { chatText, type Message, modelOf } from './engine-text.ts';
import type { FigureRow } from './figures.ts';

const TOKENS = { least: 20, most: 120 };
/** Clients that read their streams at the same time. */
const AT_A_TIME = 4;
/** The errors of jobs whose attempts were all killed. */
const KILLED = /worker|engine|lease/i;
const OVER = ['COMPLETED', 'FAILED', 'TIMED_OUT', 'CANCELLED'];

/** What RunPod's routes tell of a job. */
interface Status {
  id: string;
  status: string;
  workerId?: string;
  output?: unknown;
  error?: string;
}
interface Streamed {
  status: string;
  stream: { output: Piece }[];
}
interface Piece {
  choices: { tokens: string[] }[];
}

interface Asked {
  id: string;
  messages: Message[];
  tokens: number;
  /** What its stream gave out, in order; null: an answer was lost, and what it carried with it, or an attempt broke. */
  read: string | null;
  end: Status;
}

/** Clients of RunPod's form beside the jobs of a soak: each streams its job, then asks for the whole. */
export class SoakEndpoint {
  readonly jobs: number;
  readonly #base: string;
  readonly #mark: string;
  readonly #random: () => number;
  readonly #asked: Asked[] = [];
  #next = 0;
  /** Submissions that were not answered: each may be one more job, of which no client knows. */
  #resubmissions = 0;

  constructor(url: string, jobs: number, mark: string, random: () => number) {
    this.jobs = jobs;
    this.#base = `${url}/v2/soak`;
    this.#mark = mark;
    this.#random = random;
  }

  get done(): number {
    return this.#asked.length;
  }

  figures(): FigureRow[] {
    return [
      ['jobs of the endpoint', this.done],
      ['… that ran out of attempts', this.#asked.filter(({ end }) => end.status !== 'COMPLETED').length],
      ['… whose whole stream was read', this.#asked.filter(({ read }) => read !== null).length],
      ['… submitted again', this.#resubmissions],
    ];
  }

  async run(): Promise<void> {
    const client = async () => {
      while (this.#next < this.jobs) await this.#one(this.#next++);
    };
    await Promise.all(Array.from({ length: AT_A_TIME }, client));
  }

  /** What is wrong, now that all are over: an answer that is not one engine's, or a failure that no kill explains. */
  problems(): string[] {
    return this.#asked.flatMap(({ id, messages, tokens, read, end }) => {
      if (end.status !== 'COMPLETED') {
        const isKilled = end.status === 'FAILED' && KILLED.test(end.error ?? '');
        return isKilled ? [] : [`${id} is ${end.status}: ${end.error}`];
      }
      const text = chatText(messages, tokens, modelOf(end.workerId ?? ''));
      const wrong = textOf(end.output) === text ? [] : [`${id} has another output than its engine gave`];
      return read === null || read === text
        ? wrong
        : [...wrong, `${id} streamed what its engine did not say`];
    });
  }

  async #one(number: number): Promise<void> {
    const messages: Message[] = [{ role: 'user', content: `Endpoint job ${number} of ${this.#mark}.` }];
    const tokens = TOKENS.least + Math.floor(this.#random() * (TOKENS.most - TOKENS.least));
    const input = { messages, sampling_params: { max_tokens: tokens, ignore_eos: true }, stream: true };
    const { id } = await askUntilAnswered<Status>(
      `${this.#base}/run`,
      { method: 'POST', body: JSON.stringify({ input }) },
      () => {
        this.#resubmissions += 1;
      },
    );
    const asked: Asked = { id, messages, tokens, read: '', end: { id, status: 'IN_QUEUE' } };
    const lost = () => {
      asked.read = null;
    };
    for (let status = ''; !OVER.includes(status); ) {
      const part = await askUntilAnswered<Streamed>(`${this.#base}/stream/${id}`, {}, lost);
      status = part.status;
      if (asked.read !== null) asked.read += textOf(part.stream.map(({ output }) => output));
      if (status === 'FAILED') lost();
    }
    // An attempt whose output was given out and that failed may be followed by another.
    while (!OVER.includes(asked.end.status)) {
      asked.end = await askUntilAnswered<Status>(`${this.#base}/status/${id}`);
      if (!OVER.includes(asked.end.status)) await sleep(300);
    }
    this.#asked.push(asked);
  }
}

function textOf(output: unknown): string {
  const pieces = [output ?? []].flat() as Piece[];
  return pieces.flatMap(({ choices }) => choices[0]?.tokens ?? []).join('');
}
