const SECRET_VARIABLE = /(?:[_-]|^)(?:KEY|TOKEN|SECRET|PASSWORD)$/i;
/** Lists of tokens, and command lines, which may hold a key. */
const HOLDS_SECRETS = /^QUEUE_TOKENS$|_(?:ARGS|COMMAND)$/;
/** Shorter values are no secrets, and replacing them would garble unrelated text. */
const SHORTEST_SECRET = 4;

/** Replaces a secret. */
export const MASK = '(secret)';

/** Whether no message may show the value of a variable of this name. */
export function mayHoldSecret(name: string): boolean {
  return SECRET_VARIABLE.test(name) || HOLDS_SECRETS.test(name);
}

/** Hides the values of variables with secret names, such as HF_TOKEN, anywhere in a text. */
export function secretHider(env: NodeJS.ProcessEnv): (text: string) => string {
  // A file that holds a secret may end in a line break, which is no part of the secret.
  const secrets = Object.entries(env)
    .filter(([name]) => SECRET_VARIABLE.test(name))
    .map(([, value]) => value?.trim() ?? '')
    .filter((value) => value.length >= SHORTEST_SECRET)
    // The longest first: nothing of it is left where another one is its beginning.
    .sort((a, b) => b.length - a.length);
  return (text) => secrets.reduce((shown, secret) => shown.replaceAll(secret, MASK), text);
}
