import { Worker } from 'node:worker_threads';
import { SYNCS } from './write-ahead-log.ts';

/** The result of a checkpoint, with SQLite's error if it failed. */
export type Checkpointed =
  | { isWhole: boolean; error?: undefined }
  | { isWhole: false; error: { message: string; errcode: number } };

interface Answer {
  id: number;
  did: Checkpointed;
}

let thread: Worker | null = null;
let asked = 0;
const waiting = new Map<number, (did: Checkpointed) => void>();

/**
 * Copies the log of a database into the database, in the one thread that does so for all databases: a checkpoint syncs
 * two files and would stop everything else for that long. Never rejects.
 */
export function checkpoint(path: string): Promise<Checkpointed> {
  const { promise, resolve } = Promise.withResolvers<Checkpointed>();
  thread ??= startThread();
  const id = ++asked;
  waiting.set(id, resolve);
  // `ref` keeps the process from ending before the answer, which a closing database waits for.
  thread.ref();
  thread.postMessage({ id, path });
  return promise;
}

function startThread(): Worker {
  // The thread runs the text of a function, since the programs are bundles, with no file for it beside them.
  const started = new Worker(`(${runCheckpoints})()`, {
    eval: true,
    name: 'checkpoints',
    workerData: SYNCS,
  });
  started.on('message', ({ id, did }: Answer) => {
    waiting.get(id)?.(did);
    waiting.delete(id);
    if (waiting.size === 0) started.unref();
  });
  started.once('error', ({ message }) => {
    thread = null;
    for (const resolve of waiting.values()) resolve({ isWhole: false, error: { message, errcode: 0 } });
    waiting.clear();
  });
  return started;
}

/** Runs in the thread, and so refers to nothing outside itself. */
function runCheckpoints(): void {
  const { parentPort, workerData: syncs } = process.getBuiltinModule('node:worker_threads');
  const { emitWarning } = process;
  process.emitWarning = () => {};
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite');
  process.emitWarning = emitWarning;

  const copy = (path: string): Checkpointed => {
    let database: InstanceType<typeof DatabaseSync> | null = null;
    try {
      // The connection is not kept open, since each has a cache and three descriptors, and checkpoints are rare.
      database = new DatabaseSync(path);
      database.exec(syncs);
      const [did] = database.prepare('PRAGMA wal_checkpoint(PASSIVE)').all() as Record<string, number>[];
      return { isWhole: did!.busy === 0 && did!.log === did!.checkpointed };
    } catch (error) {
      const { message, errcode = 0 } = error as Error & { errcode?: number };
      return { isWhole: false, error: { message, errcode } };
    } finally {
      database?.close();
    }
  };
  parentPort!.on('message', ({ id, path }: { id: number; path: string }) => {
    parentPort!.postMessage({ id, did: copy(path) });
  });
}
