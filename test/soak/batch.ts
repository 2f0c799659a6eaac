import { setTimeout as sleep } from 'node:timers/promises';
import { askUntilAnswered } from './ask.ts';
import { chatText, type Message, modelOf } from './engine-text.ts';
import type { FigureRow } from './figures.ts';

/** What a line may fail by here: the kills that hit all its attempts. */
const KILLED = ['worker_died', 'lease_expired', 'engine_died', 'engine_unreachable'];
const TOKENS = { least: 10, most: 60 };
const LOOKS_EVERY_MS = 500;
const ENDPOINT = '/v1/chat/completions';

interface BatchNow {
  id: string;
  status: string;
  output_file_id: string | null;
  error_file_id: string | null;
  request_counts: { total: number; completed: number; failed: number };
}

/** A batch beside the jobs of a soak: every line is to be written once, with what the engine of one worker says to it. */
export class SoakBatch {
  readonly #url: string;
  readonly #workers: readonly string[];
  readonly #lines: { messages: Message[]; tokens: number }[];
  #now: BatchNow | null = null;
  /** What was seen that must not be. */
  readonly #wrong: string[] = [];

  /** @param workers their ids: the text tells whose engine spoke */
  constructor(url: string, workers: readonly string[], lines: number, mark: string, random: () => number) {
    this.#url = url;
    this.#workers = workers;
    this.#lines = Array.from({ length: lines }, (_, n) => ({
      messages: [{ role: 'user', content: `Line ${n} of ${mark}.` }],
      tokens: TOKENS.least + Math.floor(random() * (TOKENS.most - TOKENS.least)),
    }));
  }

  /** Lines that are written. */
  get done(): number {
    const { completed = 0, failed = 0 } = this.#now?.request_counts ?? {};
    return completed + failed;
  }

  figures(): FigureRow[] {
    return [
      ['lines of a batch', this.#lines.length],
      ['… that ran out of attempts', this.#now?.request_counts.failed ?? 0],
    ];
  }

  /** Uploads, creates, and looks until it is over; what is not answered is asked again. */
  async run(): Promise<void> {
    const body = this.#lines.map(
      ({ messages, tokens }, n) =>
        `${JSON.stringify({
          custom_id: `line-${n}`,
          method: 'POST',
          url: ENDPOINT,
          body: { messages, max_tokens: tokens, ignore_eos: true },
        })}\n`,
    );
    const file = await askUntilAnswered<{ id: string }>(
      `${this.#url}/v1/files?purpose=batch&filename=soak.jsonl`,
      {
        method: 'POST',
        headers: { 'content-type': 'application/jsonl' },
        body: body.join(''),
      },
    );
    const asked = { input_file_id: file.id, endpoint: ENDPOINT, completion_window: '24h' };
    const { id } = await askUntilAnswered<BatchNow>(`${this.#url}/v1/batches`, {
      method: 'POST',
      headers: { 'idempotency-key': file.id },
      body: JSON.stringify(asked),
    });
    while (!['completed', 'failed', 'expired', 'cancelled'].includes(this.#now?.status ?? '')) {
      await sleep(LOOKS_EVERY_MS);
      this.#see(await askUntilAnswered<BatchNow>(`${this.#url}/v1/batches/${id}`));
    }
  }

  /** What is wrong with it, now that it is over. */
  async problems(): Promise<string[]> {
    const batch = this.#now;
    if (batch?.status !== 'completed') return [...this.#wrong, `the batch is ${batch?.status}`];
    const written = (
      await Promise.all([batch.output_file_id, batch.error_file_id].map((id) => this.#linesOf(id)))
    ).flat();
    const wrong = this.#lines.flatMap((line, n) => {
      const found = written.filter(({ custom_id }) => custom_id === `line-${n}`);
      if (found.length !== 1) return [`line-${n} is written ${found.length} times`];
      return this.#isRight(found[0]!, line) ? [] : [`line-${n} is wrong: ${JSON.stringify(found[0])}`];
    });
    const { completed, failed } = batch.request_counts;
    if (completed + failed !== this.#lines.length || written.length !== this.#lines.length)
      wrong.push(
        `${completed} and ${failed} of ${this.#lines.length} lines are counted, ${written.length} written`,
      );
    return [...this.#wrong, ...wrong];
  }

  #see(now: BatchNow): void {
    const before = this.#now?.request_counts;
    const { completed, failed } = now.request_counts;
    if (before && (completed < before.completed || failed < before.failed))
      this.#wrong.push(`counts went from ${JSON.stringify(before)} to ${JSON.stringify(now.request_counts)}`);
    this.#now = now;
  }

  /** Each worker's engine has a text of its own: an answer of two attempts would be found out. */
  #isRight({ response, error }: WrittenLine, line: { messages: Message[]; tokens: number }): boolean {
    if (response === null) return KILLED.includes(error?.code ?? '');
    const { content } = response.body.choices?.[0]?.message ?? {};
    // One that moved is what the engine says where it began.
    return this.#workers.some((worker) => content === chatText(line.messages, line.tokens, modelOf(worker)));
  }

  async #linesOf(fileId: string | null): Promise<WrittenLine[]> {
    if (fileId === null) return [];
    const response = await fetch(`${this.#url}/v1/files/${fileId}/content`);
    return (await response.text())
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as WrittenLine);
  }
}

interface WrittenLine {
  custom_id: string;
  response: { body: { choices: { message: { content: string } }[] } } | null;
  error: { code: string } | null;
}
