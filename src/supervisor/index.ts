/** Starts engine and worker as two processes, watches both, decides how the container ends. */
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import {
  createEngineClient,
  describeEngine,
  ENGINE_SECRETS,
  type EngineConfiguration,
  type EngineDescription,
  EngineHealth,
  type EnginePhase,
  engineConfiguration,
  engineEnvironment,
  engineVariables,
  findProgram,
  levelOf,
} from '../engine/index.ts';
import { createLogger, type Logger, readEnvironment, variable } from '../process/index.ts';
import { startWatchdog } from '../process/watchdog.ts';
import { type Action, decide, initialSituation, type Situation, type SupervisorEvent } from './decide.ts';
import { EngineLog, LineSplitter } from './engine-output.ts';
import {
  assertPortFree,
  type EngineProcess,
  startEngine,
  startWorker,
  type WorkerProcess,
} from './processes.ts';

const WORKER_ENTRY = fileURLToPath(new URL('../worker/main.ts', import.meta.url));
const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
/** Lines of the engine's log in the last message. */
const SHOWN_LINES = 15;
/** Should this process be killed, the worker gets this long to hand back its jobs; the engine dies at once. */
const WORKER_ALONE_SECONDS = 5;
/** A progress bar is redrawn many times a second; people need it less often. */
const PROGRESS_EVERY_MS = 1000;

/**
 * Runs engine and worker until both have ended.
 * @param options.workerEntry the worker's program, for tests
 * @returns the exit code, with which the caller is to exit at once
 * @throws UserError before anything was started: bad variables, no engine program, port in use
 */
export async function runSupervisor(
  env: NodeJS.ProcessEnv,
  { workerEntry = WORKER_ENTRY }: { workerEntry?: string } = {},
): Promise<number> {
  const own = { CASOLA_SHUTDOWN_GRACE_PERIOD: variable.seconds(0).default(5) };
  const values = readEnvironment(z.object({ ...engineVariables(env), ...own }), env, ENGINE_SECRETS);
  const configuration = engineConfiguration(values);
  const engine = describeEngine(configuration.engine);
  const start = await prepareEngine(configuration, engine, env);
  return new Supervisor({
    env,
    workerEntry,
    configuration,
    engine,
    start,
    graceMs: values.CASOLA_SHUTDOWN_GRACE_PERIOD * 1000,
  }).run();
}

type StartEngine = (handlers: Parameters<typeof startEngine>[2]) => EngineProcess;

/** Checks all that can be checked before an expensive start. Null: the engine is not ours to start. */
async function prepareEngine(
  configuration: EngineConfiguration,
  engine: EngineDescription,
  env: NodeJS.ProcessEnv,
): Promise<StartEngine | null> {
  const { settings } = configuration;
  if (!settings || !engine.command) return null;
  const command = engine.command(settings);
  const program = findProgram(command.program, engine, env);
  await assertPortFree(settings.host, settings.port);
  return (handlers) => startEngine({ ...command, program }, engineEnvironment(env), handlers);
}

interface Parts {
  env: NodeJS.ProcessEnv;
  workerEntry: string;
  configuration: EngineConfiguration;
  engine: EngineDescription;
  start: StartEngine | null;
  graceMs: number;
}

/** The hands of decide.ts: turns what happens into events, and actions into deeds. */
class Supervisor {
  readonly #parts: Parts;
  readonly #log: Logger;
  readonly #engineLog: Logger;
  readonly #output: EngineLog;
  readonly #watchdog = startWatchdog();
  readonly #ended = Promise.withResolvers<number>();
  #situation: Situation;
  #worker: WorkerProcess | null = null;
  #engine: EngineProcess | null = null;
  #limit: NodeJS.Timeout | undefined;
  #progressAt = Number.NEGATIVE_INFINITY;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#log = createLogger('supervisor', parts.env);
    this.#engineLog = createLogger('engine', parts.env);
    this.#output = new EngineLog(parts.engine);
    this.#situation = initialSituation(parts.start !== null);
  }

  async run(): Promise<number> {
    const onSignal = (name: NodeJS.Signals) => this.#happen({ event: 'signal', name, at: performance.now() });
    // They stay to the end: a signal in the last moment must not change the exit code.
    for (const name of SIGNALS) process.on(name, onSignal);
    const stopWatching = this.#startBoth();
    try {
      return await this.#ended.promise;
    } finally {
      stopWatching();
      clearTimeout(this.#limit);
    }
  }

  /** @returns ends the watch for the engine's first healthy answer */
  #startBoth(): () => void {
    const { env, workerEntry, start } = this.#parts;
    // The worker goes first: it is the one to find its own variables wrong.
    this.#worker = startWorker(workerEntry, env, {
      onMessage: (message) => this.#log.debug(`the worker is ${message.case}`),
      onExit: (code) => {
        if (this.#worker?.group) this.#watchdog.forget(this.#worker.group);
        this.#happen({ event: 'worker_exited', code });
      },
    });
    if (this.#worker.group !== null) this.#watchdog.watch(this.#worker.group, WORKER_ALONE_SECONDS);
    if (!start) {
      this.#log.info(`attached to the engine at ${this.#parts.configuration.url}`);
      return () => {};
    }
    this.#engine = start(this.#engineHandlers());
    if (this.#engine.group !== null) this.#watchdog.watch(this.#engine.group, 0);
    this.#log.info(`starting ${this.#parts.engine.name} with ${this.#parts.configuration.model}`);
    this.#tellPhase('starting', `starting ${this.#parts.engine.name}`);
    return this.#watchFirstHealth();
  }

  #engineHandlers(): Parameters<StartEngine>[0] {
    const splitters = { stdout: new LineSplitter(), stderr: new LineSplitter() };
    return {
      onOutput: (stream, text) => {
        const { lines, progress } = splitters[stream].push(text);
        for (const line of lines) this.#onEngineLine(line);
        if (progress) this.#onProgress(progress);
      },
      onExit: (code, startError) => {
        for (const splitter of [splitters.stdout, splitters.stderr]) {
          for (const line of splitter.end()) this.#onEngineLine(line);
        }
        this.#happen({
          event: 'engine_exited',
          message: this.#explain(code, startError),
          lastLines: this.#output.lastLines.slice(-SHOWN_LINES),
        });
        // Not before its group was swept.
        if (this.#engine?.group) this.#watchdog.forget(this.#engine.group);
      },
    };
  }

  /** Until the first healthy answer; from then on the worker alone watches. */
  #watchFirstHealth(): () => void {
    const { configuration, engine } = this.#parts;
    const client = createEngineClient({ baseUrl: configuration.url, apiKey: configuration.apiKey, engine });
    const health = new EngineHealth({
      probe: client.probe,
      // Giving up is the worker's decision: it reports, ends, and the engine is stopped after it.
      startupTimeoutMs: Number.POSITIVE_INFINITY,
      clock: {
        now: () => performance.now(),
        setTimeout,
        clearTimeout: (timer) => clearTimeout(timer as number),
      },
      onChange: () => {
        stop();
        this.#tellPhase('ready', 'the engine is healthy');
        this.#happen({ event: 'engine_healthy' });
      },
    });
    const stop = () => {
      health.stop();
      void client.close();
    };
    health.start();
    return stop;
  }

  #onEngineLine(line: string): void {
    this.#output.keep(line);
    this.#engineLog[levelOf(line)](line);
    this.#onPhase(line);
  }

  #onProgress(bar: string): void {
    const now = performance.now();
    if (now - this.#progressAt < PROGRESS_EVERY_MS) return;
    this.#progressAt = now;
    this.#onPhase(bar);
  }

  #onPhase(line: string): void {
    if (this.#situation.state !== 'starting') return;
    const phase = this.#output.newPhase(line);
    // The health check knows better than the log when the engine is ready.
    if (phase && phase.phase !== 'ready') this.#tellPhase(phase.phase, phase.detail);
  }

  #tellPhase(phase: EnginePhase, detail: string): void {
    this.#worker?.tell({ case: 'phase', phase, detail });
  }

  /** Cause and advice. */
  #explain(code: number | null, startError?: Error): string {
    const { engine } = this.#parts;
    if (startError) return `${engine.name} could not be started: ${startError.message}`;
    const { cause, advice } = engine.explainExit(code, this.#output.lastLines);
    const verb = this.#situation.engineWasHealthy ? 'died' : 'failed to start';
    return `${engine.name} ${verb}: ${cause}. ${advice}`;
  }

  #happen(event: SupervisorEvent): void {
    const [next, actions] = decide(this.#situation, event, this.#parts.graceMs);
    if (next.state !== this.#situation.state) this.#log.debug(`${this.#situation.state} → ${next.state}`);
    this.#situation = next;
    for (const action of actions) this.#do(action);
  }

  #do(action: Action): void {
    switch (action.action) {
      case 'signal_worker':
        return this.#worker?.signal(action.signal);
      case 'signal_engine':
        return this.#engine?.signal(action.signal);
      case 'tell_worker':
        return this.#worker?.tell(action.message);
      case 'say':
        return this.#log[action.level](action.text);
      case 'limit':
        clearTimeout(this.#limit);
        this.#limit = setTimeout(() => this.#happen({ event: 'limit_reached' }), action.ms);
        return;
      case 'exit':
        return this.#ended.resolve(action.code);
    }
  }
}
