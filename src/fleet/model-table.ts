import type { Sql } from '../durable/ports.ts';
import type { ModelCard } from '../protocol/index.ts';
import type { KnownModel } from './rpc.ts';

/** Every statement on the models that are known. Nothing here decides. All times in epoch ms. */

/** A model as one worker serves it. */
interface ServedModel {
  id: string;
  /** Among the models of its worker. */
  position: number;
  /** What its engine says of it; null: as was said before. */
  card: ModelCard | null;
}

/** A worker serves, or until now served, a model. */
export function saveModel(
  sql: Sql,
  { id, position, card }: ServedModel,
  worker: { worker_id: string; config_id: string },
  at: number,
): void {
  sql.exec(
    `INSERT INTO models (model, config_id, worker_id, first_seen, last_seen, position, card)
     VALUES (?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (model, config_id) DO UPDATE SET worker_id = excluded.worker_id,
       last_seen = max(last_seen, excluded.last_seen), position = excluded.position,
       card = coalesce(excluded.card, card)`,
    id,
    worker.config_id,
    worker.worker_id,
    at,
    at,
    position,
    card && JSON.stringify(card),
  );
}

export function knownModels(sql: Sql): KnownModel[] {
  const rows = sql.exec(
    `SELECT model, config_id, first_seen, card FROM models ORDER BY first_seen, config_id, position, model`,
  );
  return rows.map((row) => ({
    id: String(row.model),
    config_id: String(row.config_id),
    first_seen_ms: Number(row.first_seen),
    card: row.card === null ? null : (JSON.parse(String(row.card)) as ModelCard),
  }));
}

/** The same, the most recently served first. */
export function newestModels(sql: Sql): { id: string; config_id: string }[] {
  return sql
    .exec(`SELECT model, config_id FROM models ORDER BY last_seen DESC, first_seen, model`)
    .map((row) => ({ id: String(row.model), config_id: String(row.config_id) }));
}

/** Forgets what one worker served beyond `most` models, longest unseen first. */
export function forgetModelsOf(sql: Sql, workerId: string, most: number): void {
  sql.exec(
    `DELETE FROM models WHERE worker_id = ?1 AND (model, config_id) IN (
       SELECT model, config_id FROM models WHERE worker_id = ?1
       ORDER BY last_seen DESC, first_seen, model LIMIT -1 OFFSET ?2)`,
    workerId,
    most,
  );
}

/** Forgets those last seen by then, and beyond `most` those not seen for the longest. */
export function forgetModels(sql: Sql, seenBy: number, most: number): void {
  sql.exec(`DELETE FROM models WHERE last_seen <= ?`, seenBy);
  sql.exec(
    `DELETE FROM models WHERE (model, config_id) IN (
       SELECT model, config_id FROM models ORDER BY last_seen DESC, first_seen, model LIMIT -1 OFFSET ?)`,
    most,
  );
}

/** When the model not seen for the longest was seen; null: none is known. */
export function longestUnseen(sql: Sql): number | null {
  return sql.exec(`SELECT min(last_seen) AS at FROM models`)[0]?.at as number | null;
}
