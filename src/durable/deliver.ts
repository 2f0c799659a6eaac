/** A receiver has this long to answer, ms. */
const ANSWER_WITHIN_MS = 10_000;

/** The status that a receiver answered, or why it did not. */
export type Delivery = { status: number } | { problem: string };

/** Posts JSON to somebody else's address, once; follows no redirect. Never rejects. */
export async function deliver(
  send: (url: string, init: RequestInit) => Promise<Response>,
  url: string,
  body: string,
  headers: Record<string, string> = {},
): Promise<Delivery> {
  try {
    const response = await send(url, {
      method: 'POST',
      redirect: 'manual',
      headers: { 'content-type': 'application/json', 'user-agent': 'worker-vllm', ...headers },
      body,
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    });
    await response.body?.cancel();
    return { status: response.status };
  } catch (error) {
    const { name, message } = error as Error;
    return { problem: name === 'TimeoutError' ? `no answer within ${ANSWER_WITHIN_MS / 1000} s` : message };
  }
}

/** Says whether a status means that the receiver has accepted the post. */
export function isTaken(status: number): boolean {
  return status >= 200 && status < 300;
}
