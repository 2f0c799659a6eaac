import type { Logger } from '../process/index.ts';
import { parseValue } from '../protocol/index.ts';
import type { EngineOwner, EngineWatch } from './engine-watch.ts';
import { SupervisorMessage, type WorkerMessage } from './ipc.ts';
import type { Worker } from './worker.ts';

/** The owner of the engine when a supervisor started engine and worker. */
export const SUPERVISOR: EngineOwner = {
  healthy: () => tellSupervisor({ case: 'engine_healthy' }),
  hung: (message) => tellSupervisor({ case: 'engine_hung', message }),
};

/**
 * Follows the messages of the supervisor, if there is one.
 * @returns a function that closes the channel, which would keep the process alive
 */
export function listenToSupervisor(worker: Worker, watch: EngineWatch, log: Logger): () => void {
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
      return worker.enginePhase(message);
    case 'engine_restarting':
      return watch.restarting(message.message, message.afterMs, message.advice);
    case 'engine_exited':
      return worker.engineFailed(message.message, message.wasHealthy, message.kind, message.advice);
    default:
      message satisfies never;
  }
}

function tellSupervisor(message: WorkerMessage): void {
  // A supervisor that is gone needs no messages, and the error would report only that.
  if (process.connected) process.send?.(message, undefined, undefined, () => {});
}
