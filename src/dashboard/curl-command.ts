/** The longest argument that a command gets: Linux takes 128 KiB. */
const MOST_ARGUMENT_CHARACTERS = 40_000;

/**
 * Returns a command to be pasted into a shell.
 * @param asksForToken whether the queue asks for a token, which the command takes from the environment
 * @param body the body of a POST; left out for a GET
 */
export function curlCommand(url: string, asksForToken: boolean, body?: unknown): string {
  const lines = [`curl ${quoted(url)}`];
  if (asksForToken) lines.push(`-H "Authorization: Bearer $TOKEN"`);
  if (body === undefined) return lines.join(' \\\n  ');
  const text = JSON.stringify(body, null, 2);
  lines.push(`-H 'Content-Type: application/json'`);
  if (text.length <= MOST_ARGUMENT_CHARACTERS) return [...lines, `-d ${quoted(text)}`].join(' \\\n  ');
  // No line of JSON is the word END.
  return `${[...lines, `-d @- <<'END'`].join(' \\\n  ')}\n${text}\nEND`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
