import { DurableObject } from 'cloudflare:workers';
import { migrate } from '../durable/migrate.ts';
import type { Sql } from '../durable/ports.ts';
import { StoredAlarm, sqlOf } from '../durable/storage.ts';
import {
  addFile,
  type FilePage,
  type FilesWanted,
  findFile,
  forgetExpired,
  listFiles,
  removeFile,
} from '../files/file-index.ts';
import type { FileRecord } from '../files/rpc.ts';
import { MIGRATIONS } from './migrations.ts';
import type { BatchesRpc, RemoveFileAnswer } from './rpc.ts';

/** The Durable Object that knows the files of a queue id, one for each. */
export class BatchesObject extends DurableObject implements BatchesRpc {
  #sql!: Sql;
  #alarm!: StoredAlarm;

  constructor(ctx: DurableObjectState, env: unknown) {
    super(ctx, env as never);
    ctx.blockConcurrencyWhile(async () => {
      this.#alarm = await StoredAlarm.read(ctx.storage);
      this.#sql = sqlOf(ctx.storage);
      migrate(this.#sql, MIGRATIONS);
    });
  }

  async addFile(file: FileRecord): Promise<void> {
    addFile(this.#sql, file);
    this.#sweep();
  }

  async findFile(id: string, viewer: string | null): Promise<FileRecord | null> {
    return findFile(this.#sql, id, viewer, Date.now());
  }

  async listFiles(wanted: FilesWanted): Promise<FilePage | null> {
    return listFiles(this.#sql, wanted, Date.now());
  }

  async removeFile(id: string, viewer: string | null): Promise<RemoveFileAnswer> {
    if (findFile(this.#sql, id, viewer, Date.now()) === null) return 'unknown';
    removeFile(this.#sql, id);
    return 'removed';
  }

  override async alarm(): Promise<void> {
    this.#alarm.fired();
    this.#sweep();
  }

  #sweep(): void {
    const next = forgetExpired(this.#sql, Date.now());
    if (next !== null && this.#alarm.get() !== next) this.#alarm.set(next);
  }
}
