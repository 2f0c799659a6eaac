import { at } from './router.ts';
import { session } from './session.ts';

/**
 * A command that asks what the page asked, to be pasted into a shell.
 * @param path without a slash first
 * @param body of a POST; left out: a GET
 */
export function curlOf(path: string, body?: unknown): string {
  const lines = [`curl ${quoted(at(path))}`];
  if (session.value?.asks_for_token) lines.push(`-H "Authorization: Bearer $TOKEN"`);
  if (body !== undefined) {
    lines.push(`-H 'Content-Type: application/json'`, `-d ${quoted(JSON.stringify(body, null, 2))}`);
  }
  return lines.join(' \\\n  ');
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
