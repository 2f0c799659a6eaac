import { MASK, secretHider } from '../../process/secrets.ts';
import type { Argument } from './flag-arguments.ts';

const SECRET_FLAG = /(?:^|-)(?:key|keys|token|secret|password)$/;

/** Returns the words of an argument as they may be shown. */
export function masked({ words, flag }: Argument, env: NodeJS.ProcessEnv): string[] {
  if (flag === null || !SECRET_FLAG.test(flag)) return words.map(secretHider(env));
  const [first = '', ...values] = words;
  return [first.replace(/=.*/s, `=${MASK}`), ...values.map(() => MASK)];
}
