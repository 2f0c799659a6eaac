/**
 * The stand-in for `vllm serve` on machines without a model: same flags, routes, logs, metrics and faults.
 * The tests in test/engine/contract compare it with the real one.
 */
import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type DialectName, dialectOf, type LogSink, logLine, silent } from './dialect.ts';
import { CommandLineEnd, defaultOptions, parseArguments, type SimulatorOptions } from './options.ts';
import { SimulatedServer } from './server.ts';
import { LOADING_STEP, portInUseLines, startFailureLines, startupSteps } from './startup-log.ts';

export type { Faults } from './faults.ts';
export type { SimulatorOptions } from './options.ts';

export interface Simulator {
  /** The address, `http://127.0.0.1:PORT`. */
  url: string;
  port: number;
  /** The port of the metrics page, if it is not `port`. */
  metricsPort: number;
  /**
   * Ends the simulator as SIGTERM ends vLLM: connections are refused at once, live requests get the engine-dead error.
   */
  close(): Promise<void>;
  /** Resolves when the simulator has ended, by close() or by a fault, to the exit code that vLLM would have. */
  ended: Promise<number>;
}

/** The error of a failed start, whose reason is in the log. */
export class SimulatorStartFailure extends Error {
  override name = 'SimulatorStartFailure';
}

/** The last bytes may take this many ms to leave when the engine ends. */
const LINGER_MS = 500;

/**
 * Starts a simulator in this process; resolves when it is healthy.
 * @throws SimulatorStartFailure when the port is in use or the fault `start_failure` is set
 */
export async function startSimulator(
  given: Partial<SimulatorOptions> = {},
  log: LogSink = silent,
): Promise<Simulator> {
  const options: SimulatorOptions = { ...defaultOptions(), port: 0, ...given };
  const { promise: ended, resolve: end } = Promise.withResolvers<number>();
  // vLLM exits 0 even when its engine has died.
  const simulated = new SimulatedServer(
    options,
    log,
    () => void closeServer(simulated.http).then(() => end(0)),
  );

  await runStartup(options, log);
  const { metricsHttp } = simulated;
  await listen(simulated.http, options.port, options, log);
  if (metricsHttp) {
    // The listening server would keep the process alive after a failed start.
    await listen(metricsHttp, options.metricsPort, options, log).catch((error: unknown) => {
      simulated.http.close();
      throw error;
    });
  }
  const { port } = simulated.http.address() as AddressInfo;
  for (const line of dialectOf(options.dialect).readyLines(`http://${options.host}:${port}`)) log.out(line);
  log.err(`INFO:     Started server process [${process.pid}]`);
  log.err('INFO:     Waiting for application startup.');
  log.err('INFO:     Application startup complete.');

  const host = options.host === '0.0.0.0' ? '127.0.0.1' : options.host;
  return {
    url: `http://${host}:${port}`,
    port,
    metricsPort: ((metricsHttp ?? simulated.http).address() as AddressInfo).port,
    ended,
    close: async () => {
      if (!simulated.http.listening) return void (await ended);
      log.out(logLine('APIServer', 'launcher.py:254', '[shutdown] API server: shutdown triggered'));
      const closed = closeServer(simulated.http);
      metricsHttp?.close();
      metricsHttp?.closeAllConnections();
      simulated.failAll();
      await closed;
      log.err('INFO:     Application shutdown complete.');
      end(0);
    },
  };
}

/**
 * Runs the command `simulate` until SIGTERM or SIGINT stops it or it dies by a fault, and leaves the exit code in
 * `process.exitCode`. A signal during the start is lost, as with vLLM.
 */
export async function runSimulator(argv: readonly string[]): Promise<void> {
  const log: LogSink = {
    out: (line) => void process.stdout.write(`${line}\n`),
    err: (line) => void process.stderr.write(`${line}\n`),
  };
  let simulator: Simulator | null = null;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => void simulator?.close());
  }
  let dialect: DialectName = 'vllm';
  try {
    const options = parseArguments(argv);
    dialect = options.dialect;
    simulator = await startSimulator(options, log);
    process.exitCode = await simulator.ended;
  } catch (error) {
    if (error instanceof CommandLineEnd) {
      (error.exitCode === 0 ? log.out : log.err)(error.message);
      process.exitCode = error.exitCode;
    } else if (error instanceof SimulatorStartFailure) {
      process.exitCode = dialectOf(dialect).startFailureCode;
    } else throw error;
  }
}

async function runStartup(options: SimulatorOptions, log: LogSink): Promise<void> {
  const steps = startupSteps(options);
  const { start_failure: failure } = options.faults;
  for (const [at, lines] of steps.entries()) {
    for (const line of lines()) log.out(line);
    if (at === LOADING_STEP && failure) {
      for (const line of startFailureLines.out(failure === true ? 'simulated failure' : failure))
        log.out(line);
      for (const line of startFailureLines.err) log.err(line);
      throw new SimulatorStartFailure('the engine was told to fail its start');
    }
    if (options.startupSeconds > 0) await sleep((options.startupSeconds * 1000) / steps.length);
  }
}

async function listen(server: Server, port: number, options: SimulatorOptions, log: LogSink): Promise<void> {
  server.listen(port, options.host);
  try {
    await once(server, 'listening');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    for (const line of portInUseLines(options.host, port)) log.err(line);
    throw new SimulatorStartFailure(`${options.host}:${port} is in use`);
  }
}

/** Refuses connections at once, lets the last bytes leave, then closes what is still open. */
async function closeServer(server: Server): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  server.closeIdleConnections();
  const linger = setTimeout(() => server.closeAllConnections(), LINGER_MS);
  await closed;
  clearTimeout(linger);
}
