import type { Sql } from '../../../durable/ports.ts';
import type { NewItem } from '../types.ts';
import { counted, numberOfTenant } from './tenants.ts';

/**
 * Items, each stored once. The JSON of one that has some thousand characters is in pieces: whole, such rows leave a
 * fifth of each page of the database empty.
 */

/** The longest piece, in characters. */
const PIECE = 330;
/** The most pieces of an item beside the first. */
const MOST_PIECES = 64;
/**
 * The pieces of an item that has more than MOST_PIECES short ones have this many characters: they fill all of their
 * pages but the last. Three bytes a character fit into a row of Cloudflare, which holds 2 MB.
 */
const LONG_PIECE = 500_000;

/** Matches the JSON of an item that begins with its id, as engines write it. */
const ID_FIRST = /^\{"id":"([\w-]+)"/;

export const ITEM_TABLES: readonly string[] = [
  // id: '' if the JSON begins with it. owner: the number of the tenant. json: its first piece.
  `CREATE TABLE items (
     number INTEGER PRIMARY KEY,
     id TEXT NOT NULL,
     owner INTEGER NOT NULL,
     json TEXT NOT NULL
   )`,
  // number: that of the item times MOST_PIECES, and which of its further pieces it is.
  `CREATE TABLE item_pieces (number INTEGER PRIMARY KEY, json TEXT NOT NULL)`,
  ...counted('items', 'json', (row) => `number = ${row}.owner`),
  ...counted(
    'item_pieces',
    'json',
    (row) => `number = (SELECT owner FROM items WHERE items.number = ${row}.number / ${MOST_PIECES})`,
  ),
];

/** Stores items of a tenant and returns their numbers. */
export function insertItems(sql: Sql, items: readonly NewItem[], tenant: string | null): number[] {
  const owner = numberOfTenant(sql, tenant);
  return items.map(({ id, json }) => {
    const [first = '', ...rest] = piecesOf(json);
    const known = ID_FIRST.exec(json)?.[1] === id ? '' : id;
    const insert = `INSERT INTO items (id, owner, json) VALUES (?, ?, ?) RETURNING number`;
    const number = Number(sql.exec(insert, known, owner, first)[0]!.number);
    for (const [index, piece] of rest.entries())
      sql.exec(
        `INSERT INTO item_pieces (number, json) VALUES (?, ?)`,
        ...[number * MOST_PIECES + index, piece],
      );
    return number;
  });
}

/** Returns items in the order of their numbers' list; one that was deleted is left out. */
export function itemsOf(sql: Sql, numbers: readonly number[]): (NewItem & { number: number })[] {
  return numbers.flatMap((number) => {
    const [row] = sql.exec(`SELECT id, json FROM items WHERE number = ?`, number);
    if (!row) return [];
    const more = sql.exec(
      `SELECT json FROM item_pieces WHERE number >= ? AND number < ? ORDER BY number`,
      ...[number * MOST_PIECES, (number + 1) * MOST_PIECES],
    );
    const json = [row, ...more].map((piece) => String(piece.json)).join('');
    return [{ number, id: String(row.id) || (ID_FIRST.exec(json)?.[1] ?? ''), json }];
  });
}

/** Returns whether items have more bytes of JSON than this together, without reading them. */
export function areLargerThan(sql: Sql, most: number, numbers: readonly number[]): boolean {
  let left = most;
  return numbers.some((number) => {
    const [row] = sql.exec(
      `SELECT length(CAST(json AS BLOB)) + coalesce((SELECT sum(length(CAST(json AS BLOB))) FROM item_pieces
         WHERE number >= ? AND number < ?), 0) AS bytes FROM items WHERE number = ?`,
      ...[number * MOST_PIECES, (number + 1) * MOST_PIECES, number],
    );
    left -= Number(row?.bytes ?? 0);
    return left < 0;
  });
}

export function deleteItems(sql: Sql, numbers: Iterable<number>): void {
  for (const number of numbers) {
    // The pieces are counted by the item.
    sql.exec(
      `DELETE FROM item_pieces WHERE number >= ? AND number < ?`,
      ...[number * MOST_PIECES, (number + 1) * MOST_PIECES],
    );
    sql.exec(`DELETE FROM items WHERE number = ?`, number);
  }
}

/** Cuts a text into pieces, never within a character. */
function piecesOf(text: string): string[] {
  const isShort = text.length <= PIECE * MOST_PIECES;
  // A body that is longer than all of these pieces comes to no object on Cloudflare.
  const length = isShort ? PIECE : Math.max(LONG_PIECE, Math.ceil(text.length / MOST_PIECES) + 1);
  const pieces: string[] = [];
  for (let at = 0; at < text.length; ) {
    let end = Math.min(text.length, at + length);
    if (end < text.length && isHighSurrogate(text.charCodeAt(end - 1))) end -= 1;
    pieces.push(text.slice(at, end));
    at = end;
  }
  return pieces;
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}
