import type { Sql } from '../durable/ports.ts';
import { bounds, listNames, type ModelCard } from '../protocol/index.ts';
import type { FleetEvent, KnownModel, PoolChoice, PoolStart } from './rpc.ts';

/** Stores every model that a worker serves or served lately. Times are epoch ms. */
export class Models {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** Notes that a worker serves its models, or served them until now. */
  record(event: FleetEvent): void {
    const { worker_id, config_id, models, at } = event;
    const cards = (event.kind === 'registered' && event.instance?.model_cards) || [];
    for (const [position, id] of (models.length > 0 ? models : [config_id]).entries()) {
      const card = cards.find((one) => one.id === id);
      this.#sql.exec(
        `INSERT INTO models (model, config_id, worker_id, first_seen, last_seen, position, card)
         VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6)
         ON CONFLICT (model, config_id) DO UPDATE SET worker_id = excluded.worker_id,
           last_seen = max(last_seen, excluded.last_seen), position = excluded.position,
           card = coalesce(excluded.card, card)`,
        id,
        config_id,
        worker_id,
        at,
        position,
        card ? JSON.stringify(card) : null,
      );
    }
    this.#sql.exec(
      `DELETE FROM models WHERE worker_id = ?1 AND (model, config_id) IN (
         SELECT model, config_id FROM models WHERE worker_id = ?1
         ORDER BY last_seen DESC, first_seen, model, config_id LIMIT -1 OFFSET ?2)`,
      worker_id,
      bounds.KNOWN_MODELS_PER_WORKER,
    );
  }

  /** Returns whether a worker serves a model, or served it lately. */
  has(model: string): boolean {
    return this.#sql.exec(`SELECT 1 FROM models WHERE model = ? LIMIT 1`, model).length > 0;
  }

  /** Lists the models, longest known first. */
  all(): KnownModel[] {
    const rows = this.#sql.exec(
      `SELECT model, config_id, first_seen, card FROM models ORDER BY first_seen, config_id, position, model`,
    );
    return rows.map((row) => ({
      id: String(row.model),
      config_id: String(row.config_id),
      first_seen_ms: Number(row.first_seen),
      card: row.card === null ? null : (JSON.parse(String(row.card)) as ModelCard),
    }));
  }

  /** Lists the models, the most recently served first. */
  newest(): { id: string; config_id: string }[] {
    return this.#sql
      .exec(`SELECT model, config_id FROM models ORDER BY last_seen DESC, first_seen, model`)
      .map((row) => ({ id: String(row.model), config_id: String(row.config_id) }));
  }

  /**
   * Forgets models last seen by `seenBy`, and beyond a number those not seen for the longest.
   * @returns when the one not seen for the longest was seen; null: none is known
   */
  bound(seenBy: number): number | null {
    this.#sql.exec(`DELETE FROM models WHERE last_seen <= ?`, seenBy);
    this.#sql.exec(
      `DELETE FROM models WHERE (model, config_id) IN (
         SELECT model, config_id FROM models ORDER BY last_seen DESC, first_seen, model, config_id LIMIT -1 OFFSET ?)`,
      bounds.KNOWN_MODELS,
    );
    return this.#sql.exec(`SELECT min(last_seen) AS at FROM models`)[0]?.at as number | null;
  }
}

/**
 * Chooses the pool that the scheduler starts for a model, or that last served the model. A pool's own name stands for
 * its models; "default" and no name mean the only pool there is.
 * @param known the most recently served first
 */
export function choosePool(
  known: readonly Pick<KnownModel, 'id' | 'config_id'>[],
  starts: readonly PoolStart[],
  model: string | null,
): PoolChoice {
  const isNamed = model !== null && model !== 'default';
  const declared = starts.flatMap(({ config_id, names }) =>
    (names.length > 0 ? names : [config_id]).map((id) => ({ id, config_id })),
  );
  const all = [...declared, ...known];
  // A request without a model may go only to pools that the operator declares.
  const there = isNamed || starts.length === 0 ? all : declared;
  const pools = [...new Set(there.map(({ config_id }) => config_id))];
  // A model or a pool may be called "default" itself.
  const named = all.find(({ id, config_id }) => id === model || config_id === model)?.config_id;
  const found = named ?? (!isNamed && pools.length === 1 && pools[0]);
  if (found) {
    const start = starts.find(({ config_id }) => config_id === found);
    return { kind: 'pool', config_id: found, ...(start && { start }) };
  }
  return {
    kind: isNamed || pools.length === 0 ? 'unknown' : 'ambiguous',
    models: listNames(there.map(({ id }) => id)),
    pools: listNames(pools),
  };
}
