import { appendFileSync, writeFileSync } from 'node:fs';

/** The call of a client; it stands in the entry `invoke` of the operation log. */
export type Call =
  | { kind: 'submit'; id: string | null; prompt: string; tokens: number }
  | { kind: 'read'; id: string }
  | { kind: 'cancel'; id: string }
  | { kind: 'chat'; token: 'chats' | 'limited'; prompt: string; tokens: number }
  | { kind: 'usage' };

/** A stored job as a client saw it. */
export interface SeenJob {
  state: string;
  fence: number;
  /** The text of its answer; null: it has none yet, or failed. */
  text: string | null;
  settledAt: string | null;
}

/** An answer to a chat, as far as it came. Times are those of the log, ms. */
interface SeenChat {
  text: string;
  firstAt: number;
  lastAt: number;
  /** The tokens that the answer says it cost, prompt and output together. */
  totalTokens: number;
}

/** The usage of the token that submits the stored jobs. */
interface SeenUsage {
  requests: number;
  output: number;
}

/**
 * How a call ended. `ok`: it was done; `fail`: it was not done; `unknown`: it may have been done, or partly, since the
 * answer was lost.
 */
export type Outcome =
  | { type: 'ok'; id?: string; job?: SeenJob; chat?: SeenChat; usage?: SeenUsage }
  | { type: 'fail' | 'unknown'; why: string; chat?: SeenChat };

/** A line of the operation log; `at` is in ms since the run began, on a clock that no fault changes. */
export type Line = { at: number } & (
  | ({ op: number } & (({ type: 'invoke' } & Call) | Outcome))
  | { type: 'fault' | 'healed'; name: string }
);

/** A call and its end; `end` is null where the run ended first. */
export interface Operation {
  op: number;
  from: number;
  call: Call;
  end: ({ at: number } & Outcome) | null;
}

/** The operation log of a run: one JSON value a line, in the order in which things happened. */
export class OperationLog {
  readonly #path: string;
  readonly #lines: Line[] = [];
  #written = 0;
  #ops = 0;

  constructor(path: string) {
    this.#path = path;
    writeFileSync(path, '');
  }

  get lines(): readonly Line[] {
    return this.#lines;
  }

  /** Notes a call, carries it out, and notes its end. What throws is `unknown`. */
  async record<Ended extends Outcome>(
    call: Call,
    carryOut: () => Promise<Ended>,
  ): Promise<Ended | { type: 'unknown'; why: string }> {
    this.#ops += 1;
    const op = this.#ops;
    this.#lines.push({ op, at: performance.now(), type: 'invoke', ...call });
    const outcome = await carryOut().catch((error: unknown) => ({
      type: 'unknown' as const,
      why: explain(error),
    }));
    this.#lines.push({ op, at: performance.now(), ...outcome });
    return outcome;
  }

  /** Notes that a fault is done, or over. */
  note(type: 'fault' | 'healed', name: string): void {
    this.#lines.push({ at: performance.now(), type, name });
  }

  /** Appends to the file what came since the last time. */
  flush(): void {
    const lines = this.#lines.slice(this.#written).map((line) => `${JSON.stringify(line)}\n`);
    this.#written = this.#lines.length;
    appendFileSync(this.#path, lines.join(''));
  }
}

/** Joins each call with its end. */
export function operationsOf(lines: readonly Line[]): Operation[] {
  const byOp = new Map<number, Operation>();
  for (const { at, ...noted } of lines) {
    if (!('op' in noted)) continue;
    const { op, ...line } = noted;
    if (line.type === 'invoke') {
      const { type: _, ...call } = line;
      byOp.set(op, { op, from: at, call: call as Call, end: null });
      continue;
    }
    const operation = byOp.get(op);
    if (!operation || operation.end)
      throw new Error(`the log has an end of operation ${op} without its call`);
    operation.end = { at, ...line };
  }
  return [...byOp.values()];
}

function explain(error: unknown): string {
  const { message, cause } = error as { message?: string; cause?: { code?: string; message?: string } };
  return `${message ?? error}${cause ? ` (${cause.code ?? cause.message})` : ''}`;
}
