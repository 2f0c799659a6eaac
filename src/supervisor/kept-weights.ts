import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { learnFlags } from '../engine/command/learn-flags.ts';
import type { EngineDescription, LogPhase } from '../engine/kinds/description.ts';
import { levelOf } from '../engine/kinds/log-phases.ts';
import type { ProcessGroup } from '../process/child.ts';
import type { Logger } from '../process/index.ts';
import type { PreparedCommand } from './engine-command.ts';
import { LineSplitter } from './engine-run.ts';
import { startEngine } from './processes.ts';

/** The flags of an engine that the keeper of its weights sets in the engine's place. */
const LOADING = ['--load-format', '--model-loader-extra-config'];
const SOCKETS = '--weight-cache-socket-dir';

interface KeptWeightsPorts {
  engine: Pick<EngineDescription, 'phaseOf'>;
  /** The command of the engine, `vllm serve …`. */
  command: PreparedCommand;
  log: Logger;
}

/**
 * A process beside the engine, `vllm preload`, that loads the weights into the GPU's memory and holds them there, so that
 * an engine that is started again maps them instead of reading them from the disk. It needs CUDA or ROCm; where it
 * cannot hold them, the engine loads them itself.
 */
export class KeptWeights {
  readonly #ports: KeptWeightsPorts;
  #folder: string | null = null;
  #process: ProcessGroup | null = null;
  #isHeld = false;
  #isOver = false;

  constructor(ports: KeptWeightsPorts) {
    this.#ports = ports;
  }

  /** The arguments with which the engine is started: those that map the weights while they are held. */
  get engineArguments(): string[] {
    const { command } = this.#ports;
    if (!this.#isHeld || this.#folder === null) return command.args;
    const rest = command.arguments.filter(({ flag }) => flag === null || !LOADING.includes(flag));
    // An engine whose model is not exactly the one that is held reads the disk.
    const where = JSON.stringify({ socket_dir: this.#folder, fallback: true });
    return [...rest.flatMap(({ words }) => words), LOADING[0]!, 'ipc_cache', LOADING[1]!, where];
  }

  /**
   * Loads the weights. Resolves when they are held, when that has failed, or when `stopped` is aborted; never rejects.
   * @param onPhase called with each step of the loading
   */
  async load(stopped: AbortSignal, onPhase: (phase: LogPhase) => void): Promise<void> {
    const { command, log } = this.#ports;
    try {
      this.#folder = mkdtempSync(join(tmpdir(), 'worker-vllm-weights-'));
      const args = await preloadArguments(command, this.#folder, stopped);
      if (stopped.aborted || this.#isOver) return;
      log.info('loading the weights once, for every start of the engine: vllm preload');
      await this.#start(args, stopped, onPhase);
    } catch (error) {
      if (stopped.aborted) return;
      log.warn(`the weights are not kept: ${(error as Error).message}. Each start of the engine loads them.`);
    }
  }

  /** Ends the process, and with it what it holds of the GPU's memory. */
  stop(): void {
    this.#isOver = true;
    this.#isHeld = false;
    this.#process?.signal('SIGKILL');
    if (this.#folder !== null) rmSync(this.#folder, { recursive: true, force: true });
  }

  #start(args: string[], stopped: AbortSignal, onPhase: (phase: LogPhase) => void): Promise<void> {
    const { command, engine, log } = this.#ports;
    const { promise, resolve } = Promise.withResolvers<void>();
    const splitters = { stdout: new LineSplitter(), stderr: new LineSplitter() };
    let lastError = '';
    const onLine = (line: string) => {
      log[levelOf(line)](line);
      lastError = /^\S*(?:Error|Exception)\S*: .*/.exec(line)?.[0] ?? lastError;
      const phase = this.#isHeld ? null : engine.phaseOf(line);
      if (phase) onPhase(phase);
      if (!/Weight cache daemon READY/.test(line)) return;
      this.#isHeld = true;
      resolve();
    };
    this.#process = startEngine({ program: command.program, args }, command.env, {
      onOutput: (stream, text) => {
        for (const line of splitters[stream].push(text).lines) onLine(line);
      },
      onExit: (code, startError) => {
        const cause = startError?.message ?? (lastError || `exit code ${code ?? 'by a signal'}`);
        if (!this.#isOver)
          log.warn(`vllm preload ended: ${cause}. Each start of the engine loads its weights.`);
        this.#isHeld = false;
        this.#process?.signal('SIGKILL');
        this.#process?.release();
        this.#process = null;
        resolve();
      },
    });
    stopped.addEventListener('abort', () => resolve(), { once: true });
    return promise;
  }
}

/** Returns the arguments of `vllm preload`: those of `vllm serve` that it has too, among them all about the model. */
async function preloadArguments(
  { program, args, arguments: given, env }: PreparedCommand,
  folder: string,
  signal: AbortSignal,
): Promise<string[]> {
  const at = given.findIndex(({ words }) => words[0] === 'serve');
  const first = [...args.slice(0, args.indexOf('serve')), 'preload'];
  const flags = await learnFlags({ program, args: first, env, signal }, () => {});
  const known = new Set(flags.flatMap(({ name, otherNames }) => [name, ...otherNames]));
  if (!known.has(SOCKETS)) throw new Error('this version of vLLM has no "vllm preload"; 0.32 has');
  const model = given[at + 1]!.words;
  const shared = given.slice(at + 2).filter(({ flag }) => flag !== null && known.has(flag));
  return [...first, '--model', ...model, ...shared.flatMap(({ words }) => words), SOCKETS, folder];
}
