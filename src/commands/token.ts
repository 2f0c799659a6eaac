import { randomBytes } from 'node:crypto';
import { UserError } from '../process/index.ts';
import type { Scope } from '../settings/scopes.ts';
import { TokenEntry } from '../settings/token-entry.ts';
import { makeToken, storeToken } from '../workerd/tokens.ts';

export interface TokenOptions {
  scope: Scope[];
  name?: string;
  /** Id of the only worker that may use it, or a pattern of ids: `runpod-*`. */
  workerId?: string;
  /** Text of a whole number. */
  highestPriority?: string;
  state: string;
}

/**
 * `worker-vllm token`: the token alone on stdout, so that a script can take it; the rest on stderr.
 * @throws UserError for a worker id without the scope worker, or one that cannot be, and for no priority
 */
export async function runToken(options: TokenOptions): Promise<number> {
  const { scope, workerId, highestPriority } = options;
  if (workerId !== undefined) checkWorkerId(workerId, scope);
  const name = options.name ?? `${scope.join('-')}-${randomBytes(3).toString('hex')}`;
  const { token, entry } = makeToken(name, scope, {
    ...(workerId !== undefined && { worker_id: workerId }),
    ...(highestPriority !== undefined && { highest_priority: priorityOf(highestPriority) }),
  });
  await storeToken(options.state, entry);
  process.stdout.write(`${token}\n`);
  const where = workerId === undefined ? '' : ` as the worker ${workerId}`;
  process.stderr.write(
    `The token "${name}" has the scope ${scope.join(', ')}${where}. It is shown only this once: ${options.state}/tokens.json ` +
      'keeps its SHA-256. A queue that runs on this folder knows it in a moment, unless it was started without any token.\n',
  );
  return 0;
}

function checkWorkerId(workerId: string, scope: Scope[]): void {
  if (!scope.includes('worker')) {
    throw new UserError('--worker-id says which worker may use the token, so it needs --scope worker.');
  }
  if (!TokenEntry.shape.worker_id.safeParse(workerId).success) {
    throw new UserError(
      `--worker-id "${workerId}" cannot be: expected the id of a worker without blanks, with * for any characters, such as 'runpod-*'.`,
    );
  }
}

function priorityOf(text: string): number {
  const priority = text.trim() === '' ? Number.NaN : Number(text);
  if (TokenEntry.shape.highest_priority.safeParse(priority).success) return priority;
  throw new UserError(`--highest-priority "${text}": expected a whole number from 0 to 1000.`);
}
