import type { Row, Sql, SqlValue } from '../../../durable/ports.ts';
import { packItems, unpackItems } from '../item-list.ts';
import type { ResponseStatus } from '../types.ts';
import { ITEM_TABLES } from './items.ts';
import { counted, numberOfTenant, TENANT_TABLES } from './tenants.ts';

/** The tables of responses, their items and conversations, and the statements on them. Nothing here decides. */

export const RESPONSES_TABLES: readonly string[] = [
  ...TENANT_TABLES,
  ...ITEM_TABLES,
  // body: the Response object without its output; of a final one, what its shape does not have (stored-body.ts). shape:
  // the number of an item; null: body is whole. history, input, output: lists of numbers of items (item-list.ts).
  // root: a number of the response or conversation with which the chain began (`rootOf`); only rows with the same root
  // share items.
  // fence: the token of the attempt whose events are stored; has_output: whether they hold any of the output.
  // events_until: the time at which the events of a final response are deleted; null: it has none, or is not final.
  `CREATE TABLE responses (
     seq INTEGER PRIMARY KEY,
     id TEXT NOT NULL UNIQUE,
     tenant TEXT,
     token_name TEXT,
     model TEXT,
     status TEXT NOT NULL,
     is_background INTEGER NOT NULL,
     is_streamed INTEGER NOT NULL,
     previous_id TEXT,
     conversation_id TEXT,
     root INTEGER NOT NULL,
     body TEXT NOT NULL,
     shape INTEGER,
     history BLOB NOT NULL,
     input BLOB NOT NULL,
     output BLOB NOT NULL,
     created_at INTEGER NOT NULL,
     ended_at INTEGER,
     expires_at INTEGER NOT NULL,
     fence INTEGER NOT NULL DEFAULT 0,
     has_output INTEGER NOT NULL DEFAULT 0,
     events_until INTEGER
   )`,
  `CREATE INDEX responses_root ON responses (root)`,
  `CREATE INDEX responses_expiry ON responses (expires_at)`,
  `CREATE INDEX responses_tenant ON responses (tenant, seq)`,
  `CREATE INDEX responses_running ON responses (seq) WHERE ended_at IS NULL`,
  `CREATE INDEX responses_events ON responses (events_until) WHERE events_until IS NOT NULL`,
  // locked_by: the id of the response that is being made in the conversation. lock_job: the request of its caller, who
  // waits for it; null: it is in the background. lock_over_at: when the queue first said that this request is over.
  `CREATE TABLE conversations (
     id TEXT PRIMARY KEY,
     root INTEGER NOT NULL,
     tenant TEXT,
     metadata TEXT NOT NULL,
     items BLOB NOT NULL,
     created_at INTEGER NOT NULL,
     changed_at INTEGER NOT NULL,
     locked_by TEXT,
     lock_job TEXT,
     lock_over_at INTEGER
   )`,
  `CREATE INDEX conversations_root ON conversations (root)`,
  `CREATE INDEX conversations_change ON conversations (changed_at)`,
  `CREATE INDEX conversations_lock ON conversations (lock_job) WHERE lock_job IS NOT NULL`,
  // Events of a response that streams in the background: consecutive ones from the sequence number \`first\` on, as
  // event-log.ts writes them.
  `CREATE TABLE events (
     response INTEGER NOT NULL,
     first INTEGER NOT NULL,
     count INTEGER NOT NULL,
     events TEXT NOT NULL,
     PRIMARY KEY (response, first)
   ) WITHOUT ROWID`,
  ...counted('responses', 'body', (row) => `name = coalesce(${row}.tenant, '')`),
  ...counted('conversations', 'metadata', (row) => `name = coalesce(${row}.tenant, '')`),
];

/** A response as it is stored. */
export interface StoredResponse {
  seq: number;
  id: string;
  tenant: string | null;
  token_name: string | null;
  model: string | null;
  status: ResponseStatus;
  is_background: boolean;
  is_streamed: boolean;
  previous_id: string | null;
  conversation_id: string | null;
  root: number;
  /** The Response object without its output, as JSON. */
  body: string;
  /** The number of the item with the fields that the body leaves out; null: it leaves none out. */
  shape: number | null;
  /** The numbers of the items before the response's own input, of its input and of its output. */
  history: number[];
  input: number[];
  output: number[];
  /** Epoch ms; `ended_at` is null until the response is final. */
  created_at: number;
  ended_at: number | null;
  expires_at: number;
  fence: number;
  has_output: boolean;
  /** Epoch ms; null: it has no events, or is not final. */
  events_until: number | null;
}

export interface StoredConversation {
  id: string;
  root: number;
  tenant: string | null;
  /** JSON of an object. */
  metadata: string;
  items: number[];
  /** Epoch ms. */
  created_at: number;
  changed_at: number;
  locked_by: string | null;
  lock_job: string | null;
  lock_over_at: number | null;
}

const COLUMNS = [
  ...['id', 'tenant', 'token_name', 'model', 'status', 'is_background', 'is_streamed', 'previous_id'],
  ...['conversation_id', 'root', 'body', 'shape', 'history', 'input', 'output', 'created_at', 'ended_at'],
  ...['expires_at', 'fence', 'has_output', 'events_until'],
] as const;

const INSERT = `INSERT INTO responses (${COLUMNS.join(', ')}) VALUES (${COLUMNS.map(() => '?').join(', ')})`;
const UPDATE = `UPDATE responses SET ${COLUMNS.map((name) => `${name} = ?`).join(', ')} WHERE seq = ?`;

export function insertResponse(sql: Sql, response: Omit<StoredResponse, 'seq'>): void {
  sql.exec(INSERT, ...valuesOf(response));
}

export function saveResponse(sql: Sql, response: StoredResponse): void {
  sql.exec(UPDATE, ...valuesOf(response), response.seq);
}

function valuesOf(response: Omit<StoredResponse, 'seq'>): SqlValue[] {
  return COLUMNS.map((name) => {
    const value = response[name as keyof typeof response];
    if (Array.isArray(value)) return packItems(value);
    return typeof value === 'boolean' ? Number(value) : value;
  });
}

export function findResponse(sql: Sql, id: string): StoredResponse | null {
  const [row] = sql.exec(`SELECT * FROM responses WHERE id = ?`, id);
  return row ? responseOf(row) : null;
}

/** Returns the numbers of the items that each response of a chain has. */
export function itemsOfRoot(sql: Sql, root: number): number[][] {
  return sql
    .exec(`SELECT history, input, output, shape FROM responses WHERE root = ?`, root)
    .map(({ history, input, output, shape }) => [
      ...[history, input, output].flatMap((list) => unpackItems(list as Uint8Array)),
      ...(shape === null ? [] : [Number(shape)]),
    ]);
}

/** Returns whether a response of a chain goes on from these items: its history begins with them. */
export function isGoneOnFrom(sql: Sql, root: number, numbers: readonly number[]): boolean {
  const packed = packItems(numbers);
  const begins = `SELECT 1 FROM responses WHERE root = ? AND substr(history, 1, ?) = ? LIMIT 1`;
  return sql.exec(begins, root, packed.length, packed).length > 0;
}

/** Returns whether a response of a chain has this shape. */
export function isShape(sql: Sql, root: number, number: number): boolean {
  return sql.exec(`SELECT 1 FROM responses WHERE root = ? AND shape = ? LIMIT 1`, root, number).length > 0;
}

/** Returns the shape of the newest final response of a chain; null: there is none. */
export function shapeOfRoot(sql: Sql, root: number): number | null {
  const newest = `SELECT shape FROM responses WHERE root = ? AND shape IS NOT NULL ORDER BY seq DESC LIMIT 1`;
  const [row] = sql.exec(newest, root);
  return row ? Number(row.shape) : null;
}

/** Returns whether any response is not final. */
export function isAnyRunning(sql: Sql): boolean {
  return sql.exec(`SELECT 1 FROM responses WHERE ended_at IS NULL LIMIT 1`).length > 0;
}

/** Returns the responses that are not final, oldest first; there may be thousands, so nothing of what they hold. */
export function runningResponses(sql: Sql): Pick<StoredResponse, 'id' | 'created_at' | 'is_streamed'>[] {
  return sql
    .exec(`SELECT id, created_at, is_streamed FROM responses WHERE ended_at IS NULL ORDER BY seq`)
    .map(({ id, created_at, is_streamed }) => ({
      id: String(id),
      created_at: Number(created_at),
      is_streamed: is_streamed === 1,
    }));
}

/** Returns the responses whose events are to be deleted by now. */
export function endedEvents(sql: Sql, now: number, most: number): StoredResponse[] {
  return sql
    .exec(
      `SELECT * FROM responses WHERE events_until IS NOT NULL AND events_until <= ? ORDER BY events_until LIMIT ?`,
      now,
      most,
    )
    .map(responseOf);
}

/** Returns when events are to be deleted next, epoch ms; null: there are none of final responses. */
export function nextEventsEnd(sql: Sql): number | null {
  const [row] = sql.exec(`SELECT min(events_until) AS at FROM responses WHERE events_until IS NOT NULL`);
  return row?.at == null ? null : Number(row.at);
}

/** Returns the final responses that have expired, the oldest first. */
export function expiredResponses(sql: Sql, now: number, most: number): StoredResponse[] {
  return sql
    .exec(
      `SELECT * FROM responses WHERE expires_at <= ? AND ended_at IS NOT NULL ORDER BY expires_at LIMIT ?`,
      now,
      most,
    )
    .map(responseOf);
}

/** Returns when the next final response expires, epoch ms; null: none will. */
export function nextExpiry(sql: Sql): number | null {
  const [row] = sql.exec(`SELECT min(expires_at) AS at FROM responses WHERE ended_at IS NOT NULL`);
  return row?.at == null ? null : Number(row.at);
}

export function deleteResponse(sql: Sql, { seq }: StoredResponse): void {
  sql.exec(`DELETE FROM events WHERE response = ?`, seq);
  sql.exec(`DELETE FROM responses WHERE seq = ?`, seq);
}

function responseOf(row: Row): StoredResponse {
  const { history, input, output, ended_at, is_background, is_streamed, has_output, ...rest } = row;
  return {
    ...(rest as unknown as StoredResponse),
    is_background: is_background === 1,
    is_streamed: is_streamed === 1,
    has_output: has_output === 1,
    ended_at: ended_at as number | null,
    history: unpackItems(history as Uint8Array),
    input: unpackItems(input as Uint8Array),
    output: unpackItems(output as Uint8Array),
  };
}

/**
 * The last characters of an id that make the root of a chain, as a number of four bytes. Two roots that are equal by
 * chance do no harm.
 */
const ROOT_DIGITS = 6;

/** Returns the root of a chain that begins with this response or conversation. */
export function rootOf(id: string): number {
  return Number.parseInt(id.slice(-ROOT_DIGITS), 36);
}

/** Returns the conversations of a chain. */
export function conversationsOfRoot(sql: Sql, root: number): StoredConversation[] {
  return sql.exec(`SELECT * FROM conversations WHERE root = ?`, root).map(conversationOf);
}

export function findConversation(sql: Sql, id: string): StoredConversation | null {
  const [row] = sql.exec(`SELECT * FROM conversations WHERE id = ?`, id);
  return row ? conversationOf(row) : null;
}

function conversationOf(row: Row): StoredConversation {
  return { ...(row as unknown as StoredConversation), items: unpackItems(row.items as Uint8Array) };
}

export function saveConversation(sql: Sql, conversation: StoredConversation): void {
  const { id, root, tenant, metadata, created_at, changed_at, locked_by, lock_job, lock_over_at } =
    conversation;
  numberOfTenant(sql, tenant);
  sql.exec(
    `INSERT INTO conversations
       (id, root, tenant, metadata, items, created_at, changed_at, locked_by, lock_job, lock_over_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET metadata = excluded.metadata, items = excluded.items,
       changed_at = excluded.changed_at, locked_by = excluded.locked_by, lock_job = excluded.lock_job,
       lock_over_at = excluded.lock_over_at`,
    ...[id, root, tenant, metadata, packItems(conversation.items), created_at, changed_at],
    ...[locked_by, lock_job, lock_over_at],
  );
}

/** Returns the conversations without a lock that were last changed before a time, the oldest first. */
export function idleConversations(sql: Sql, before: number, most: number): StoredConversation[] {
  return sql
    .exec(
      `SELECT * FROM conversations WHERE changed_at <= ? AND locked_by IS NULL ORDER BY changed_at LIMIT ?`,
      ...[before, most],
    )
    .map(conversationOf);
}

/** Returns the locks of conversations for whose response a caller waits. */
export function callersLocks(
  sql: Sql,
  most: number,
): { id: string; lock_job: string; lock_over_at: number | null }[] {
  return sql
    .exec(`SELECT id, lock_job, lock_over_at FROM conversations WHERE lock_job IS NOT NULL LIMIT ?`, most)
    .map(({ id, lock_job, lock_over_at }) => ({
      id: String(id),
      lock_job: String(lock_job),
      lock_over_at: lock_over_at === null ? null : Number(lock_over_at),
    }));
}

/** Returns when the conversation without a lock was changed that has been idle for longest; null: there is none. */
export function longestIdle(sql: Sql): number | null {
  const [row] = sql.exec(`SELECT min(changed_at) AS at FROM conversations WHERE locked_by IS NULL`);
  return row?.at == null ? null : Number(row.at);
}

export function deleteConversation(sql: Sql, id: string): void {
  sql.exec(`DELETE FROM conversations WHERE id = ?`, id);
}
