import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parse } from 'dotenv';
import { describeEngine } from '../engine/kinds/index.ts';
import { EXIT, endSignals, instanceIdOf, UserError } from '../process/index.ts';
import { programArguments } from '../process/package.ts';
import { ENGINE_NAMES } from '../protocol/index.ts';
import { type TurnRequest, Turns } from '../worker/turns/turns.ts';
import { printNote } from './terminal.ts';

/** One of the engines that share a GPU. */
interface Member {
  /** The id of the engine's worker. */
  name: string;
  env: NodeJS.ProcessEnv;
}

/**
 * Starts a supervisor for each file of variables, and gives their engines turns at the GPU: one is awake at a time. The
 * first starts at once, each other one when the engine before it sleeps, since a start needs the memory too.
 * @returns the exit code of the first supervisor that ended
 * @throws UserError for a file that cannot be read, or for two that do not fit together
 */
export async function runSwap(files: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'worker-vllm-swap-'));
  const path = join(folder, 'turns');
  const members = membersOf(files, env, path);
  const swap = new Swap(members);
  const server = await swap.listen(path);
  const signals = endSignals();
  void signals.first.then((signal) => swap.end(signal));
  void signals.second.then((signal) => swap.end(signal));
  try {
    return await swap.run();
  } finally {
    signals.release();
    server.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Returns the engines, each with the environment for its start. */
function membersOf(files: readonly string[], env: NodeJS.ProcessEnv, path: string): Member[] {
  if (files.length < 2) throw wrong('name two files of variables at least, one for each model');
  const members = files.map((file, index): Member => {
    const own: NodeJS.ProcessEnv = { ...env, ...variablesIn(file) };
    const name = own.CASOLA_INSTANCE_ID ?? `${instanceIdOf(own)}-${index + 1}`;
    return {
      name,
      env: {
        // The ports are apart from each other, and from the neighbouring ports that some engines also use.
        VLLM_PORT: String(8000 + 10 * index),
        // An engine that sleeps keeps a little of the memory.
        GPU_CHECK: 'warn',
        ...own,
        CASOLA_INSTANCE_ID: name,
        ENGINE_TURNS: path,
        // An engine that restarts would load its weights while another one is awake.
        ENGINE_RESTARTS: '0',
      },
    };
  });
  for (const [index, { env: own }] of members.entries()) {
    if (own.ENGINE_URL?.trim())
      throw wrong(
        `${files[index]}: ENGINE_URL=${own.ENGINE_URL} is an engine that runs already: swap starts its engines itself; leave it out`,
      );
    const engine = ENGINE_NAMES.find((one) => one === (own.ENGINE ?? 'vllm'));
    if (!engine || !describeEngine(engine).canSleep)
      throw wrong(`${files[index]}: ENGINE=${own.ENGINE} cannot sleep; vllm can`);
    for (const variable of ['CASOLA_INSTANCE_ID', 'VLLM_PORT'] as const) {
      const other = members.findIndex((member) => member.env[variable] === own[variable]);
      if (other !== index)
        throw wrong(`${files[other]} and ${files[index]} have the same ${variable}, ${own[variable]}`);
    }
  }
  return members;
}

function variablesIn(file: string): Record<string, string> {
  try {
    return parse(readFileSync(file));
  } catch (error) {
    throw wrong(`${file} cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
}

function wrong(message: string): UserError {
  return new UserError(message, EXIT.configuration);
}

class Swap {
  readonly #members: readonly Member[];
  readonly #children = new Map<string, ChildProcess>();
  readonly #sockets = new Map<string, Socket>();
  readonly #ended = Promise.withResolvers<number>();
  readonly #turns = new Turns({
    tell: (name, word) => {
      const member = this.#members.find((one) => one.name === name);
      const isStart = word === 'wake' && member && !this.#children.has(name);
      // While all are ending, none is started: this one keeps its turn until it is passed over.
      if (isStart && this.#code === null) this.#start(member);
      else this.#sockets.get(name)?.write(`${word}\n`);
    },
  });
  #code: number | null = null;

  constructor(members: readonly Member[]) {
    this.#members = members;
  }

  async listen(path: string): Promise<Server> {
    const server = createServer((socket) => this.#receive(socket));
    await new Promise<void>((resolve, reject) => server.once('error', reject).listen(path, resolve));
    return server;
  }

  run(): Promise<number> {
    for (const { name } of this.#members) this.#turns.want(name);
    return this.#ended.promise;
  }

  end(signal: NodeJS.Signals): void {
    this.#code ??= EXIT.ok;
    for (const child of this.#children.values()) child.kill(signal);
    this.#passOver();
  }

  /**
   * Takes the turns of engines that have ended or were never started; running ones finish their work, each in its turn.
   */
  #passOver(): void {
    for (const { name } of this.#members) if (!this.#children.has(name)) this.#turns.gone(name);
    if (this.#code !== null && this.#children.size === 0) this.#ended.resolve(this.#code);
  }

  #start({ name, env }: Member): void {
    // Each supervisor has a group of its own: a Ctrl-C of the terminal reaches it once, from this process.
    const options = { env, stdio: 'inherit', detached: true } as const;
    const child = spawn(process.execPath, programArguments('supervisor'), options);
    this.#children.set(name, child);
    child.once('exit', (code, signal) => {
      this.#children.delete(name);
      const isFirst = this.#code === null;
      this.#code ??= code ?? EXIT.unexpected;
      if (signal !== null) printNote(`swap: ${name} was ended by ${signal}`);
      if (isFirst) this.end('SIGTERM');
      // The others are not signalled again, since a second signal would cut off what they finish.
      else this.#passOver();
    });
  }

  #receive(socket: Socket): void {
    let name: string | null = null;
    socket.on('error', () => {});
    createInterface({ input: socket }).on('line', (line) => {
      if (name !== null) return this.#take(name, line as TurnRequest);
      name = line;
      this.#sockets.set(name, socket);
      // The engine may have been wanted before its socket was open.
      if (this.#turns.holder === name && this.#turns.isWanted) socket.write('wanted\n');
    });
  }

  #take(name: string, word: TurnRequest): void {
    if (word === 'want') this.#turns.want(name);
    if (word === 'asleep') this.#turns.asleep(name);
  }
}
