import { deserialize, serialize } from 'node:v8';
import type { SqlValue } from '../../../durable/ports.ts';
import type { Write } from '../storage/recorder.ts';
import type { Place } from './journal.ts';

/** Matches the path of a database in a group: the folder of a queue (state/folder.ts) and a kind of object. */
export const DATABASE = /^(?!\.)[\w%~-]+\/\w+\.sqlite$/;

/** The writes of one commit. */
export interface Group {
  /** The path of the database below the folder of databases, with `/`: `default/queue.sqlite`. */
  database: string;
  writes: readonly Write[];
}

/** The content of an entry. */
export type Content =
  | {
      kind: 'owner';
      /** The id of the journal, which its first owner has made. */
      journal: string;
      /** A random text, by which an owner knows its own entry again. */
      owner: string;
      /** The place of the entry before this one. */
      after: Place;
      stateVersion: number;
      /** The secret of the state folder, so that addresses that were given to workers outlive a takeover. */
      fileKeySecret: string;
    }
  | { kind: 'commits'; stateVersion: number; groups: Group[] }
  /** Says that its owner has ended in order, and appends nothing more. */
  | { kind: 'closed' };

/** Commits with each text of a statement once, since most of them come many times. */
interface PackedCommits {
  kind: 'commits';
  stateVersion: number;
  queries: string[];
  groups: [database: string, writes: [query: number, ...bindings: SqlValue[]][]][];
}

export function encode(content: Content): Uint8Array {
  return serialize(content.kind === 'commits' ? packed(content) : content);
}

/** @throws Error if the bytes are no entry of this version */
export function decode(body: Uint8Array): Content {
  const content = deserialize(body) as Exclude<Content, { kind: 'commits' }> | PackedCommits;
  if (content.kind !== 'commits') return content;
  const { kind, stateVersion, queries, groups } = content;
  return {
    kind,
    stateVersion,
    groups: groups.map(([database, writes]) => ({
      database,
      writes: writes.map(([query, ...bindings]) => [queries[query]!, ...bindings] as const),
    })),
  };
}

function packed({ kind, stateVersion, groups }: Extract<Content, { kind: 'commits' }>): PackedCommits {
  const numbers = new Map<string, number>();
  const numberOf = (query: string) => {
    const known = numbers.get(query);
    if (known !== undefined) return known;
    numbers.set(query, numbers.size);
    return numbers.size - 1;
  };
  return {
    kind,
    stateVersion,
    groups: groups.map(({ database, writes }) => [
      database,
      writes.map(([query, ...bindings]) => [numberOf(query), ...bindings]),
    ]),
    queries: [...numbers.keys()],
  };
}
