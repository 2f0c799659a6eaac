import { Agent, request } from 'undici';

/** Requests that are sent directly, or stand in a file as the lines of a batch. */

const PATH = '/v1/chat/completions';

let questions = 0;

/** Bodies of chat completions. @param characters of each prompt, which no other has: no cache of the engine knows it */
export function bodiesOf(count: number, tokens: number, characters: number): string[] {
  return Array.from({ length: count }, () => {
    const content = `Question ${++questions}. `.padEnd(characters, 'Consider it well. ');
    return JSON.stringify({
      ...{ model: 'tiny', messages: [{ role: 'user', content }] },
      ...{ max_tokens: tokens, temperature: 0, ignore_eos: true },
    });
  });
}

/** Asks for all of them, so many at a time. @returns requests/s */
export async function sendDirectly(
  url: string,
  bodies: readonly string[],
  concurrency: number,
): Promise<number> {
  const agent = new Agent({ connections: concurrency, pipelining: 1, headersTimeout: 0, bodyTimeout: 0 });
  const left = bodies.values();
  const caller = async () => {
    for (const body of left) {
      const headers = { 'content-type': 'application/json' };
      const answer = await request(url + PATH, { method: 'POST', headers, body, dispatcher: agent });
      const text = await answer.body.text();
      if (answer.statusCode !== 200) throw new Error(`${url} answered ${answer.statusCode}: ${text}`);
    }
  };
  const began = performance.now();
  await Promise.all(Array.from({ length: concurrency }, caller));
  const seconds = (performance.now() - began) / 1000;
  await agent.close();
  return bodies.length / seconds;
}

/** A batch of them as it stands. */
export interface BatchNow {
  id: string;
  status: string;
  output_file_id: string | null;
  request_counts: { total: number; completed: number; failed: number };
}

/** Uploads them as lines and begins their batch. */
export async function createBatch(url: string, bodies: readonly string[]): Promise<BatchNow> {
  const lines = bodies.map(
    (body, n) => `{"custom_id":"line-${n}","method":"POST","url":"${PATH}","body":${body}}\n`,
  );
  const uploaded = await ask<{ id: string }>(`${url}/v1/files?purpose=batch&filename=bench.jsonl`, {
    method: 'POST',
    headers: { 'content-type': 'application/jsonl' },
    body: new Blob(lines).stream(),
    duplex: 'half',
  } as RequestInit);
  const body = JSON.stringify({ input_file_id: uploaded.id, endpoint: PATH, completion_window: '24h' });
  return await ask<BatchNow>(`${url}/v1/batches`, { method: 'POST', body });
}

export function batchNow(url: string, id: string): Promise<BatchNow> {
  return ask<BatchNow>(`${url}/v1/batches/${id}`);
}

export async function cancelBatch(url: string, id: string): Promise<void> {
  await ask(`${url}/v1/batches/${id}/cancel`, { method: 'POST' });
}

/** Reads a file and forgets it. */
export async function download(url: string, fileId: string | null): Promise<void> {
  const response = await fetch(`${url}/v1/files/${fileId}/content`);
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${await response.text()}`);
  for await (const _ of response.body ?? []);
}

async function ask<T>(url: string, init: RequestInit = {}): Promise<T> {
  const response = await fetch(url, init);
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${await response.text()}`);
  return (await response.json()) as T;
}
