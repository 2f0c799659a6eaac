import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll } from 'vitest';
import { type QueueProcess, startQueueProcess } from './queue-process.ts';
import { closeRawWorkers, RawWorker } from './raw-worker.ts';

/** One queue process for all tests of a file; each test takes queues of its own in it. */
export interface TestRoad {
  /** The address of the queue, without a trailing slash. */
  readonly url: string;
  readonly stateDir: string;
  readonly pid: number;
  /** The lines that the queue has logged. */
  readonly logged: string[];
  /** The logged lines that are warnings and errors. */
  readonly warned: string[];
  queue(token?: string): TestQueue;
  /** The id of a queue that no other test has. */
  newQueue(): string;
  /** Ends the process, and starts another on the same state, at the same address. */
  restart(bindings?: Record<string, string>): Promise<void>;
  /** The same, and the process ends without a word. @param meanwhile runs before it starts again */
  killAndRestart(meanwhile?: () => void): Promise<void>;
}

export interface TestQueue {
  id: string;
  /** A request below `/api/jobs`. */
  ask(path: string, init?: RequestInit): Promise<Response>;
  /** Connected and registered, played by the test. */
  worker(id?: string, fields?: Record<string, unknown>): Promise<RawWorker>;
}

/** Starts it before the tests of this file and ends it after them. */
export function startTestQueue(given: Record<string, string> = {}): TestRoad {
  let running: QueueProcess;
  let stateDir: string;
  let queues = 0;
  const logged: string[] = [];
  const warned: string[] = [];
  const note = (fields: unknown, message?: string) =>
    logged[logged.push(JSON.stringify([fields, message])) - 1]!;
  const warn = (fields: unknown, message?: string) => void warned.push(note(fields, message));
  const logger = { debug: note, info: note, warn, error: warn } as never;
  const newQueue = () => `q${++queues}`;
  const start = async (bindings: Record<string, string>, port = 0) => {
    running = await startQueueProcess({
      host: '127.0.0.1',
      port,
      stateDir,
      bindings: { QUEUE_IDS: '*', ...bindings },
      logger,
    });
  };
  beforeAll(async () => {
    stateDir = await mkdtemp(join(tmpdir(), 'queue-'));
    await start(given);
  });
  afterEach(closeRawWorkers);
  afterAll(async () => {
    await running.stop();
    await rm(stateDir, { recursive: true, force: true });
  });
  return {
    logged,
    warned,
    get url() {
      return running.url;
    },
    get stateDir() {
      return stateDir;
    },
    get pid() {
      return running.pid;
    },
    queue: (token) => {
      const id = newQueue();
      const headers = { 'x-queue-id': id, ...(token && { authorization: `Bearer ${token}` }) };
      return {
        id,
        ask: (path, init = {}) =>
          fetch(`${running.url}/api/jobs${path}`, {
            ...init,
            headers: { ...headers, ...(init.headers as Record<string, string>) },
          }),
        worker: async (worker = 'w', fields = {}) =>
          await (await new RawWorker(running.url, token).connect(id)).register(worker, fields),
      };
    },
    newQueue,
    restart: async (bindings = given) => {
      await running.stop();
      await start(bindings, running.port);
    },
    killAndRestart: async (meanwhile) => {
      running.kill();
      await running.exited;
      meanwhile?.();
      await start(given, running.port);
    },
  };
}
