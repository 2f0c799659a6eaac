// @ts-check
// Plain JavaScript: the command asks at each start of a checkout, and Node's eraser of types would take 16 MB of a process
// that may run for months.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
/** Where the programs lie. */
export const FOLDER = join(ROOT, 'dist/programs');
/** Says of which sources the programs were made. */
export const FINGERPRINT = join(FOLDER, 'fingerprint');
/** All that a program is made of. */
const INPUTS = ['src', 'scripts/programs.ts', 'package-lock.json'];

/** Whether the programs are there, and of these sources. */
export function areFresh() {
  return existsSync(FINGERPRINT) && readFileSync(FINGERPRINT, 'utf8') === fingerprint();
}

/** Changes when a file is added, removed or written. */
export function fingerprint() {
  const hash = createHash('sha256');
  for (const input of INPUTS) addTo(hash, join(ROOT, input));
  return hash.digest('hex');
}

/**
 * @param {import('node:crypto').Hash} hash
 * @param {string} path
 */
function addTo(hash, path) {
  const found = statSync(path);
  if (found.isDirectory()) for (const name of readdirSync(path).sort()) addTo(hash, join(path, name));
  else hash.update(`${path} ${found.size} ${found.mtimeMs}\n`);
}
