import { createEngineClient } from '../engine/client/client.ts';
import type { EngineConfiguration } from '../engine/command/configuration.ts';
import { describeEngine } from '../engine/kinds/index.ts';
import type { Logger } from '../process/index.ts';
import type { Adapter } from '../protocol/index.ts';
import { Adapters } from './adapters/adapters.ts';
import { adapterFolder } from './adapters/download.ts';
import { systemClock } from './clock.ts';
import type { WorkerConfiguration } from './configuration.ts';
import type { Ports } from './ports.ts';
import { Prefills } from './prefill/prefills.ts';
import { SwappedEngine } from './turns/swapped-engine.ts';
import { connectTurns } from './turns/turns.ts';

/** The worker's engine as jobs reach it, with prefills and adapters if the operator configures them. */
interface EngineAccess extends Pick<Ports, 'engine' | 'prefills' | 'adapters'> {
  close(): Promise<void>;
}

/** Opens the engine. @param turned called when the engine shares its GPU and its turn has begun or ended */
export function openEngine(
  configuration: WorkerConfiguration,
  log: Logger,
  turned: () => void,
): EngineAccess {
  const { url, prefillUrl } = configuration.engine;
  const direct = engineAt(url, configuration.engine);
  const prefills =
    prefillUrl === null
      ? null
      : new Prefills(engineAt(prefillUrl, configuration.engine), { clock: systemClock, log });
  // Prefills run within the engine's turns, so that the blocks that they make are read at once.
  const { engine, close } = takingTurns(configuration, prefills?.before(direct) ?? direct, log, turned);
  return {
    engine,
    ...(prefills && { prefills }),
    ...adaptersOf(configuration, engine, log),
    close: () => {
      close();
      return engine.close();
    },
  };
}

function engineAt(baseUrl: string, { apiKey, engine }: EngineConfiguration): Ports['engine'] {
  return createEngineClient({ baseUrl, apiKey, engine: describeEngine(engine) });
}

/** Puts the engine behind its turns at the GPU, if it shares one. */
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

/** Returns the adapters, or an empty object if the operator lists none. */
function adaptersOf(
  { engine: { adapters: list }, adapterRoom, adapterStore }: WorkerConfiguration,
  engine: Ports['engine'],
  log: Logger,
): Pick<Ports, 'adapters'> {
  if (adapterStore === null) return {};
  const folderOf = (adapter: Adapter) => adapterFolder(adapter, { ...adapterStore, fetch });
  return { adapters: new Adapters({ clock: systemClock, engine, log, folderOf }, list, adapterRoom) };
}
