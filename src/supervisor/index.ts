import {
  type EngineConfiguration,
  engineConfiguration,
  readEngineConfiguration,
} from '../engine/command/configuration.ts';
import { adapterRoom, modelRevision, requestsSideBySide } from '../engine/command/default-flags.ts';
import { type Argument, inVariables } from '../engine/command/flag-arguments.ts';
import { readSettledEnvironment, type SettledEnvironment } from '../engine/command/flag-names.ts';
import type { EngineDescription, EngineFailure, LogPhase } from '../engine/kinds/description.ts';
import { describeEngine } from '../engine/kinds/index.ts';
import { PHASE_SAID, phaseText } from '../engine/kinds/report.ts';
import { systemClock } from '../process/clock.ts';
import { END_SIGNALS, EXIT, endSignals, type Logger, type Logging, withLogging } from '../process/index.ts';
import { programArguments } from '../process/package.ts';
import { wayDownMs } from '../process/way-down.ts';
import type { WorkerMessage } from '../worker/supervisor-channel.ts';
import { withQueueDefaults } from '../worker/variables.ts';
import { type DecideSettings, decide } from './decide.ts';
import { describeCommand, type PreparedCommand, prepareCommand } from './engine-command.ts';
import { EngineRun, type StartEngine } from './engine-run.ts';
import { gpuPreflight, type Preflight } from './gpu-preflight.ts';
import { KeptWeights } from './kept-weights.ts';
import { assertPortFree, startEngine, startWorker, type WorkerProcess } from './processes.ts';
import { type Action, initialSituation, type Situation, type SupervisorEvent } from './situation.ts';
import { readContainerVariables } from './variables.ts';

/** The log of the engine's exit shows this many of the engine's last lines. */
const SHOWN_LINES = 15;
/** The interval at which progress within one phase is logged, ms. */
const PHASE_LINE_EVERY_MS = 5000;

/**
 * Runs engine and worker as two processes until both have ended, and decides how the container ends.
 * @returns the exit code; the caller should exit with it at once
 * @throws UserError before anything was started: bad variables, no engine program, port in use
 */
export function runSupervisor(given: NodeJS.ProcessEnv): Promise<number> {
  return withLogging('supervisor', given, (logging) => supervise(given, logging));
}

async function supervise(given: NodeJS.ProcessEnv, logging: Logging): Promise<number> {
  const settled = withDefaults(readSettledEnvironment(given));
  const { env } = settled;
  const values = readContainerVariables(env);
  const configuration = engineConfiguration(values);
  const engine = describeEngine(configuration.engine);
  const log = logging.createLogger('supervisor');
  // An engine takes so long to list its flags that a signal may arrive in that time.
  const stopped = new AbortController();
  const signals = endSignals();
  void signals.first.then(() => stopped.abort());
  const say = (text: string) => log.info(text);
  const command = await prepareCommand(configuration, engine, settled, say, stopped.signal);
  if (stopped.signal.aborted) return EXIT.ok;
  for (const warning of command?.warnings ?? settled.warnings) log.warn(warning);
  const weights =
    command && values.ENGINE_KEEP_WEIGHTS
      ? new KeptWeights({ engine, command, log: logging.createLogger('engine') })
      : null;
  const start = await starter(configuration, command, weights);
  if (stopped.signal.aborted) return EXIT.ok;
  const ended = new Supervisor({
    env,
    log,
    logging,
    configuration,
    engine,
    given: command?.arguments ?? [],
    start,
    weights,
    preflight: gpuPreflight(engine, values, env, log),
    limits: {
      graceMs: values.CASOLA_SHUTDOWN_GRACE_PERIOD * 1000,
      maxRestarts: values.ENGINE_RESTARTS,
    },
  }).run();
  // The supervisor listens by now: a signal that Node has not delivered yet is lost while nobody does.
  signals.release();
  return await ended;
}

/**
 * Runs `--print-command`: shows the engine's command with the source of each argument, and starts nothing.
 * @returns the exit code
 * @throws UserError as a start would: bad variables, no engine program
 */
export async function printCommand(env: NodeJS.ProcessEnv): Promise<number> {
  const settled = withDefaults(readSettledEnvironment(env));
  const configuration = readEngineConfiguration(settled.env);
  const tell = (text: string) => process.stderr.write(`${text}\n`);
  const command = await prepareCommand(configuration, describeEngine(configuration.engine), settled, tell);
  for (const warning of command?.warnings ?? settled.warnings) tell(`warning: ${warning}`);
  if (command) process.stdout.write(describeCommand(command, settled));
  else tell(`the engine at ${configuration.url} runs already: there is no command`);
  return EXIT.ok;
}

/** Adds defaults that depend on the chosen queue. @throws UserError when the choice is not clear */
function withDefaults(settled: SettledEnvironment): SettledEnvironment {
  return { ...settled, env: withQueueDefaults(settled.env) };
}

/** Returns how to start the engine; null for one that is already running. @throws UserError when the port is in use */
async function starter(
  { settings }: EngineConfiguration,
  command: PreparedCommand | null,
  weights: KeptWeights | null,
): Promise<StartEngine | null> {
  if (!settings || !command) return null;
  await assertPortFree(settings.host, settings.port);
  const { program, args, env } = command;
  return (handlers) => startEngine({ program, args: weights?.engineArguments ?? args }, env, handlers);
}

interface Ports {
  env: NodeJS.ProcessEnv;
  log: Logger;
  logging: Logging;
  configuration: EngineConfiguration;
  engine: EngineDescription;
  /** The arguments with which the engine is started. */
  given: readonly Argument[];
  start: StartEngine | null;
  /** The process that holds the engine's weights over its restarts; null: each start loads them. */
  weights: KeptWeights | null;
  /** Runs before the first start only, not before restarts. */
  preflight: Preflight;
  limits: DecideSettings;
}

/** Feeds process events to `decide()` and executes the actions it returns. */
class Supervisor {
  readonly #ports: Ports;
  readonly #log: Logger;
  readonly #engineLog: Logger;
  readonly #stopped = new AbortController();
  readonly #ended = Promise.withResolvers<number>();
  #situation: Situation;
  #worker: WorkerProcess | null = null;
  #engine: EngineRun | null = null;
  #limit: unknown;
  #said = { phase: '', at: 0 };

  constructor(ports: Ports) {
    this.#ports = ports;
    this.#log = ports.log;
    this.#engineLog = ports.logging.createLogger('engine');
    this.#situation = initialSituation(ports.start !== null);
  }

  async run(): Promise<number> {
    const onSignal = (name: NodeJS.Signals) => {
      this.#ports.logging.mustEndWithin(wayDownMs(this.#ports.limits.graceMs));
      this.#happen({ event: 'signal', name, at: performance.now() });
    };
    // The handlers stay installed: a signal at the last moment must not change the exit code.
    for (const name of END_SIGNALS) process.on(name, onSignal);
    this.#startBoth();
    try {
      return await this.#ended.promise;
    } finally {
      this.#stopped.abort();
      this.#engine?.started();
      this.#ports.weights?.stop();
      systemClock.clearTimeout(this.#limit);
    }
  }

  #startBoth(): void {
    const { env, configuration, start, engine, given } = this.#ports;
    const args = given.flatMap(({ words }) => words);
    const known = [
      requestsSideBySide(engine, args),
      Math.floor(performance.timeOrigin),
      adapterRoom(args),
      modelRevision(args) ?? '',
    ];
    // The worker starts first, since it reports the engine's start.
    this.#worker = startWorker([...programArguments('worker'), ...known.map(String)], env, {
      onMessage: (message) => this.#onWorkerMessage(message),
      onUnknown: (message, problem) =>
        this.#log.warn({ message, problem }, 'a message of the worker cannot be read; ignored'),
      onExit: (code) => this.#happen({ event: 'worker_exited', code }),
    });
    if (start) void this.#checkMachine();
    else
      this.#log.info(`the engine is the one at ${configuration.url}; it is neither started nor stopped here`);
  }

  async #checkMachine(): Promise<void> {
    const { preflight, weights } = this.#ports;
    const problem = await preflight(this.#stopped.signal);
    if (problem === null) await weights?.load(this.#stopped.signal, (phase) => this.#onPhase(phase));
    this.#happen({ event: 'machine_checked', problem, at: performance.now() });
  }

  #startEngine(start: StartEngine): void {
    const { engine, configuration } = this.#ports;
    this.#log.info(`starting ${engine.name} with ${configuration.model}`);
    this.#onPhase({ phase: 'starting', detail: `starting ${engine.name}` });
    const run: EngineRun = new EngineRun({
      engine,
      log: this.#engineLog,
      start,
      onPhase: (phase) => this.#onPhase(phase),
      onHang: ({ cause }) => this.#happen({ event: 'start_hung', cause }),
      onExit: (code, startError) => this.#onEngineExit(run, code, startError),
    });
    this.#engine = run;
  }

  #onEngineExit(run: EngineRun, code: number | null, startError?: Error): void {
    const { engine } = this.#ports;
    const failure = this.#explain(run, code, startError);
    const verb = this.#situation.engineWasHealthy ? 'died' : 'failed to start';
    this.#happen({
      event: 'engine_exited',
      message: `${engine.name} ${verb}: ${failure.cause}. ${failure.advice}`,
      advice: failure.advice,
      kind: failure.kind,
      lastLines: run.lastLines.slice(-SHOWN_LINES),
      at: performance.now(),
    });
    // The group is released only after the rest of it has been killed.
    run.release();
  }

  #explain(run: EngineRun, code: number | null, startError?: Error): EngineFailure {
    const { engine } = this.#ports;
    if (startError) {
      const advice = engine.installHelp ?? '';
      return { cause: `its program cannot be run: ${startError.message}`, advice, kind: 'bad_configuration' };
    }
    if (run.hang !== null) return run.hang;
    const { hang } = this.#situation;
    if (hang !== null) {
      const advice = 'Set ENGINE_HANG_SECONDS higher if a single step of this model may take that long.';
      return { cause: hang, advice, kind: 'transient' };
    }
    return inVariables(engine.explainExit(code, run.lastLines), run.lastLines, this.#ports.given);
  }

  #onWorkerMessage(message: WorkerMessage): void {
    this.#log.debug(`the worker says ${message.case}`);
    switch (message.case) {
      case 'engine_hung':
        return this.#happen({ event: 'engine_hung', message: message.message });
      case 'engine_healthy':
        return this.#onHealthy();
      default:
        message satisfies never;
    }
  }

  #onHealthy(): void {
    if (this.#situation.state === 'starting') {
      this.#engine?.started();
      this.#onPhase({ phase: 'ready', detail: 'the engine is healthy' });
    }
    this.#happen({ event: 'engine_healthy', at: performance.now() });
  }

  #onPhase(seen: LogPhase): void {
    const { phase, progress } = seen;
    if (this.#situation.state === 'starting') {
      this.#worker?.tell({ case: 'phase', phase, progress: progress?.share, atMs: Date.now() });
    }
    const now = performance.now();
    const isSame = phase === this.#said.phase;
    if (isSame && (!progress || now - this.#said.at < PHASE_LINE_EVERY_MS)) return;
    this.#said = { phase, at: now };
    this.#log.info(`${PHASE_SAID}${phaseText(seen)}`);
  }

  #happen(event: SupervisorEvent): void {
    const [next, actions] = decide(this.#situation, event, this.#ports.limits);
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
      case 'start_engine':
        return this.#ports.start ? this.#startEngine(this.#ports.start) : undefined;
      case 'tell_worker':
        return this.#worker?.tell(action.message);
      case 'say':
        return this.#log[action.level](action.text);
      case 'limit':
        systemClock.clearTimeout(this.#limit);
        this.#limit = systemClock.setTimeout(() => this.#happen({ event: 'limit_reached' }), action.ms);
        return;
      case 'exit':
        if (action.code === EXIT.forced) this.#ports.logging.mustEndWithin(0);
        return this.#ended.resolve(action.code);
    }
  }
}
