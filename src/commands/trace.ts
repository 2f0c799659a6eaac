import type { LedgerStep } from '../client/index.ts';
import { printable, type Waiting, waitingText } from '../protocol/index.ts';
import { exactTime, inWords } from '../show/format.ts';

/** Returns a ledger for people: one line for each step, with its time since the first, s. */
export function traceText(jobId: string, steps: readonly LedgerStep[], waiting?: Waiting): string {
  const start = Date.parse(steps[0]?.at ?? '');
  const lines = steps.map((step) => {
    const seconds = ((Date.parse(step.at) - start) / 1000).toFixed(3);
    const where = step.worker_id === null ? '' : `${step.worker_id}, `;
    const attempt = step.attempt === 0 ? '' : `${where}attempt ${step.attempt}, fence ${step.fence_token}`;
    return [
      `+${seconds.padStart(9)} s`,
      inWords(step.step).padEnd(18),
      [attempt, step.detail].filter(Boolean).join(': '),
    ].join('  ');
  });
  if (waiting) lines.push(waitingLine(waiting));
  return printable(`Job ${jobId}\n${lines.map((line) => `  ${line.trimEnd()}\n`).join('')}`);
}

/** The causes that are not printed: the command's own progress shows them, or they pass in a moment. */
const NOT_PRINTED: ReadonlySet<Waiting['code']> = new Set(['busy', 'batch_room', 'turn']);

/** Prints what something waits for, once each time that it waits for something else. */
export class WaitingLine {
  readonly #say: (text: string) => void;
  #printed: string | null = null;

  constructor(say: (text: string) => void) {
    this.#say = say;
  }

  /**
   * @param waiting null or left out: it waits for nothing
   * @returns whether it waits for something that is printed
   */
  show(waiting: Waiting | null | undefined): boolean {
    const shape = waiting && !NOT_PRINTED.has(waiting.code) ? shapeOf(waiting) : null;
    if (waiting && shape !== null && shape !== this.#printed) this.#say(waitingLine(waiting));
    this.#printed = shape;
    return shape !== null;
  }
}

/** Returns a line such as `Waits because it has no worker. Start a worker with …` */
function waitingLine(waiting: Waiting): string {
  return `Waits because ${waitingText(waiting, (at) => exactTime(at))}`;
}

/** Replaces numbers, since a change of numbers alone, as during a start, is no news. */
function shapeOf({ code, for: clause }: Waiting): string {
  return `${code} ${clause.replace(/\d+(\.\d+)?/g, '#')}`;
}
