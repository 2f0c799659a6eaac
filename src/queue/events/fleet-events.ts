import type { FleetEvent } from '../../fleet/rpc.ts';
import { bounds, type Instance, type ModelCard } from '../../protocol/index.ts';
import type { Core } from '../state/state.ts';
import type { Worker } from '../state/worker.ts';
import {
  endSession,
  openSessions,
  type SessionRow,
  touchSession,
  untouchedSessions,
} from '../store/session-table.ts';

/** Reports the queue's workers to the fleet object, and says when each report is due. */

export function tellRegistered(core: Core, worker: Worker, instance: Instance | null): void {
  core.tellFleet({ kind: 'registered', ...about(worker, core.now()), instance: bounded(instance) });
}

export function tellDisconnected(core: Core, worker: Worker, reason: string): void {
  core.tellFleet({ kind: 'disconnected', ...about(worker, core.now()), reason });
}

/** Returns how often a connected worker is reported to the fleet object, ms: before that would forget the worker. */
export function stillConnectedMs(core: Core): number {
  return Math.min(core.settings.retention_seconds, bounds.MODEL_KNOWN_SECONDS) * 500;
}

export function tellStillConnected(core: Core): void {
  const now = core.now();
  for (const id of untouchedSessions(core.sql, now - stillConnectedMs(core))) {
    const worker = core.workers.byId(id);
    if (worker) core.tellFleet({ kind: 'connected', ...about(worker, now) });
    touchSession(core.sql, id, now);
  }
}

/**
 * Ends, when the object starts, sessions whose sockets went with an earlier process, which saw no end of them. Their
 * workers dial again in a moment, and callers wait for them as for any that lost its connection.
 */
export function endLostSessions(core: Core): void {
  const now = core.now();
  for (const session of openSessions(core.sql)) {
    if (core.workers.byId(session.worker_id)) continue;
    endSession(core.sql, session.worker_id, now);
    core.workers.expectAgain(
      { session, models: session.models },
      now + core.settings.reconnect_grace_seconds * 1000,
    );
    core.tellFleet({ kind: 'disconnected', ...remembered(session, now), reason: 'the queue was down' });
  }
}

function about({ session, models }: Worker, at: number) {
  return remembered({ worker_id: session.worker_id, config_id: session.config_id, models }, at);
}

/** Returns the worker of an event, with as many of its models as the fleet object remembers. */
function remembered(
  { worker_id, config_id, models }: SessionRow,
  at: number,
): Omit<FleetEvent & { kind: 'connected' }, 'kind'> {
  return { worker_id, config_id, models: boundedNames(models), at };
}

function bounded(instance: Instance | null): Instance | null {
  if (!instance) return null;
  const { models, model_cards, ...rest } = instance;
  return {
    ...rest,
    ...(models && { models: boundedNames(models) }),
    ...(model_cards && { model_cards: boundedCards(model_cards) }),
  };
}

function boundedCards(cards: readonly ModelCard[]): ModelCard[] {
  return cards
    .slice(0, bounds.KNOWN_MODELS_PER_WORKER)
    .filter((card) => JSON.stringify(card).length <= bounds.MODEL_CARD_CHARACTERS);
}

function boundedNames(models: readonly string[]): string[] {
  return models
    .filter(({ length }) => length <= bounds.MODEL_NAME_CHARACTERS)
    .slice(0, bounds.KNOWN_MODELS_PER_WORKER);
}
