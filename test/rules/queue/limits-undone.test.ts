import { DatabaseSync } from 'node:sqlite';
import { expect, it } from 'vitest';
import { Book } from '../../../src/admission/book.ts';
import type { Row, Sql } from '../../../src/durable/ports.ts';
import { QUEUE_TABLES } from '../../../src/queue/store/tables.ts';

/** Limits are written with usage, all or nothing: what a full disk undid is written again. */

it('limits that ended in a save that was undone are deleted by the next one', () => {
  const database = new DatabaseSync(':memory:');
  for (const statement of QUEUE_TABLES) database.exec(statement);
  let isFull = false;
  const sql: Sql = {
    exec: (query, ...bindings) => {
      if (isFull && query.startsWith('INSERT')) throw new Error('database or disk is full');
      return database.prepare(query).all(...bindings) as Row[];
    },
  };
  const book = new Book(
    sql,
    () => 0,
    () => [],
    () => 0,
  );
  const report = (token_name: string, running: number | null) =>
    book.report({ token_name, tenant: 't', limits: running === null ? null : { running } });
  const written = () => database.prepare(`SELECT token_name, limits FROM limits`).all();
  report('a', 1);
  report('b', 1);
  book.save();
  book.saved();
  report('a', null);
  report('b', 2);
  isFull = true;
  database.exec('BEGIN');
  expect(() => book.save()).toThrow('full');
  database.exec('ROLLBACK');
  expect(written()).toHaveLength(2);
  isFull = false;
  book.save();
  expect(written()).toEqual([{ token_name: 'b', limits: '{"running":2}' }]);
});
