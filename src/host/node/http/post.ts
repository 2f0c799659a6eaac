import type { lookup as systemLookup } from 'node:dns';
import { getCACertificates } from 'node:tls';
import { Agent, fetch } from 'undici';
import type { Post } from '../../../durable/host.ts';
import { reasonOf } from '../../../process/http.ts';
import { publicAgent } from '../../../process/public-addresses.ts';

/** The advice in the error for a webhook or a hook at a private address. */
const REMEDY =
  'list it as private:HOST in QUEUE_WEBHOOK_HOSTS to allow it, or write "private:" before the address of a hook';

/**
 * Makes the function that posts directly, past any proxy, to public addresses alone or to private ones too. An address
 * is judged at the connect, whatever its name resolved to before.
 */
export function createPost(lookup?: typeof systemLookup): Post {
  const tls = { ca: trustedCertificates() };
  const agents = { public: publicAgent(REMEDY, lookup, tls), private: new Agent({ connect: tls }) };
  return (reach) => async (url, init) => {
    try {
      // undici's types and those of the platform differ in names only.
      const given = { ...init, dispatcher: agents[reach] } as Parameters<typeof fetch>[1];
      return (await fetch(url, given)) as unknown as Response;
    } catch (error) {
      if ((error as Error).name === 'TimeoutError') throw error;
      throw new Error(reasonOf(error), { cause: error });
    }
  };
}

/** Returns the authorities that the queue trusts: Node's, the machine's, and those of `NODE_EXTRA_CA_CERTS`. */
function trustedCertificates(): string[] {
  return [...new Set([...getCACertificates('default'), ...getCACertificates('system')])];
}
