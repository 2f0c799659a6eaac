import { randomUUID } from 'node:crypto';
import { setFlagsFromString } from 'node:v8';
import type { EngineConfiguration } from '../engine/command/configuration.ts';
import { describeEngine } from '../engine/kinds/index.ts';
import { engineLayers } from '../features/worker.ts';
import { postJson } from '../process/http.ts';
import { EXIT, endSignals, type Logging, runMain, withLogging } from '../process/index.ts';
import { logProxies } from '../process/outgoing.ts';
import { manifest } from '../process/package.ts';
import { endOfStep } from '../process/way-down.ts';
import type { Instance } from '../protocol/index.ts';
import { systemClock } from './clock.ts';
import { type EngineArguments, readWorkerConfiguration, type WorkerConfiguration } from './configuration.ts';
import { openEngine } from './engine-access.ts';
import { type AwaitedSettings, EngineWatch } from './engine-watch.ts';
import { createPublicFetch } from './files/file-access.ts';
import { DiskSpool } from './jobs/disk-spool.ts';
import { machineId, terminateOwnMachine } from './machine.ts';
import { metadataAt } from './notices/metadata.ts';
import { NoticeWatch } from './notices/watch.ts';
import type { Ports } from './ports.ts';
import { openQueue, type QueueAccess, QueueWatch } from './queue-access.ts';
import { listenToSupervisor, SUPERVISOR } from './supervisor-channel.ts';
import type { LocalPort } from './telemetry/local-port.ts';
import { MetricShipper } from './telemetry/metric-shipper.ts';
import { gpuCollector } from './telemetry/readings.ts';
import type { SpanOrigin } from './tracing/job-spans.ts';
import { startTracing } from './tracing/start.ts';
import { withQueueDefaults } from './variables.ts';
import { Worker, type WorkerEvents } from './worker.ts';

/**
 * V8 compiles undici's HTTP parser again, optimized, after a budget that three requests use up, and keeps the 12 MB
 * that this takes. With this budget it compiles again only under sustained load.
 */
const PARSER_BUDGET = '--wasm-tiering-budget=1000000000';

/**
 * V8 collects the old generation when it has grown by 60 %, since little of what a stream allocates outlives the
 * stream; by default it lets the heap grow to four times its size.
 */
const HEAP_GROWTH = '--heap-growing-percent=60';

/**
 * Runs one worker until it ends; the caller should exit with the code that it resolves to. A worker that a supervisor
 * started learns of the engine over the IPC channel; any other only watches the engine's health.
 * @param started the engine's settings, as its supervisor knows them
 * @param containerMs when the container's first process began, epoch ms, if a supervisor knows it
 * @throws UserError for variables that are missing or wrong, before anything is done
 */
export async function runWorker(
  env: NodeJS.ProcessEnv,
  started?: EngineArguments,
  containerMs = performance.timeOrigin,
): Promise<number> {
  // The flags are set here, not on the command line, since a Node that no longer knew one of them would not start.
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
  const { close: leaveEngine, ...engine } = openEngine(configuration, log, () => worker.engineTurned());
  const tracing = await startTracing(env, configuration.queueId, originOf(configuration), log);
  const outside = { clock: systemClock, fetch, fetchPublic: createPublicFetch(), random: Math.random, log };
  const queue = await openQueue(configuration, outside, () => end());
  const ports: Ports = {
    ...outside,
    dial: queue.dial,
    ...(queue.inside && { inside: queue.inside }),
    ...engine,
    layers: engineLayers(describeEngine(engineConfiguration.engine)),
    gpus: gpuCollector(env, systemClock),
    spool: new DiskSpool(configuration.spoolFolder, log, configuration.ackWaitMs),
    ...(tracing && { tracer: tracing.tracer }),
  };
  const instance = instanceOf(configuration, await machineId(configuration.machineFile));
  const ended = Promise.withResolvers<number>();
  const worker = createWorker(ports, { ...configuration, instance }, queue, containerMs, {
    engineDoubted: (message) => watch.doubt(message),
    ended: ended.resolve,
  });
  const watch = new EngineWatch({
    ...ports,
    worker,
    startupTimeoutMs: engineConfiguration.startupTimeoutMs,
    hangSeconds: configuration.hangSeconds,
    canarySeconds: configuration.canarySeconds,
    revision: configuration.modelRevision,
    version: configuration.version,
    supervisor: isOurs(engineConfiguration) ? SUPERVISOR : null,
    awaited: isOurs(engineConfiguration) ? null : awaitedOf(engineConfiguration),
  });
  const queueWatch = new QueueWatch(ports.clock, worker, configuration.queueLostSeconds);
  const metrics = createMetrics(ports, worker, configuration);
  const localPort = await openPort(configuration, worker, ports.engine);
  const signals = endSignals();
  // The time by which the last spans have to be sent, on the clock of `performance`.
  let spansUntil = Number.POSITIVE_INFINITY;
  const ownGraceMs = configuration.graceSeconds * 1000;
  const end = (graceMs = ownGraceMs, isPreempted = false) => {
    logging.mustEndWithin(endOfStep('worker_lines', graceMs));
    spansUntil = Math.min(spansUntil, performance.now() + endOfStep('spans', graceMs));
    const endsAt = systemClock.now() + graceMs;
    void queue
      .stopTaking(graceMs)
      .then(() => worker.drain(Math.max(0, endsAt - systemClock.now()) / 1000, isPreempted));
  };
  void signals.first.then(() => end());
  void signals.second.then(() => {
    logging.mustEndWithin(0);
    spansUntil = 0;
    worker.force();
  });
  const notices = new NoticeWatch({
    clock: systemClock,
    log,
    ask: metadataAt(configuration.metadataUrl),
    file: configuration.noticeFile,
    graceMs: ownGraceMs,
    drain: (graceMs) => end(graceMs, true),
  });
  const hangUp = listenToSupervisor(worker, watch, log);
  log.info({ worker_id: configuration.instanceId, config_id: configuration.configId }, 'worker starting');
  for (const warning of configuration.warnings) log.warn(warning);
  logProxies(log, configuration.wsUrl);
  worker.start();
  watch.start();
  queueWatch.start();
  metrics?.start();
  notices.start();
  try {
    const code = await ended.promise;
    if (code === EXIT.queueLost) await terminateOwnMachine(env, ports, log);
    return code || (queue.exitCode() ?? code);
  } finally {
    await notices.stop();
    queue.close();
    watch.stop();
    queueWatch.stop();
    metrics?.stop();
    localPort?.close();
    signals.release();
    hangUp();
    await leaveEngine();
    await tracing?.stop(Math.max(0, spansUntil - performance.now()));
  }
}

/** Returns the worker and the engine that spans name as their origin. */
function originOf({ instanceId, engine }: WorkerConfiguration): SpanOrigin {
  const { hostname: host, port, protocol } = new URL(engine.url);
  const usual = protocol === 'https:' ? 443 : 80;
  return { workerId: instanceId, engine: { name: engine.engine, host, port: Number(port || usual) } };
}

function createWorker(
  ports: Ports,
  configuration: WorkerConfiguration & { instance: Instance },
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

/**
 * Returns how long a cold start took, from the creation of the container to its first readiness.
 * @param createdAt when the container was created, epoch s; null: unknown
 */
function sinceCreated(createdAt: number | null): { since_created_s?: number } {
  return createdAt === null ? {} : { since_created_s: Math.round(Date.now() / 1000 - createdAt) };
}

/** Opens the worker's own port, if it has one. @throws UserError when the worker cannot listen on it */
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

function instanceOf(configuration: WorkerConfiguration, machine: string | null): Instance {
  const { instanceId, host, engine, engineRequests, version, pricePerHour } = configuration;
  return {
    id: instanceId,
    host,
    engine: engine.engine,
    ...(engine.model ? { model: engine.model } : {}),
    engine_requests: engineRequests,
    worker_version: manifest.version,
    ...(version !== null && { version }),
    ...(pricePerHour !== null && { price_per_hour: pricePerHour }),
    boot_id: randomUUID(),
    ...(machine !== null && { machine_id: machine }),
  };
}

/** Tells whether a supervisor started the engine and listens to this worker. */
function isOurs(engine: EngineConfiguration): boolean {
  return engine.settings !== null && process.send !== undefined;
}

function awaitedOf({ url, engine, settings }: EngineConfiguration): AwaitedSettings {
  const variables = settings === null ? 'ENGINE_URL' : 'VLLM_HOST and VLLM_PORT';
  return { url, healthPaths: describeEngine(engine).healthPaths, variables };
}

// `import.meta.main` is not used, since Node has it only since 24.2.
if (process.argv[1] === import.meta.filename) {
  const [requests, containerMs, adapters] = process.argv.slice(2, 5).map(Number);
  const revision = process.argv[5] || null;
  const started = requests === undefined ? undefined : { requests, adapters: adapters ?? 1, revision };
  await runMain(() => runWorker(process.env, started, containerMs));
}
