import type { Argument } from './flag-arguments.ts';

const SECRET_FLAG = /(?:^|-)(?:key|keys|token|secret|password)$/;
const SECRET_VARIABLE = /(?:_|^)(?:KEY|TOKEN|SECRET|PASSWORD)$/;
const MASK = '(secret)';
/** Shorter values are no secrets, and would be masked in places that mean nothing. */
const SHORTEST_SECRET = 4;

/** The words of an argument as they may be shown. */
export function masked({ words, flag }: Argument, env: NodeJS.ProcessEnv): string[] {
  const secrets = Object.entries(env)
    .filter(([name, value]) => SECRET_VARIABLE.test(name) && (value?.length ?? 0) >= SHORTEST_SECRET)
    .map(([, value]) => value!);
  const hide = (word: string) => secrets.reduce((shown, secret) => shown.replaceAll(secret, MASK), word);
  if (flag === null || !SECRET_FLAG.test(flag)) return words.map(hide);
  const [first = '', ...values] = words;
  return [first.replace(/=.*/s, `=${MASK}`), ...values.map(() => MASK)];
}
