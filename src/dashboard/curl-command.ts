/** A longer one is no argument to a program: Linux takes 128 KiB. */
const MOST_ARGUMENT_CHARACTERS = 40_000;

/**
 * A command to be pasted into a shell.
 * @param asksForToken whether the queue asks for one: it is taken from the environment
 * @param body of a POST; left out: a GET
 */
export function curlCommand(url: string, asksForToken: boolean, body?: unknown): string {
  const lines = [`curl ${quoted(url)}`];
  if (asksForToken) lines.push(`-H "Authorization: Bearer $TOKEN"`);
  if (body === undefined) return lines.join(' \\\n  ');
  const text = JSON.stringify(body, null, 2);
  lines.push(`-H 'Content-Type: application/json'`);
  if (text.length <= MOST_ARGUMENT_CHARACTERS) return [...lines, `-d ${quoted(text)}`].join(' \\\n  ');
  // No line of JSON is that word.
  return `${[...lines, `-d @- <<'END'`].join(' \\\n  ')}\n${text}\nEND`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
