import { randomBytes } from 'node:crypto';
import type { Scope } from '../gateway/auth.ts';
import { makeToken, storeToken } from '../workerd/tokens.ts';

export interface TokenOptions {
  scope: Scope[];
  name?: string;
  state: string;
}

/** `worker-vllm token`: the token alone on stdout, so that a script can take it; the rest on stderr. */
export async function runToken(options: TokenOptions): Promise<number> {
  const name = options.name ?? `${options.scope.join('-')}-${randomBytes(3).toString('hex')}`;
  const { token, entry } = makeToken(name, options.scope);
  await storeToken(options.state, entry);
  process.stdout.write(`${token}\n`);
  process.stderr.write(
    `Token "${name}" may ${options.scope.join(', ')}. It is shown only now: ${options.state}/tokens.json keeps its ` +
      'SHA-256. A queue that runs already learns of it when it is started again.\n',
  );
  return 0;
}
