import { randomUUID } from 'node:crypto';
import { setFlagsFromString } from 'node:v8';
import { createEngineClient } from '../engine/client/client.ts';
import type { EngineConfiguration } from '../engine/command/configuration.ts';
import { describeEngine } from '../engine/kinds/index.ts';
import { postJson } from '../process/http.ts';
import { EXIT, endSignals, type Logger, type Logging, runMain, withLogging } from '../process/index.ts';
import { manifest } from '../process/package.ts';
import { endOfStep } from '../process/way-down.ts';
import { type Adapter, type Instance, parseValue } from '../protocol/index.ts';
import { Adapters } from './adapters/adapters.ts';
import { adapterFolder } from './adapters/download.ts';
import type { AwaitedSettings } from './awaited-engine.ts';
import { systemClock } from './clock.ts';
import { type EngineArguments, readWorkerConfiguration, type WorkerConfiguration } from './configuration.ts';
import { type EngineOwner, EngineWatch } from './engine-watch.ts';
import { createPublicFetch } from './files/public-fetch.ts';
import { SupervisorMessage, type WorkerMessage } from './ipc.ts';
import { terminateOwnMachine } from './own-machine.ts';
import type { Ports } from './ports.ts';
import { Prefills } from './prefill/prefills.ts';
import { openQueue, type QueueAccess } from './queue-access.ts';
import { withQueueDefaults } from './queue-choice.ts';
import { QueueWatch } from './queue-watch.ts';
import { DiskSpool } from './results/disk-spool.ts';
import { gpuReader } from './telemetry/gpu-readings.ts';
import type { LocalPort } from './telemetry/local-port.ts';
import { MetricShipper } from './telemetry/metric-shipper.ts';
import type { SpanOrigin } from './tracing/job-spans.ts';
import { startTracing } from './tracing/start.ts';
import { connectTurns } from './turns/connection.ts';
import { SwappedEngine } from './turns/swapped-engine.ts';
import { Worker } from './worker.ts';
import type { WorkerEvents } from './worker-interface.ts';

/**
 * V8 compiles undici's HTTP parser again, optimized, after a budget that three requests use up: 12 MB that are not
 * returned. With this one it does so under sustained load alone.
 */
const PARSER_BUDGET = '--wasm-tiering-budget=1000000000';

/**
 * The old generation is collected when it has grown by 60 %: little of what a stream allocates outlives it, and V8 by
 * itself lets it grow to four times its size.
 */
const HEAP_GROWTH = '--heap-growing-percent=60';

/**
 * Runs one worker until it ends; the caller is to exit with the code it resolves to.
 * Started by a supervisor it hears of the engine over the IPC channel, else it only watches its health.
 * @param started the engine, as its supervisor knows it
 * @param containerMs when the container's first process began, epoch ms, as its supervisor knows
 * @throws UserError for variables that are missing or wrong, before anything is done
 */
export async function runWorker(
  env: NodeJS.ProcessEnv,
  started?: EngineArguments,
  containerMs = performance.timeOrigin,
): Promise<number> {
  // Not on the command line: a Node that no longer knew one of them would not start.
  for (const flag of [PARSER_BUDGET, HEAP_GROWTH]) setFlagsFromString(flag);
  const given = withQueueDefaults(env);
  const configuration = readWorkerConfiguration(given, started);
  return await withLogging('worker', given, (logging) => work(given, configuration, containerMs, logging));
}

async function work(
  env: NodeJS.ProcessEnv,
  configuration: WorkerConfiguration,
  containerMs: number,
  logging: Logging,
): Promise<number> {
  const log = logging.createLogger('worker');
  const { engine: engineConfiguration } = configuration;
  const direct = engineAt(engineConfiguration.url, engineConfiguration);
  const prefills = prefillsOf(engineConfiguration, log);
  // Within its turns: what was prefilled is read at once.
  const { engine, close: leaveTurns } = takingTurns(
    configuration,
    prefills?.before(direct) ?? direct,
    log,
    () => worker.engineTurned(),
  );
  const { spoolFolder, spoolBytes, ackWaitMs } = configuration;
  const spool = spoolBytes > 0 ? new DiskSpool(spoolFolder, spoolBytes, log, ackWaitMs) : null;
  const tracing = await startTracing(env, configuration.queueId, originOf(configuration), log);
  const outside = { clock: systemClock, fetch, random: Math.random, log };
  const queue = await openQueue(configuration, outside, () => end());
  const ports: Ports = {
    ...outside,
    dial: queue.dial,
    ...(queue.inside && { inside: queue.inside }),
    engine,
    fetchPublic: createPublicFetch(),
    gpus: gpuReader(env, systemClock),
    spool,
    ...(tracing && { tracer: tracing.tracer }),
    ...(prefills && { prefills }),
    ...adaptersOf(configuration, engine, log),
  };
  const ended = Promise.withResolvers<number>();
  const worker = createWorker(ports, configuration, queue, containerMs, {
    engineDoubted: (message) => watch.doubt(message),
    ended: ended.resolve,
  });
  const watch = new EngineWatch({
    ...ports,
    worker,
    startupTimeoutMs: engineConfiguration.startupTimeoutMs,
    hangSeconds: configuration.hangSeconds,
    canarySeconds: configuration.canarySeconds,
    supervisor: isOurs(engineConfiguration) ? SUPERVISOR : null,
    awaited: isOurs(engineConfiguration) ? null : awaitedOf(engineConfiguration),
  });
  const queueWatch = new QueueWatch(ports.clock, worker, configuration.queueLostSeconds);
  const metrics = createMetrics(ports, worker, configuration);
  const localPort = await openPort(configuration, worker, engine);
  const signals = endSignals();
  // When the last spans have to be out, on the clock of `performance`.
  let spansUntil = Number.POSITIVE_INFINITY;
  const end = () => {
    const graceMs = configuration.graceSeconds * 1000;
    logging.mustEndWithin(endOfStep('worker_lines', graceMs));
    spansUntil = performance.now() + endOfStep('spans', graceMs);
    const endsAt = systemClock.now() + graceMs;
    void queue.stopTaking(graceMs).then(() => worker.drain(Math.max(0, endsAt - systemClock.now()) / 1000));
  };
  void signals.first.then(end);
  void signals.second.then(() => {
    logging.mustEndWithin(0);
    spansUntil = 0;
    worker.force();
  });
  const hangUp = listenToSupervisor(worker, watch, log);
  log.info({ worker_id: configuration.instanceId, config_id: configuration.configId }, 'worker starting');
  for (const warning of configuration.warnings) log.warn(warning);
  worker.start();
  watch.start();
  queueWatch.start();
  metrics?.start();
  try {
    const code = await ended.promise;
    if (code === EXIT.queueLost) await terminateOwnMachine(env, ports, log);
    return code || (queue.exitCode() ?? code);
  } finally {
    queue.close();
    watch.stop();
    queueWatch.stop();
    metrics?.stop();
    localPort?.close();
    signals.release();
    hangUp();
    leaveTurns();
    await engine.close();
    await tracing?.stop(Math.max(0, spansUntil - performance.now()));
  }
}

function engineAt(baseUrl: string, { apiKey, engine }: EngineConfiguration): Ports['engine'] {
  return createEngineClient({ baseUrl, apiKey, engine: describeEngine(engine) });
}

/** Null where no other engine prefills. */
function prefillsOf(engine: EngineConfiguration, log: Logger): Prefills | null {
  if (engine.prefillUrl === null) return null;
  return new Prefills(engineAt(engine.prefillUrl, engine), { clock: systemClock, log });
}

/** The engine behind its turns at the GPU, where it shares one. */
function takingTurns(
  { turns, instanceId }: WorkerConfiguration,
  engine: Ports['engine'],
  log: Logger,
  turned: () => void,
): { engine: Ports['engine']; close(): void } {
  if (turns === null) return { engine, close: () => {} };
  const { tell, close } = connectTurns(turns.path, instanceId, {
    word: (word) => swapped.hear(word),
    gone: () => {
      log.error('worker-vllm swap, which gives the turns at the GPU, is gone; the worker ends');
      process.kill(process.ppid, 'SIGTERM');
    },
  });
  const swapped = new SwappedEngine({
    clock: systemClock,
    engine,
    log,
    awakeMs: turns.awakeMs,
    tell,
    turned,
  });
  return { engine: swapped, close };
}

/** Nothing where the operator lists none. */
function adaptersOf(
  { engine: { adapters: list }, adapterRoom, adapterStore }: WorkerConfiguration,
  engine: Ports['engine'],
  log: Logger,
): Pick<Ports, 'adapters'> {
  if (list.length === 0) return {};
  const folderOf = (adapter: Adapter) => adapterFolder(adapter, { ...adapterStore, fetch });
  return { adapters: new Adapters({ clock: systemClock, engine, log, folderOf }, list, adapterRoom) };
}

/** Whose spans they are. */
function originOf({ instanceId, engine }: WorkerConfiguration): SpanOrigin {
  const { hostname: host, port, protocol } = new URL(engine.url);
  const usual = protocol === 'https:' ? 443 : 80;
  return { workerId: instanceId, engine: { name: engine.engine, host, port: Number(port || usual) } };
}

function createWorker(
  ports: Ports,
  configuration: WorkerConfiguration,
  queue: QueueAccess,
  containerMs: number,
  { engineDoubted, ended }: Pick<WorkerEvents, 'engineDoubted' | 'ended'>,
): Worker {
  const { log } = ports;
  const { instanceId, createdAt } = configuration;
  const settings = {
    ...configuration,
    workerId: instanceId,
    queueProfile: queue.profile,
    instance: instanceOf(configuration),
    createdAtMs: createdAt === null ? containerMs : createdAt * 1000,
  };
  let isFirst = true;
  return new Worker(ports, settings, queue.post, {
    ready: (models) => {
      const { capacity, engineRequests } = configuration;
      const times = isFirst ? sinceCreated(createdAt) : {};
      isFirst = false;
      log.info({ models, slots: capacity, engine_requests: engineRequests, ...times }, 'taking jobs');
    },
    engineDoubted,
    ended: (exitCode) => {
      log.info({ exit_code: exitCode }, 'worker ended');
      ended(exitCode);
    },
  });
}

/** What a cold start took, from the creation of the container to its first readiness. @param createdAt epoch s */
function sinceCreated(createdAt: number | null): { since_created_s?: number } {
  return createdAt === null ? {} : { since_created_s: Math.round(Date.now() / 1000 - createdAt) };
}

/** @throws UserError when it cannot be listened on */
async function openPort(
  { localPort }: WorkerConfiguration,
  { status }: Worker,
  engine: Ports['engine'],
): Promise<LocalPort | null> {
  if (!localPort) return null;
  const { openLocalPort } = await import('./telemetry/local-port.ts');
  return await openLocalPort(localPort, status, engine);
}

function createMetrics(
  ports: Ports,
  worker: Worker,
  { metricsUrl, token, instanceId, queueId, configId }: WorkerConfiguration,
): MetricShipper | null {
  if (!metricsUrl) return null;
  const identity = { instance_id: instanceId, queue_id: queueId, config_id: configId };
  return new MetricShipper({
    ...ports,
    post: (snapshots) =>
      postJson(ports, {
        url: metricsUrl,
        token,
        body: { ...identity, snapshots },
        isTaken: ({ status }) => status === 200,
      }),
    gauges: () => ports.engine.gauges(),
    currentJobId: () => worker.currentJobId,
  });
}

function instanceOf(configuration: WorkerConfiguration): Instance {
  const { instanceId, host, engine, engineRequests, pricePerHour } = configuration;
  return {
    id: instanceId,
    host,
    engine: engine.engine,
    ...(engine.model ? { model: engine.model } : {}),
    engine_requests: engineRequests,
    worker_version: manifest.version,
    ...(pricePerHour !== null && { price_per_hour: pricePerHour }),
    boot_id: randomUUID(),
  };
}

/** A supervisor started it and hears us. */
function isOurs(engine: EngineConfiguration): boolean {
  return engine.settings !== null && process.send !== undefined;
}

function awaitedOf({ url, engine, settings }: EngineConfiguration): AwaitedSettings {
  const variables = settings === null ? 'ENGINE_URL' : 'VLLM_HOST and VLLM_PORT';
  return { url, healthPaths: describeEngine(engine).healthPaths, variables };
}

const SUPERVISOR: EngineOwner = {
  healthy: () => tellSupervisor({ case: 'engine_healthy' }),
  hung: (message) => tellSupervisor({ case: 'engine_hung', message }),
};

/** @returns closes the channel, which would keep the process alive */
function listenToSupervisor(worker: Worker, watch: EngineWatch, log: Logger): () => void {
  if (!process.send) return () => {};
  const onMessage = (given: unknown) => {
    const parsed = parseValue(SupervisorMessage, given);
    if (parsed.ok) return obey(parsed.value, worker, watch);
    log.warn(
      { message: given, problem: parsed.message },
      'a message of the supervisor cannot be read; ignored',
    );
  };
  // No supervisor is left to stop the engine in order or to wait for this process.
  const onDisconnect = () => worker.drain(0);
  process.on('message', onMessage);
  process.on('disconnect', onDisconnect);
  return () => {
    process.off('message', onMessage);
    process.off('disconnect', onDisconnect);
    if (process.connected) process.disconnect();
  };
}

function obey(message: SupervisorMessage, worker: Worker, watch: EngineWatch): void {
  switch (message.case) {
    case 'phase':
      return worker.enginePhase({
        phase: message.phase,
        progress: message.progress?.share,
        atMs: message.at,
      });
    case 'engine_restarting':
      return watch.restarting(message.message, message.afterMs, message.advice);
    case 'engine_exited':
      return worker.engineFailed(message.message, message.wasHealthy, message.kind, message.advice);
    default:
      message satisfies never;
  }
}

function tellSupervisor(message: WorkerMessage): void {
  // A supervisor that is gone needs no messages; the error would say only that.
  if (process.connected) process.send?.(message, undefined, undefined, () => {});
}

// Not import.meta.main, which Node has since 24.2.
if (process.argv[1] === import.meta.filename) {
  const [requests, containerMs, adapters] = process.argv.slice(2).map(Number);
  const started = requests === undefined ? undefined : { requests, adapters: adapters ?? 1 };
  await runMain(() => runWorker(process.env, started, containerMs));
}
