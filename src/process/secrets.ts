const SECRET_VARIABLE = /(?:_|^)(?:KEY|TOKEN|SECRET|PASSWORD)$/;
/** Shorter values are no secrets, and replacing them would garble unrelated text. */
const SHORTEST_SECRET = 4;

/** Replaces a secret. */
export const MASK = '(secret)';

/** Hides the values of variables with secret names, such as HF_TOKEN, anywhere in a text. */
export function secretHider(env: NodeJS.ProcessEnv): (text: string) => string {
  const secrets = Object.entries(env)
    .filter(([name, value]) => SECRET_VARIABLE.test(name) && (value?.length ?? 0) >= SHORTEST_SECRET)
    .map(([, value]) => value!);
  return (text) => secrets.reduce((shown, secret) => shown.replaceAll(secret, MASK), text);
}
