import { Random } from '../support/random.ts';

/** A batch and what its owner does; times are ms after the start. */
export interface BatchPlan {
  id: string;
  at: number;
  lines: number;
  /** Of its lines that are not in order: its validation fails. Null: all are. */
  badLine: { number: number; kind: 'not_json' | 'twice' | 'stream' } | null;
  windowMs: number;
  /** How long after it was accepted it is cancelled; null: never. */
  cancelAfterMs: number | null;
  looksEveryMs: number;
}

/** Calls of the object that runs batches: it may end just before one leaves it, or before its answer comes. */
const BATCH_CALLS = [
  ...(['size', 'read', 'append', 'keep'] as const),
  ...([
    'submit',
    'listenAnew',
    'listen',
    'nextSettled',
    'stateOf',
    'cancel',
    'slots',
    'unserved',
    'whyWaiting',
  ] as const),
];
export type BatchCall = (typeof BATCH_CALLS)[number];

/** The object that runs batches is thrown out of its process. Its alarm, or whoever asks for it, starts it again. */
export type BatchFault =
  | { kind: 'batches_reset' }
  /** What was written last was not on disk yet, and nobody has heard of it. */
  | { kind: 'batches_reset_in_commit' }
  /** At the next call of this name; `isHeard`: it reaches whom it is for. */
  | { kind: 'batches_reset_at_call'; call: BatchCall; isHeard: boolean };

/** Longer than any run. */
const LONG_WINDOW_MS = 86_400_000;

/** In one run of three there are some. */
export function drawBatches(seed: number, endsMs: number): BatchPlan[] {
  const random = new Random(seed, 'batches');
  if (!random.chance(1 / 3)) return [];
  return Array.from({ length: random.int(1, 2) }, (_, index) =>
    drawBatch(new Random(seed, `batch ${index}`), index, endsMs),
  );
}

function drawBatch(random: Random, index: number, endsMs: number): BatchPlan {
  const lines = random.int(1, 14);
  return {
    id: `batch_b${index + 1}`,
    at: random.int(0, Math.round(endsMs * 0.5)),
    lines,
    badLine: random.chance(0.1)
      ? { number: random.int(1, lines), kind: random.pick(['not_json', 'twice', 'stream'] as const) }
      : null,
    windowMs: random.chance(0.25) ? random.int(2000, endsMs) : LONG_WINDOW_MS,
    cancelAfterMs: random.chance(0.3) ? random.wait(15_000) : null,
    looksEveryMs: random.pick([300, 1000, 4000]),
  };
}

export function drawBatchFaults(
  seed: number,
  batches: readonly BatchPlan[],
  endsMs: number,
): (BatchFault & { at: number; worker: string })[] {
  const random = new Random(seed, 'batch faults');
  return Array.from({ length: batches.length === 0 ? 0 : random.int(0, 8) }, () => ({
    at: random.int(100, endsMs),
    worker: '',
    ...drawBatchFault(random),
  }));
}

function drawBatchFault(random: Random): BatchFault {
  const kind = random.pick([
    'batches_reset',
    'batches_reset_in_commit',
    'batches_reset_at_call',
    'batches_reset_at_call',
  ] as const);
  if (kind !== 'batches_reset_at_call') return { kind };
  return { kind, call: random.pick(BATCH_CALLS), isHeard: random.chance(0.5) };
}
