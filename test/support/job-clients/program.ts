import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { JobView } from '../../../src/protocol/index.ts';
import { killGroup } from '../processes.ts';

/** The options of a client in either language. */
export interface Options {
  url: string;
  token?: string;
  queue_id?: string;
  retries?: number;
  in_flight?: number;
  ping_seconds?: number;
}

/** An error of a client, as its program tells it. */
interface ToldError {
  message: string;
  status: number | null;
  code: string | null;
  /** The cause of the error, in the words of the language, or null. */
  cause: string | null;
}

/** The end of one of many jobs. */
interface ToldEnd {
  id: string;
  job: JobView | null;
  error: ToldError | null;
}

export type Job = Record<string, unknown>;

/** What a program was asked to do. */
export interface Call<T> {
  /** @throws ToldError */
  value: Promise<T>;
  /** Ends told so far. */
  ends: ToldEnd[];
  /** Stops the call by the language's means: an aborted signal, a cancelled task. `value` is `stopped` then. */
  stop(): void;
}

interface Told {
  call: number;
  end?: ToldEnd;
  error?: ToldError;
  value?: unknown;
}

/**
 * A program that uses a client: it is told on stdin, a line of JSON each, what to do, and tells on stdout what came
 * of it. There is one in each language (`driver.ts`, `driver.py`), with nothing in it but calls of its client.
 */
export class Program {
  readonly #child;
  readonly #open = new Map<number, { call: Call<unknown>; done: PromiseWithResolvers<unknown> }>();
  #calls = 0;
  #output = '';

  constructor(command: string, args: string[], env: NodeJS.ProcessEnv) {
    this.#child = spawn(command, args, { env, detached: true, stdio: ['pipe', 'pipe', 'pipe'] });
    this.#child.stderr.on('data', (data) => {
      this.#output += data;
    });
    createInterface(this.#child.stdout).on('line', (line) => this.#onLine(JSON.parse(line) as Told));
    this.#child.once('close', () => {
      for (const { done } of this.#open.values())
        done.reject(new Error(`the program ended: ${this.#output}`));
    });
  }

  /** The text that the program has written to stderr; empty if all is well. */
  get complaints(): string {
    return this.#output;
  }

  client(options: Options) {
    const on = this.#made('client', options);
    return {
      submit: (job: Job) => this.#call<JobView>({ on, do: 'submit', job }).value,
      get: (id: string) => this.#call<JobView>({ on, do: 'get', id }).value,
      wait: (id: string, seconds: number | null = null) =>
        this.#call<JobView | 'stopped'>({ on, do: 'wait', id, seconds }),
      cancel: (id: string) => this.#call<JobView>({ on, do: 'cancel', id }).value,
      ledger: (id: string) => this.#call<{ step: string }[]>({ on, do: 'ledger', id }).value,
    };
  }

  connection(options: Options) {
    const on = this.#made('connection', options);
    return {
      settle: (job: Job) => this.#call<ToldEnd>({ on, do: 'settle', job }).value,
      run: (job: Job) => this.#call<JobView>({ on, do: 'run', job }).value,
      /** @param take after so many it reads no further, until it is stopped */
      results: (jobs: Job[], take: number | null = null) =>
        this.#call<null | 'stopped'>({ on, do: 'results', jobs, take }),
      close: () => this.#call<null>({ on, do: 'close' }).value,
    };
  }

  stop(): void {
    killGroup(this.#child.pid);
  }

  #made(kind: 'client' | 'connection', options: Options): string {
    const on = `${kind} ${this.#calls + 1}`;
    void this.#call({ on, do: 'make', kind, options });
    return on;
  }

  #call<T>(request: object): Call<T> {
    const id = ++this.#calls;
    const done = Promise.withResolvers<unknown>();
    // A test may look at it later.
    done.promise.catch(() => {});
    const stop = () => this.#say({ stop: id });
    const call: Call<unknown> = { value: done.promise, ends: [], stop };
    this.#open.set(id, { call, done });
    this.#say({ call: id, ...request });
    return call as Call<T>;
  }

  #say(line: object): void {
    this.#child.stdin.write(`${JSON.stringify(line)}\n`);
  }

  #onLine(told: Told): void {
    const { call, done } = this.#open.get(told.call)!;
    if (told.end) {
      call.ends.push(told.end);
      return;
    }
    this.#open.delete(told.call);
    if (told.error) done.reject(told.error);
    else done.resolve(told.value);
  }
}

/** Node with the client of src/client. */
export function nodeProgram(): Program {
  return new Program(process.execPath, [join(import.meta.dirname, 'driver.ts')], process.env);
}

/** @param modules a folder with the package `worker_vllm` */
export function pythonProgram(python: string, modules: string): Program {
  const env = { ...process.env, PYTHONPATH: modules, PYTHONDONTWRITEBYTECODE: '1' };
  return new Program(python, ['-u', join(import.meta.dirname, 'driver.py')], env);
}
