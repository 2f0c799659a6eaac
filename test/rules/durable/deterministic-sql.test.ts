import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

/**
 * A follower of a journal carries the statements of its owner out again, and must come to the same rows. So no
 * statement that writes may use a clock, chance, or what the connection did before, nor rows whose choice depends on
 * SQLite's plan.
 */
const SRC = join(import.meta.dirname, '../../../src');

/** The texts of sources that begin as a statement does. */
const STATEMENT =
  /(["'`])(?=\s*(?:SELECT|INSERT|UPDATE|DELETE|REPLACE|WITH|CREATE|DROP|ALTER)\b)((?:(?!\1)[\s\S])*)\1/g;
const WRITES = /^\s*(?:INSERT|UPDATE|DELETE|REPLACE|WITH|CREATE|ALTER)\b/;
const BY_CHANCE =
  /\b(?:random|randomblob|changes|total_changes|last_insert_rowid|date|time|datetime|julianday|strftime|unixepoch|timediff|current_(?:date|time|timestamp))\b\s*\(|\bCURRENT_(?:DATE|TIME|TIMESTAMP)\b|'now'|\bOR (?:FAIL|ROLLBACK)\b/i;
/** These stand between an owner and a server, or read a clock and write nothing. */
const OTHERS = /^(?:dashboard|host\/cloudflare|host\/node\/journal)\//;

interface Found {
  file: string;
  text: string;
}

const statements: Found[] = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts') && !OTHERS.test(file))
  .flatMap((file) =>
    [...readFileSync(join(SRC, file), 'utf8').matchAll(STATEMENT)].map(([, , text]) => ({
      file,
      text: text!.replace(/\s+/g, ' '),
    })),
  );

/** Returns the parts of a statement that have a LIMIT and do not say in which order rows are taken. */
function unordered({ text }: Found): boolean {
  return [...text.matchAll(/\bLIMIT\b/g)].some(({ index }) => {
    const before = text.slice(text.lastIndexOf('SELECT', index), index);
    return !/\bORDER BY\b/.test(before);
  });
}

it('every statement that writes does the same again', () => {
  const writes = statements.filter(({ text }) => WRITES.test(text));
  expect(writes.length).toBeGreaterThan(150);
  expect(writes.filter(({ text }) => BY_CHANCE.test(text))).toEqual([]);
  expect(writes.filter(unordered)).toEqual([]);
});

it('the search finds what it is for', () => {
  const bad = [
    'INSERT INTO t VALUES (random())',
    "UPDATE t SET at = unixepoch('now')",
    'CREATE TABLE t (at TEXT DEFAULT CURRENT_TIMESTAMP)',
    'DELETE FROM t WHERE n IN (SELECT n FROM t LIMIT 5)',
    'INSERT OR FAIL INTO t SELECT n FROM u',
  ];
  for (const text of bad) {
    const found = { file: '', text };
    expect([text, WRITES.test(text) && (BY_CHANCE.test(text) || unordered(found))]).toEqual([text, true]);
  }
});
