import type { IncomingMessage } from 'node:http';
import { EXIT, UserError } from '../../../process/exit-codes.ts';
import { explanationOf } from './explanation.ts';

/** Returns the error for an owner that does not take the link. */
export async function refusal(url: string, response: IncomingMessage): Promise<Error> {
  const { statusCode = 0 } = response;
  const { code, message } = await explanationOf(response);
  const said = `the queue at ${url} refuses this gateway process: ${message || `HTTP ${statusCode}`}`;
  if (statusCode === 401 || statusCode === 403) {
    const advice = 'Give it a token of "npx worker-vllm token create --scope gateway" as GATEWAY_TOKEN.';
    return new UserError(`${said} ${advice}`, EXIT.deniedByQueue);
  }
  if (code === 'link_version') return new UserError(said);
  if (statusCode === 404) {
    return new UserError(`${url} takes no gateway processes: it is one itself, or runs an older version.`);
  }
  return new Error(said);
}
