import { DurableObject } from 'cloudflare:workers';
import { backlog } from '../../batches/backlog.ts';
import type { Batch, NewBatch } from '../../batches/batch.ts';
import { type BatchesWanted, findBatch, listBatches } from '../../batches/batch-table.ts';
import { cancelBatch, createBatch, fileOf, unlistFile } from '../../batches/batches.ts';
import type { BatchPorts } from '../../batches/ports.ts';
import type { Backlog, BatchesRpc, NextLine, RemoveFileAnswer } from '../../batches/rpc.ts';
import { BatchRunner } from '../../batches/runner.ts';
import { BATCHES_TABLES } from '../../batches/tables.ts';
import { lookAfter } from '../../batches/upkeep.ts';
import { machineTime } from '../../durable/machine-time.ts';
import { startAgain } from '../../durable/start-again.ts';
import { sqlOf } from '../../durable/storage.ts';
import { StoredAlarm } from '../../durable/stored-alarm.ts';
import { createTables } from '../../durable/tables.ts';
import { addFile, type FilePage, type FilesWanted, listFiles } from '../../files/file-index.ts';
import type { FileRecord } from '../../files/rpc.ts';
import { inferenceRoutes } from '../../protocol/index.ts';
import type { Env } from '../env.ts';
import { batchFiles } from './files.ts';
import { batchQueue, ownModels } from './queue.ts';

/** The Durable Object that knows the files and runs the batches of a queue id, one for each. */
export class BatchesObject extends DurableObject<Env> implements BatchesRpc {
  #ports!: BatchPorts;
  #alarm!: StoredAlarm;
  #runner!: BatchRunner;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.blockConcurrencyWhile(async () => {
      this.#alarm = await StoredAlarm.read(ctx.storage);
      const sql = sqlOf(ctx.storage);
      createTables(sql, BATCHES_TABLES);
      const queueId = ctx.id.name ?? '';
      this.#ports = {
        sql,
        now: () => Date.now(),
        machineTime: () => machineTime(sql),
        startAgain: () =>
          void startAgain(
            { ctx, sql, alarm: this.#alarm },
            'the object of batches starts again with a new clock',
          ),
        sleep: (ms) => new Promise((done) => setTimeout(done, ms)),
        queue: batchQueue(env, queueId),
        routes: inferenceRoutes(env.INFERENCE_ROUTES),
        files: batchFiles(env, queueId),
        log: (level, msg, fields) =>
          console.log(JSON.stringify({ level, msg, queue_id: queueId, ...fields })),
      };
      this.#runner = new BatchRunner(this.#ports);
      this.#look();
    });
  }

  async addFile(file: FileRecord): Promise<void> {
    addFile(this.#ports.sql, file);
    this.#look();
  }

  async findFile(id: string, viewer: string | null): Promise<FileRecord | null> {
    return fileOf(this.#ports, id, viewer);
  }

  async listFiles(wanted: FilesWanted): Promise<FilePage | null> {
    return listFiles(this.#ports.sql, wanted, Date.now());
  }

  async removeFile(id: string, viewer: string | null): Promise<RemoveFileAnswer> {
    return unlistFile(this.#ports, id, viewer);
  }

  async createBatch(asked: NewBatch, idempotencyKey: string | null): Promise<Batch | null> {
    const batch = createBatch(this.#ports, asked, idempotencyKey);
    this.#look();
    return batch;
  }

  async findBatch(id: string, viewer: string | null): Promise<Batch | null> {
    this.#runner.watchClock();
    return findBatch(this.#ports.sql, id, viewer)?.batch ?? null;
  }

  async nextLine(id: string): Promise<NextLine | null> {
    const stored = findBatch(this.#ports.sql, id, null);
    return stored === null ? null : this.#runner.nextLine(stored);
  }

  async listBatches(wanted: BatchesWanted): Promise<{ batches: Batch[]; has_more: boolean } | null> {
    return listBatches(this.#ports.sql, wanted);
  }

  async cancelBatch(id: string, viewer: string | null): Promise<Batch | null> {
    const batch = cancelBatch(this.#ports, id, viewer);
    this.#look();
    return batch;
  }

  async backlog(): Promise<Backlog[]> {
    const left = backlog(this.#ports.sql);
    const models = ownModels(
      this.env,
      left.map(({ model }) => model),
    );
    return left.map((one, index) => ({ ...one, model: models[index]! }));
  }

  override alarm(): Promise<void> {
    return this.#alarm.fires(Date.now(), () => this.#look());
  }

  /** Wakes the runner, and sets the alarm, if there may be something to do. */
  #look(): void {
    if (lookAfter(this.#ports, this.#alarm)) this.#runner.wake();
  }
}
