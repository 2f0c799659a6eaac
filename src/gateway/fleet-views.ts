import type * as z from 'zod';
import type { FleetStub } from '../asking/objects.ts';
import type { KnownModel, Machine, PoolStart, SessionShare } from '../fleet/rpc.ts';
import type { ModelCard } from '../protocol/index.ts';
import type { Env } from './env.ts';
import { callFleet, callQueue } from './objects/calls.ts';
import type * as answers from './openapi/answers.ts';

export type WorkerView = z.infer<typeof answers.WorkerView>;

export interface ModelView {
  id: string;
  config_id: string;
  /** The model's card as its engine reports it; null where the engine reports none. */
  card: ModelCard | null;
  /** Whether at least one connected worker that serves the model does not drain. */
  available: boolean;
  /**
   * The state of the model's pool: `ready` where a worker takes jobs; `paused` where the connected ones take none;
   * without a worker the scheduler's state of it, or `gone` where the scheduler has no say in it.
   */
  state: 'ready' | 'paused' | 'gone' | Exclude<PoolStart['state'], 'ready'>;
  /** The start of a pool that the scheduler starts, or has stopped starting. */
  start: PoolStart | null;
  /** The time when a worker first served the model, epoch ms; 0 if none has yet. */
  first_seen_ms: number;
}

/** Returns every worker that is connected or sent a heartbeat within the retention time, by worker id. */
export async function workersOf(env: Env, queueId: string): Promise<WorkerView[]> {
  return (await readFleet(env, queueId, (fleet) => fleet.workers())).map(workerView);
}

/**
 * Returns every model that connected workers serve, or served recently, or that the scheduler would start a worker
 * for.
 */
export async function modelsOf(env: Env, queueId: string): Promise<ModelView[]> {
  const [sessions, known, starts] = await readFleet(env, queueId, (fleet) =>
    Promise.all([fleet.sessions(), fleet.models(), fleet.starts()]),
  );
  return modelViews(known, sessions, starts);
}

/** Reads from the fleet object after the queue has reported every session to it. */
async function readFleet<T>(env: Env, queueId: string, read: (fleet: FleetStub) => Promise<T>): Promise<T> {
  await callQueue(env, queueId, (queue) => queue.tellFleet());
  return callFleet(env, queueId, read);
}

/** Returns a worker in the form of `GET /api/workers`. */
export function workerView(machine: Machine): WorkerView {
  const { worker_id, config_id, session, instance, heartbeat, heartbeat_at } = machine;
  return {
    worker_id,
    instance_id: instance?.id ?? heartbeat?.instance_id ?? worker_id,
    config_id: session?.config_id ?? config_id,
    state: session?.state ?? 'disconnected',
    status: heartbeat?.status ?? null,
    phase: heartbeat?.phase ?? null,
    error_message: heartbeat?.error_message ?? null,
    protocol: session?.protocol ?? null,
    capacity: session?.capacity ?? 0,
    running: session?.running ?? 0,
    engine_requests: instance?.engine_requests ?? null,
    host: instance?.host ?? null,
    gpu: instance?.gpu ?? null,
    engine: instance?.engine ?? null,
    engine_version: instance?.engine_version ?? null,
    version: instance?.version ?? null,
    models: session?.models ?? instance?.models ?? [],
    adapters: session?.adapters ?? null,
    connected_at: session && new Date(session.connected_at).toISOString(),
    last_heartbeat_at: heartbeat_at === null ? null : new Date(heartbeat_at).toISOString(),
  };
}

/**
 * Returns the known models first, then those that workers serve and the fleet object no longer remembers, where a base
 * worker serves its pool's name; last the models of pools whose workers have not reported theirs yet.
 */
export function modelViews(
  known: readonly KnownModel[],
  sessions: readonly SessionShare[],
  starts: readonly PoolStart[] = [],
): ModelView[] {
  const models = new Map(known.map((model) => [keyOf(model), model]));
  for (const { config_id, models: served, connected_at: first_seen_ms } of sessions) {
    for (const id of served.length > 0 ? served : [config_id]) {
      const model = { id, config_id, first_seen_ms, card: null };
      if (!models.has(keyOf(model))) models.set(keyOf(model), model);
    }
  }
  const told = new Set([...models.values()].map(({ config_id }) => config_id));
  for (const { config_id, names, outdated } of starts) {
    // Workers from before a change of the spec do not serve all models that the pool will.
    if (told.has(config_id) && outdated.length === 0) continue;
    for (const id of names.length > 0 ? names : [config_id]) {
      const key = keyOf({ id, config_id });
      if (!models.has(key)) models.set(key, { id, config_id, first_seen_ms: 0, card: null });
    }
  }
  const serving = sessions.filter(({ state }) => state !== 'draining');
  return [...models.values()].map((model) => {
    const workers = serving.filter((session) => serves(session, model));
    const isReady = workers.some(({ state }) => state === 'ready');
    if (workers.length > 0)
      return { ...model, available: true, state: isReady ? 'ready' : 'paused', start: null };
    const start = starts.find(({ config_id, state }) => config_id === model.config_id && state !== 'ready');
    const state = start ? (start.state as Exclude<PoolStart['state'], 'ready'>) : 'gone';
    return { ...model, available: false, state, start: start ?? null };
  });
}

function serves({ config_id, models }: SessionShare, model: KnownModel): boolean {
  return config_id === model.config_id && (models.includes(model.id) || config_id === model.id);
}

function keyOf({ id, config_id }: { id: string; config_id: string }): string {
  return JSON.stringify([id, config_id]);
}
