const SECRET_VARIABLE = /(?:_|^)(?:KEY|TOKEN|SECRET|PASSWORD)$/;
/** Shorter values are no secrets, and would be hidden in places that mean nothing. */
const SHORTEST_SECRET = 4;

/** What stands in a secret's place. */
export const MASK = '(secret)';

/** Hides the values of variables whose names say that they are secret, such as HF_TOKEN, wherever they stand. */
export function secretHider(env: NodeJS.ProcessEnv): (text: string) => string {
  const secrets = Object.entries(env)
    .filter(([name, value]) => SECRET_VARIABLE.test(name) && (value?.length ?? 0) >= SHORTEST_SECRET)
    .map(([, value]) => value!);
  return (text) => secrets.reduce((shown, secret) => shown.replaceAll(secret, MASK), text);
}
