import type { ClientOptions, JobClient, QueueError } from './client.ts';

/**
 * Opens the socket. Node's WebSocket takes headers, as browsers' do not: there, only a queue without tokens can be
 * used.
 */
export function dial({ url, token, queueId }: ClientOptions): WebSocket {
  const address = new URL(`${url.replace(/\/+$/, '')}/api/jobs/socket`);
  address.protocol = address.protocol.replace('http', 'ws');
  if (queueId) address.searchParams.set('queue_id', queueId);
  if (!token) return new WebSocket(address);
  const options = { headers: { authorization: `Bearer ${token}` } };
  return new WebSocket(address, options as unknown as string[]);
}

/**
 * Asks by HTTP why a WebSocket was denied, which a socket does not say.
 * @returns the error that dialling again cannot mend, or null if it may
 */
export async function whyDenied(client: JobClient): Promise<QueueError | null> {
  try {
    await client.get('-');
  } catch (error) {
    const { status } = error as QueueError;
    if (status === 401 || status === 403) return error as QueueError;
  }
  return null;
}
