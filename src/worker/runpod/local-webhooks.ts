import { writeJson } from '../../protocol/index.ts';
import { addressOf } from '../files/file-access.ts';
import { privateAddressIn } from '../files/public-fetch.ts';
import type { Ports } from '../ports.ts';

/** A receiver may take this many ms to answer. */
const WITHIN_MS = 10_000;

/** The receiver to which the outcome of a job is posted. */
export interface Webhook {
  url: URL;
  authorization: string | undefined;
  mustBePublic: boolean;
}

/**
 * Returns the webhook that a caller of the local API names, as far as its address tells.
 * @param hosts the only hosts allowed, whatever their addresses; null: any public one over https
 * @returns a text: the fault of the address
 */
export function webhookOf(text: string, hosts: readonly string[] | null): Webhook | string {
  if (!URL.canParse(text)) return 'its address is not a URL';
  // The local API has no queue, so no host is the queue's own.
  const access = { base: 'https://queue.invalid/', ownOrigins: new Set<string>(), token: undefined, hosts };
  const address = addressOf(text, access);
  if (!address.ok) return address.problem;
  const { url, authorization, mustBePublic } = address;
  const problem = mustBePublic ? privateAddressIn(url.hostname) : null;
  if (problem) return problem.message;
  return { url, authorization, mustBePublic };
}

/** Posts an outcome once. A name that leads to an inside address is refused when it is connected to. Never rejects. */
export async function postOutcome(
  { url, authorization, mustBePublic }: Webhook,
  outcome: object,
  { fetch, fetchPublic, log }: Pick<Ports, 'fetch' | 'fetchPublic' | 'log'>,
): Promise<void> {
  try {
    const response = await (mustBePublic ? fetchPublic : fetch)(url.href, {
      method: 'POST',
      redirect: 'manual',
      headers: { 'content-type': 'application/json', ...(authorization && { authorization }) },
      body: writeJson(outcome),
      signal: AbortSignal.timeout(WITHIN_MS),
    });
    await response.body?.cancel();
  } catch (error) {
    const { message, cause } = error as Error;
    const problem = (cause as Partial<Error> | undefined)?.message ?? message;
    log.warn({ host: url.host, problem }, 'a webhook was not taken');
  }
}
