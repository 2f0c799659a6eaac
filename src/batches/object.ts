import type { HostedObject, ObjectHost } from '../durable/host.ts';
import { createTables } from '../durable/ports.ts';
import { addFile, type FilePage, type FileRecord, type FilesWanted, listFiles } from '../files/file-index.ts';
import { EVENT_TABLE_STEPS, EVENT_TABLES, type EventReceiver, EventWebhooks } from '../webhooks/events.ts';
import type { Backlog, Batch, NewBatch, NextLine, RemoveFileAnswer } from './batch.ts';
import { backlog, cancelBatch, createBatch, fileOf, lookAfter, unlistFile } from './batches.ts';
import type { BatchPorts } from './ports.ts';
import { BatchRunner } from './runner.ts';
import { BATCHES_TABLES, type BatchesWanted, findBatch, listBatches } from './store.ts';

/** The ports through which the object asks others. */
export interface BatchesAsk extends Pick<BatchPorts, 'queue' | 'files' | 'routes'> {
  /** Returns the models' own names for these names, which callers use. */
  ownModels(models: readonly (string | null)[]): Promise<(string | null)[]>;
}

/**
 * Stores which files a queue id has, and runs its batches; there is one such object for each queue. Its methods are the
 * calls of the gateway: arguments and answers are plain data.
 */
export class BatchesObject implements HostedObject {
  readonly #host: ObjectHost;
  readonly #ask: BatchesAsk;
  readonly #ports: BatchPorts;
  readonly #runner: BatchRunner;
  readonly #webhooks: EventWebhooks;

  constructor(host: ObjectHost, ask: BatchesAsk, receiver: EventReceiver) {
    this.#host = host;
    this.#ask = ask;
    createTables(host.sql, [...BATCHES_TABLES, ...EVENT_TABLES], EVENT_TABLE_STEPS);
    this.#webhooks = new EventWebhooks(host, receiver);
    const { queue, files, routes } = ask;
    this.#ports = {
      sql: host.sql,
      now: () => host.now(),
      sleep: (ms) => new Promise((done) => void host.after(ms, done)),
      queue,
      files,
      routes,
      background: (work) => host.background(work),
      ended: ({ id, status }) => this.#webhooks.add(`batch.${status}`, id),
      log: (level, message, fields) => host.log(level, message, { queue_id: host.queueId, ...fields }),
    };
    this.#runner = new BatchRunner(this.#ports);
    this.#look();
  }

  /** Lists a file that was uploaded. */
  async addFile(file: FileRecord): Promise<void> {
    addFile(this.#ports.sql, file);
    this.#look();
  }

  /** Finds a file. @param viewer the tenant whose files are seen; null sees all */
  async findFile(id: string, viewer: string | null): Promise<FileRecord | null> {
    return fileOf(this.#ports, id, viewer);
  }

  /** Returns a page of files; null if `after` is no file. */
  async listFiles(wanted: FilesWanted): Promise<FilePage | null> {
    return listFiles(this.#ports.sql, wanted, this.#host.now());
  }

  async removeFile(id: string, viewer: string | null): Promise<RemoveFileAnswer> {
    return unlistFile(this.#ports, id, viewer);
  }

  /**
   * Begins a batch; its input is read afterwards. Returns null if there is no such file.
   * @param idempotencyKey an existing batch under this key is returned instead
   */
  async createBatch(asked: NewBatch, idempotencyKey: string | null): Promise<Batch | null> {
    const batch = createBatch(this.#ports, asked, idempotencyKey);
    this.#look();
    return batch;
  }

  async findBatch(id: string, viewer: string | null): Promise<Batch | null> {
    return findBatch(this.#ports.sql, id, viewer)?.batch ?? null;
  }

  /** Returns the next line of a batch that is not done, or null if there is none or the batch does not run. */
  async nextLine(id: string): Promise<NextLine | null> {
    const stored = findBatch(this.#ports.sql, id, null);
    return stored === null ? null : this.#runner.nextLine(stored);
  }

  /** Returns a page of batches; null if `after` is no batch. */
  async listBatches(wanted: BatchesWanted): Promise<{ batches: Batch[]; has_more: boolean } | null> {
    return listBatches(this.#ports.sql, wanted);
  }

  /** Cancels a batch; a batch that has ended, or is ending, stays as it is. Returns null if there is none. */
  async cancelBatch(id: string, viewer: string | null): Promise<Batch | null> {
    const batch = cancelBatch(this.#ports, id, viewer);
    this.#look();
    return batch;
  }

  /** Returns what all batches still have to run, the window that ends first coming first. */
  async backlog(): Promise<Backlog[]> {
    const left = backlog(this.#ports.sql);
    const models = await this.#ask.ownModels(left.map(({ model }) => model));
    return left.map((one, index) => ({ ...one, model: models[index]! }));
  }

  async alarm(): Promise<void> {
    this.#webhooks.send();
    this.#look();
  }

  /** Wakes the runner, and sets the alarm, if there may be something to do. */
  #look(): void {
    if (lookAfter(this.#ports, this.#host.alarm)) this.#runner.wake();
    this.#webhooks.arm();
  }
}
