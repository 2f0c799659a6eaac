/** Describes the storage that a host gives the rules of an object. */

export type SqlValue = string | number | null | Uint8Array;
/** A row of a result. Bytes are read as an ArrayBuffer on Cloudflare, and as a Uint8Array on Node. */
export type Row = Record<string, SqlValue | ArrayBuffer>;

/** The database of the object. All statements between two awaits are one commit. */
export interface Sql {
  exec(query: string, ...bindings: SqlValue[]): Row[];
}

/** The one durable alarm of the object. */
export interface Alarm {
  /** Returns the epoch ms that the alarm is set to, or null. */
  get(): number | null;
  set(atMs: number): void;
  clear(): void;
}
