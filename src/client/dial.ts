import type { ClientOptions, JobClient, QueueError } from './client.ts';

/** Node's WebSocket takes headers, as browsers' do not: there, a queue without tokens can be used. */
export function dial({ url, token, queueId }: ClientOptions): WebSocket {
  const address = new URL(`${url.replace(/\/+$/, '')}/api/jobs/socket`);
  address.protocol = address.protocol.replace('http', 'ws');
  if (queueId) address.searchParams.set('queue_id', queueId);
  if (!token) return new WebSocket(address);
  const options = { headers: { authorization: `Bearer ${token}` } };
  return new WebSocket(address, options as unknown as string[]);
}

/**
 * A WebSocket does not say why it was denied; the same question by HTTP does.
 * @returns what dialling again cannot mend; null: try again
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
