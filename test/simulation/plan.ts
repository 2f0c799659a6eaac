import { bounds } from '../../src/protocol/index.ts';
import { Random } from '../support/random.ts';
import { type AdapterPlan, drawAdapters } from './adapter-plan.ts';
import { type BatchFault, type BatchPlan, drawBatches, drawBatchFaults } from './batch-plan.ts';
import { drawPrompt, type PromptPlan } from './prompt-plan.ts';
import { haveSharedGpu } from './shared-gpu.ts';
import { drawStoredPrompt, type StoredPrompt } from './stored-prompt.ts';

/** Everything a run is made of, drawn from its seed before it starts: shrinking leaves parts of it out. */
export interface Plan {
  seed: number;
  leaseSeconds: number;
  graceSeconds: number;
  workers: WorkerPlan[];
  jobs: JobPlan[];
  callers: CallerPlan[];
  batches: BatchPlan[];
  faults: Fault[];
  /** Faults and new work end here; ms after the start. */
  troubleEndsMs: number;
  /** Share of the engine's requests that go wrong. */
  engineTrouble: number;
  /** Share of HTTP answers that never reach their caller. */
  httpLoss: number;
  /** Mean of what a message takes on its way, ms. */
  latencyMs: number;
  /** Longest time a commit takes, ms; 0: done at once. */
  commitMs: number;
  /** Longest time an alarm is late, ms. */
  alarmLateMs: number;
  /** Callers and jobs may ask for an alias of both models, which have a worker at least each. */
  sharesName: boolean;
  /** The host tells a relay at once that the call of a caller who is gone is dropped, as Durable Objects do. */
  dropsCalls: boolean;
}

/** Base workers share the pool of the extended ones, or have one of their own; so has the second that shares a GPU. */
type ConfigId = 'cfg' | 'base' | 'other';

export interface WorkerPlan {
  name: string;
  capacity: number;
  configId: ConfigId;
  /** Speaks only the base protocol, as the deployed worker does. */
  isBase: boolean;
  /** Its clock is wrong by this, ms. */
  clockOffsetMs: number;
  /** `MIGRATION=exact`: answers of its own may go on elsewhere. */
  moves: boolean;
  /** Its engine tells token ids, and goes on from them; others know no such fields. */
  tellsIds: boolean;
  /** Which model its engine serves under the name that all have: ids of one mean nothing to the other. */
  model: 0 | 1;
  /** The name of its model. */
  serves: 'tiny' | 'small';
  /** Null: it loads none. */
  adapters: AdapterPlan | null;
  /** A second engine prefills long prompts for its own. */
  prefills: boolean;
  /** Its engine takes turns with the others of which this is true. */
  sharesGpu: boolean;
}

/** A stored job and what its submitter does; times are ms after the start. */
export interface JobPlan {
  id: string;
  at: number;
  configId: ConfigId;
  jobType: 'chat_completion' | 'engine_request';
  priority: number;
  maxAttempts: number;
  deadlineSeconds: number | null;
  /** How long after acceptance it is cancelled; null: never. */
  cancelAfterMs: number | null;
  waits: boolean;
  /** It asks for the alias of both models; an engine request only. */
  asksAlias: boolean;
  /** Its engine is asked for a stream, which these read while the job runs and after; null: it is not. */
  readers: ReaderPlan[] | null;
  /** Null: nothing of it can go on elsewhere. */
  prompt: StoredPrompt | null;
}

/** A reader of a stored job's answer; times in ms. */
export interface ReaderPlan {
  id: string;
  /** After the job is submitted. */
  comesAfterMs: number;
  /** Null: at the end. */
  leavesAfterMs: number | null;
  readEveryMs: number;
  readBytes: number;
}

/** A caller of `/v1`; times are ms after the start. */
export interface CallerPlan extends PromptPlan {
  id: string;
  at: number;
  /** What it asks for: what only our workers serve, a pool by its name, or an alias. */
  model: 'tiny' | 'name' | ConfigId;
  streams: boolean;
  hangsUpAfterMs: number | null;
  /** How often it reads, ms, and how much, bytes. */
  readEveryMs: number;
  readBytes: number;
  tries: number;
  waitMs: number;
  deadlineMs: number | null;
}

export type Fault = { at: number; worker: string } & (
  | { kind: 'cut'; channel: 'control' | 'answer' | 'both' }
  /** A connection breaks and one side, or both, see nothing of it. */
  | { kind: 'half_open'; unseenBy: 'worker' | 'queue' | 'both' }
  | { kind: 'stall'; direction: 'up' | 'down'; ms: number }
  | { kind: 'partition'; ms: number }
  | { kind: 'kill'; downMs: number; isPowerLoss: boolean }
  /** The process stands still. */
  | { kind: 'freeze'; ms: number }
  /** After a notice the machine is taken away so much later; null: a signal. */
  | { kind: 'drain'; secondSignalAfterMs: number | null; noticeMs: number | null }
  | { kind: 'engine_dies' }
  | { kind: 'engine_unhealthy'; ms: number }
  | { kind: 'engine_flooded'; ms: number }
  | { kind: 'disk_full'; ms: number }
  /** In a commit: what was done last was not on disk yet, and nobody has heard of it. */
  | { kind: 'queue_crash'; downMs: number; isPowerLoss: boolean; isInCommit: boolean }
  | { kind: 'queue_restart'; downMs: number }
  /** The queue object is thrown out of its process and comes back; the rest of the process lives on. */
  | { kind: 'queue_reset' }
  /** The server's process stands still; when it goes on, its timers come before what lies in its sockets. */
  | { kind: 'queue_freeze'; ms: number }
  /** The server's wall clock jumps. */
  | { kind: 'clock_set'; byMs: number }
  | { kind: 'hibernate' }
  | { kind: 'relay_reset' }
  | BatchFault
);

type DrawnFault = Fault extends infer F ? (F extends Fault ? Omit<F, 'at' | 'worker'> : never) : never;

/** A shorter step forward, after which an alarm is set anew before one comes late, cannot be told from time. */
const LONGEST_LEASE_MS = bounds.BASE_LEASE_SECONDS * 1000 + 10_000;

const FAULTS: readonly [weight: number, draw: (random: Random) => DrawnFault][] = [
  [5, (r) => ({ kind: 'cut', channel: r.pick(['control', 'answer', 'both', 'both'] as const) })],
  [3, (r) => ({ kind: 'half_open', unseenBy: r.pick(['worker', 'queue', 'both'] as const) })],
  [
    4,
    (r) => ({ kind: 'stall', direction: r.pick(['up', 'up', 'down'] as const), ms: r.wait(10_000, 60_000) }),
  ],
  [2, (r) => ({ kind: 'partition', ms: r.wait(15_000, 90_000) })],
  [3, (r) => ({ kind: 'kill', downMs: r.wait(4000, 30_000), isPowerLoss: r.chance(0.3) })],
  [2, (r) => ({ kind: 'freeze', ms: r.wait(12_000, 60_000) })],
  [2, (r) => ({ kind: 'drain', secondSignalAfterMs: r.chance(0.4) ? r.wait(2000) : null, noticeMs: null })],
  [1, () => ({ kind: 'engine_dies' })],
  [1, (r) => ({ kind: 'engine_unhealthy', ms: r.wait(5000) })],
  [1, (r) => ({ kind: 'engine_flooded', ms: r.wait(10_000) })],
  [1, (r) => ({ kind: 'disk_full', ms: r.wait(20_000) })],
  [3, queueCrash],
  [2, (r) => ({ kind: 'queue_restart', downMs: r.wait(2000, 20_000) })],
  [2, () => ({ kind: 'queue_reset' })],
  [2, (r) => ({ kind: 'queue_freeze', ms: r.wait(8000, 60_000) })],
  [1, (r) => ({ kind: 'clock_set', byMs: LONGEST_LEASE_MS + r.wait(60_000, 3_600_000) })],
  [2, (r) => ({ kind: 'clock_set', byMs: -r.wait(600_000, 3_600_000) })],
  [1, () => ({ kind: 'hibernate' })],
  [1, () => ({ kind: 'relay_reset' })],
];
/** Network and process: what a base worker loses work by. */
const BASE_FAULTS = FAULTS.slice(0, 7);

function queueCrash(random: Random): DrawnFault {
  const isPowerLoss = random.chance(0.3);
  return {
    kind: 'queue_crash',
    downMs: random.wait(3000, 40_000),
    isPowerLoss,
    isInCommit: random.chance(0.5),
  };
}

export function drawPlan(seed: number): Plan {
  const random = new Random(seed, 'plan');
  const troubleEndsMs = random.int(20, 120) * 1000;
  const leaseSeconds = random.pick([4, 4, 10, 30]);
  const workers = Array.from({ length: random.int(1, 3) }, (_, index) => ({
    name: `w${index + 1}`,
    capacity: random.int(1, 3),
    configId: 'cfg' as ConfigId,
    isBase: false,
    clockOffsetMs: random.int(-3_600_000, 3_600_000),
    moves: true,
    tellsIds: true,
    model: 0 as 0 | 1,
    serves: 'tiny' as 'tiny' | 'small',
    adapters: drawAdapters(seed, `w${index + 1}`),
    prefills: new Random(seed, `prefills w${index + 1}`).chance(0.3),
    sharesGpu: false,
  }));
  shareGpu(seed, workers);
  // One that moves nothing of its own is given what others began.
  const other = new Random(seed, 'engines');
  if (other.chance(0.2))
    Object.assign(workers[0]!, { moves: other.chance(0.5), tellsIds: other.chance(0.5), prefills: false });
  // The pool has been changed, and its workers are replaced.
  if (new Random(seed, 'models').chance(0.2)) Object.assign(workers.at(-1)!, { model: 1 });
  const base = drawBaseWorkers(new Random(seed, 'base'));
  workers.push(...base);
  const sharesName =
    new Random(seed, 'aliases').chance(0.3) &&
    base.length === 0 &&
    workers.length > 1 &&
    !workers.some(({ sharesGpu }) => sharesGpu);
  if (sharesName) Object.assign(workers.at(-1)!, { model: 1, serves: 'small', adapters: null });
  const batches = drawBatches(seed, troubleEndsMs);
  const calm = random.chance(0.2);
  const kinds = drawKinds(random);
  return {
    seed,
    leaseSeconds,
    graceSeconds: random.pick([3, 10, 10]),
    workers,
    jobs: list(random.int(0, 14), (index) => drawJob(seed, index, workers, troubleEndsMs)),
    callers: list(random.int(0, 10), (index) => drawCaller(seed, index, workers, troubleEndsMs)),
    batches,
    faults: [
      ...list(calm ? random.int(1, 2) : random.int(1, 12), (index) =>
        drawFault(new Random(seed, `fault ${index}`), kinds, workers, troubleEndsMs),
      ),
      ...list(base.length === 0 ? 0 : new Random(seed, 'base faults').int(0, 6), (index) =>
        drawFault(new Random(seed, `base fault ${index}`), BASE_FAULTS, base, troubleEndsMs),
      ),
      ...drawBatchFaults(seed, batches, troubleEndsMs),
    ]
      .sort((a, b) => a.at - b.at)
      .map((fault, index) => withNotice(fault, new Random(seed, `notice ${index}`))),
    troubleEndsMs,
    engineTrouble: random.pick([0, 0.1, 0.4]),
    httpLoss: random.pick([0, 0.1, 0.3]),
    latencyMs: random.pick([2, 20, 80]),
    commitMs: random.pick([0, 3, 40]),
    alarmLateMs: random.pick([0, 100, 4000]),
    sharesName,
    dropsCalls: new Random(seed, 'shape').chance(0.5),
  };
}

/** Some drains are those of machines that are taken away. */
function withNotice(fault: Fault, random: Random): Fault {
  if (fault.kind !== 'drain' || !random.chance(0.3)) return fault;
  return { ...fault, noticeMs: random.pick([1000, 5000, 30_000]) };
}

function list<T>(length: number, draw: (index: number) => T): T[] {
  return Array.from({ length }, (_, index) => draw(index + 1));
}

/** In some runs the first two workers share a GPU, most often for two models. */
function shareGpu(seed: number, workers: WorkerPlan[]): void {
  if (workers.length < 2 || !haveSharedGpu(seed)) return;
  // A request that comes back from a prefill may reach its engine when the turn in which it was let in is over.
  for (const worker of workers.slice(0, 2)) Object.assign(worker, { sharesGpu: true, prefills: false });
  if (new Random(seed, 'two models').chance(0.8)) workers[1]!.configId = 'other';
}

/** In one run of four there are some. */
function drawBaseWorkers(random: Random): WorkerPlan[] {
  if (!random.chance(0.25)) return [];
  const configId = random.pick(['cfg', 'base'] as const);
  return list(random.int(1, 2), (index) => ({
    name: `b${index}`,
    capacity: random.int(1, 3),
    configId,
    isBase: true,
    adapters: null,
    prefills: false,
    sharesGpu: false,
    clockOffsetMs: 0,
    moves: false,
    tellsIds: true,
    model: 0 as const,
    serves: 'tiny' as const,
  }));
}

function drawJob(seed: number, index: number, workers: readonly WorkerPlan[], endsMs: number): JobPlan {
  const random = new Random(seed, `job ${index}`);
  const job: JobPlan = {
    id: `j${index}`,
    at: random.int(0, Math.round(endsMs * 0.8)),
    jobType: random.chance(0.6) ? 'chat_completion' : 'engine_request',
    priority: random.int(0, 2),
    maxAttempts: random.int(1, 4),
    deadlineSeconds: random.chance(0.15) ? random.int(2, 60) : null,
    cancelAfterMs: random.chance(0.2) ? random.wait(8000) : null,
    waits: random.chance(0.5),
    configId: random.pick(workers).configId,
    asksAlias: false,
    readers: null,
    prompt: drawStoredPrompt(seed, index),
  };
  const isOfBoth = workers.some(({ serves }) => serves === 'small');
  job.asksAlias =
    job.jobType === 'engine_request' && isOfBoth && new Random(seed, `alias ${index}`).chance(0.5);
  // Base workers cannot stream what is stored.
  const mayStream = job.jobType === 'engine_request' && !workers.some(({ isBase }) => isBase);
  if (mayStream) job.readers = drawReaders(new Random(seed, `readers ${index}`), job.id);
  if (job.readers !== null) job.prompt = null;
  return job;
}

function drawReaders(random: Random, jobId: string): ReaderPlan[] | null {
  if (random.chance(0.4)) return null;
  return list(random.int(0, 3), (index) => {
    const [readEveryMs, readBytes] = drawPace(random);
    return {
      id: `${jobId}-r${index}`,
      comesAfterMs: random.wait(15_000),
      leavesAfterMs: random.chance(0.3) ? random.wait(8000) : null,
      readEveryMs,
      readBytes,
    };
  });
}

/** How often somebody reads, ms, and how much, bytes. */
function drawPace(random: Random): readonly [number, number] {
  return random.pick([
    [5, 100_000],
    [300, 2000],
    [2000, 600],
  ] as const);
}

function drawCaller(seed: number, index: number, workers: readonly WorkerPlan[], endsMs: number): CallerPlan {
  const random = new Random(seed, `caller ${index}`);
  const reads = drawPace(random);
  const prompt = drawPrompt(seed, index);
  return {
    id: `c${index}`,
    at: random.int(0, Math.round(endsMs * 0.8)),
    streams: random.chance(0.7) || prompt.moves !== null,
    ...prompt,
    hangsUpAfterMs: drawHangUp(random, seed, index, prompt.moves !== null),
    readEveryMs: reads[0],
    readBytes: reads[1],
    tries: random.int(1, 4),
    waitMs: random.pick([0, 5000, 60_000]),
    ...drawWishes(random, random.pick(workers), workers),
  };
}

/**
 * Some hear an answer that may move for long, so that they hang up while it does; some hang up at once, so that their
 * cancellation may overtake their request.
 */
function drawHangUp(random: Random, seed: number, index: number, moves: boolean): number | null {
  const [late, atOnce] = [new Random(seed, `late ${index}`), new Random(seed, `at once ${index}`)];
  if (random.chance(0.25)) {
    const afterMs = random.wait(5000);
    return atOnce.chance(0.2) ? atOnce.int(0, 2) : afterMs;
  }
  return moves && late.chance(0.4) ? late.int(3000, 60_000) : null;
}

/** Where base workers are, callers ask for what they serve too, and set deadlines. */
function drawWishes(
  random: Random,
  { configId }: WorkerPlan,
  workers: readonly WorkerPlan[],
): Pick<CallerPlan, 'model' | 'deadlineMs'> {
  if (workers.some(({ sharesGpu }) => sharesGpu))
    return { model: random.pick(['tiny', configId] as const), deadlineMs: null };
  if (workers.some(({ serves }) => serves === 'small') && random.chance(0.7))
    return { model: 'name', deadlineMs: null };
  if (!workers.some(({ isBase }) => isBase)) return { model: 'tiny', deadlineMs: null };
  return {
    model: random.chance(0.2) ? 'tiny' : configId,
    deadlineMs: random.chance(0.2) ? random.wait(20_000, 100_000) : null,
  };
}

/** A run with few kinds of faults meets those more often. */
function drawKinds(random: Random): typeof FAULTS {
  if (random.chance(0.3)) return FAULTS;
  const kinds = FAULTS.filter(() => random.chance(0.25));
  return kinds.length > 0 ? kinds : [random.pick(FAULTS)];
}

function drawFault(
  random: Random,
  kinds: typeof FAULTS,
  workers: readonly WorkerPlan[],
  endsMs: number,
): Fault {
  const at = random.int(1000, endsMs);
  const worker = random.pick(workers).name;
  let left = random.next() * kinds.reduce((sum, [weight]) => sum + weight, 0);
  for (const [weight, draw] of kinds) {
    left -= weight;
    if (left >= 0) continue;
    const fault = { at, worker, ...draw(random) } as Fault;
    // What lasts is over when the others are.
    if ('ms' in fault) fault.ms = Math.min(fault.ms, endsMs - at);
    return fault;
  }
  throw new Error('the weights add up to what was drawn from');
}
