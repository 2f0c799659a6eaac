const SECRET_VARIABLE = /(?:[_-]|^(?:PG)?)(?:KEY|TOKEN|SECRET|PASSWORD)$/i;
/**
 * Matches names of variables that hold lists of tokens, of headers or of receivers of alerts, an address with a password, or command lines,
 * which may hold a key.
 */
const HOLDS_SECRETS = /^QUEUE_(?:TOKENS|JOURNAL|ALERTS)$|_(?:ARGS|COMMAND|HEADERS)$/;
/** Matches a flag of a command line whose values are secrets, such as `--api-key`, together with these values. */
const SECRET_ARGUMENTS = /--?[\w-]*(?:key|token|secret|password)(?:=|\s+)((?:(?!-)\S+\s*)+)/gi;
/** Matches the fields of receivers of alerts that hold secrets, as JSON. */
const SECRET_FIELDS = /"(?:url|server|routing_key|authorization|secret)"\s*:\s*"((?:[^"\\]|\\.)*)"/g;
/** Shorter values are no secrets, and replacing them would garble unrelated text. */
const SHORTEST_SECRET = 4;

/** The text that replaces a secret. */
export const MASK = '(secret)';

/** Returns whether messages must hide the value of a variable of this name. */
export function mayHoldSecret(name: string): boolean {
  return SECRET_VARIABLE.test(name) || HOLDS_SECRETS.test(name);
}

/**
 * Returns a function that hides the secrets of the environment anywhere in a text: the values of variables with secret
 * names, such as HF_TOKEN, and secrets inside the values of others.
 */
export function secretHider(env: NodeJS.ProcessEnv): (text: string) => string {
  const secrets = Object.entries(env)
    .flatMap(([name, value = '']) => secretsIn(name, value))
    .filter((value) => value.length >= SHORTEST_SECRET)
    // The longest secret is replaced first, so that no part of it stays if another secret is its beginning.
    .sort((a, b) => b.length - a.length);
  return (text) => secrets.reduce((shown, secret) => shown.replaceAll(secret, MASK), text);
}

function secretsIn(name: string, value: string): string[] {
  // A file that holds a secret may end in a line break, which does not belong to the secret.
  if (SECRET_VARIABLE.test(name)) return [value.trim()];
  if (!HOLDS_SECRETS.test(name)) return [];
  if (name.endsWith('_HEADERS')) return listed(value).map((pair) => pair.replace(/^[^=]*=/, ''));
  if (name === 'QUEUE_TOKENS') return listed(value).map((entry) => entry.slice(entry.lastIndexOf(':') + 1));
  if (name === 'QUEUE_JOURNAL') return passwordIn(value);
  if (name === 'QUEUE_ALERTS') return [...value.matchAll(SECRET_FIELDS)].map(([, secret = '']) => secret);
  return [...value.matchAll(SECRET_ARGUMENTS)].flatMap(([, words = '']) =>
    words.split(/\s+/).map((word) => word.replaceAll(/["']/g, '')),
  );
}

/** Returns the password of an address, as it stands there and as it is meant. */
function passwordIn(address: string): string[] {
  const [, password = ''] = /:\/\/[^/@]*?:([^/]*)@/.exec(address) ?? [];
  const [, parameter = ''] = /[?&]password=([^&]*)/.exec(address) ?? [];
  return [password, parameter].flatMap((text) => [text, decoded(text)]);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function listed(text: string): string[] {
  return text.split(',').map((part) => part.trim());
}
