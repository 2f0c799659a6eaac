import type { Row, Sql, SqlValue } from '../durable/ports.ts';
import type { AuditAction, AuditEntry, AuditOutcome } from '../protocol/index.ts';
import type { TokenEntry } from '../settings/token-entry.ts';

const DAY_MS = 24 * 3_600_000;
/** An entry is stored and shown for this long, as usage is. */
const KEPT_MS = 400 * DAY_MS;
/** The most entries of each action, so that many of one, such as cancelled jobs, push out none of another. */
const KEPT_OF_AN_ACTION = 10_000;
/** The longest value of an entry, JSON characters; longer ones are left out, so that a row stays small. */
const MOST_VALUE = 16 * 1024;

/** An action that is about to be done. */
export interface AuditBegin {
  /** The entry's random id, chosen by the gateway, so that a repeated call is recorded once. */
  id: string;
  actor: string | null;
  /** Whom the actor's issuer says it is; null: the actor is a token. */
  subject: string | null;
  tenant: string | null;
  action: AuditAction;
  target: string;
  before: unknown;
  route: string;
  queue_id: string;
}

/** The end of an action. */
export interface AuditEnd {
  outcome: Exclude<AuditOutcome, 'begun'>;
  after: unknown;
  /** The code of the error. */
  error: string | null;
}

/** Selects the entries that a list shows; a field that is null fits any. */
export interface AuditWanted {
  /** The time of the entries, epoch ms, the end exclusive. */
  since: number | null;
  until: number | null;
  actor: string | null;
  action: AuditAction | null;
  target: string | null;
  /** Only entries with a smaller number are listed. */
  before: number | null;
  limit: number;
}

/**
 * Records what people did, for all queues: rows are added, ended once, and deleted by age and number, never changed
 * otherwise. Only the default queue's object stores them.
 */
export class Audit {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  begin(entry: AuditBegin, now: number): void {
    this.#add(entry, { outcome: 'begun', after: null, error: null }, now);
  }

  /** Ends an entry. An entry that does not exist, or has ended, stays as it is. */
  end(id: string, { outcome, after, error }: AuditEnd, now: number): void {
    this.#sql.exec(
      `UPDATE audit SET outcome = ?2, after = ?3, error = ?4, ended_at = ?5 WHERE id = ?1 AND outcome = 'begun'`,
      id,
      outcome,
      textOf(after),
      error,
      now,
    );
  }

  /** Lists entries, newest first. */
  list({ since, until, actor, action, target, before, limit }: AuditWanted, now: number): AuditEntry[] {
    const where = ['at > ?'];
    const values: SqlValue[] = [now - KEPT_MS];
    const only = (condition: string, value: SqlValue) => {
      if (value === null) return;
      where.push(condition);
      values.push(value);
    };
    only('at >= ?', since);
    only('at < ?', until);
    only('actor = ?', actor);
    only('action = ?', action);
    only('target = ?', target);
    only('seq < ?', before);
    const query = `SELECT * FROM audit WHERE ${where.join(' AND ')} ORDER BY seq DESC LIMIT ?`;
    return [...this.#sql.exec(query, ...values, limit)].map(entryOf);
  }

  /**
   * Records what has changed since the last call in the tokens that a file or a setting names, also what changed while
   * nothing ran.
   * @param entries all of these tokens, as a gateway has them now
   */
  tokensOfFile(entries: readonly TokenEntry[], queueId: string, now: number): void {
    const told = new Map(
      [...this.#sql.exec(`SELECT name, entries FROM file_tokens`)].map(({ name, entries: text }) => [
        String(name),
        String(text),
      ]),
    );
    const given = new Map(
      [...Map.groupBy(entries, ({ name }) => name)].map(([name, own]) => [name, JSON.stringify(own)]),
    );
    for (const name of new Set([...told.keys(), ...given.keys()])) {
      const [before = null, after = null] = [told.get(name), given.get(name)];
      if (before === after) continue;
      if (after === null) this.#sql.exec(`DELETE FROM file_tokens WHERE name = ?`, name);
      else {
        this.#sql.exec(
          `INSERT INTO file_tokens (name, entries) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET entries = excluded.entries`,
          name,
          after,
        );
      }
      const [was, is] = [shown(before), shown(after)];
      const entry = {
        actor: null,
        subject: null,
        tenant: null,
        target: name,
        before: was,
        route: 'token file',
      };
      const action = actionOf(was, is);
      const end = { outcome: 'done', after: is, error: null } as const;
      this.#add({ ...entry, id: crypto.randomUUID(), action, queue_id: queueId }, end, now);
    }
  }

  /** Records that a person was seen for the first time, or in another group. */
  person(
    { entry, before }: { entry: TokenEntry; before: TokenEntry | null },
    { route, queueId, now }: { route: string; queueId: string; now: number },
  ): void {
    const [was, is] = [before && withoutHash(before), withoutHash(entry)];
    const who = { actor: entry.name, subject: entry.oidc?.subject ?? null, tenant: null, target: entry.name };
    const action = before === null ? 'person.join' : 'person.change';
    const end = { outcome: 'done', after: is, error: null } as const;
    this.#add({ ...who, id: crypto.randomUUID(), action, before: was, route, queue_id: queueId }, end, now);
  }

  #add(entry: AuditBegin, end: Omit<AuditEnd, 'outcome'> & { outcome: AuditOutcome }, now: number): void {
    const { action } = entry;
    const [last] = this.#sql.exec(`SELECT max(nth) AS nth FROM audit WHERE action = ?`, action);
    const nth = Number(last?.nth ?? 0) + 1;
    this.#sql.exec(
      `INSERT INTO audit
         (id, at, actor, subject, tenant, action, nth, target, before, after, outcome, error, ended_at, route, queue_id)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
      entry.id,
      now,
      entry.actor,
      entry.subject,
      entry.tenant,
      action,
      nth,
      entry.target,
      textOf(entry.before),
      textOf(end.after),
      end.outcome,
      end.error,
      end.outcome === 'begun' ? null : now,
      entry.route,
      entry.queue_id,
    );
    this.#sql.exec(`DELETE FROM audit WHERE at <= ?`, now - KEPT_MS);
    this.#sql.exec(`DELETE FROM audit WHERE action = ? AND nth <= ?`, action, nth - KEPT_OF_AN_ACTION);
  }
}

/**
 * Returns the entries of a token without what would help anybody to guess it. @param text null: no token has the name
 */
function shown(text: string | null): Omit<TokenEntry, 'sha256'>[] | null {
  if (text === null) return null;
  return (JSON.parse(text) as TokenEntry[]).map(withoutHash);
}

function withoutHash({ sha256: _, ...rest }: TokenEntry): Omit<TokenEntry, 'sha256'> {
  return rest;
}

function actionOf(before: unknown, after: unknown): AuditAction {
  if (before === null) return 'token.create';
  if (after === null) return 'token.revoke';
  return JSON.stringify(before) === JSON.stringify(after) ? 'token.rotate' : 'token.change';
}

function textOf(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  const text = JSON.stringify(value);
  return text.length <= MOST_VALUE ? text : JSON.stringify({ left_out: `${text.length} characters` });
}

function entryOf(row: Row): AuditEntry {
  const text = (name: string) => (row[name] === null ? null : String(row[name]));
  const json = (name: string) => (row[name] === null ? null : JSON.parse(String(row[name])));
  return {
    seq: Number(row.seq),
    at: new Date(Number(row.at)).toISOString(),
    actor: text('actor'),
    subject: text('subject'),
    tenant: text('tenant'),
    action: text('action') as AuditAction,
    target: String(row.target),
    before: json('before'),
    after: json('after'),
    outcome: text('outcome') as AuditOutcome,
    error: text('error'),
    ended_at: row.ended_at === null ? null : new Date(Number(row.ended_at)).toISOString(),
    route: String(row.route),
    queue_id: String(row.queue_id),
  };
}
