/** The storage that a host gives the rules of an object. */

export type SqlValue = string | number | null | Uint8Array;
/** Bytes are read as an ArrayBuffer on Cloudflare, and as a Uint8Array on Node. */
export type Row = Record<string, SqlValue | ArrayBuffer>;

/** All statements between two awaits are one commit. */
export interface Sql {
  exec(query: string, ...bindings: SqlValue[]): Row[];
}

/** The one durable alarm of the object. */
export interface Alarm {
  /** Epoch ms it is set to; null when it is not. */
  get(): number | null;
  set(atMs: number): void;
  clear(): void;
}
