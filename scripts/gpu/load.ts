import { setTimeout as sleep } from 'node:timers/promises';

/** A load of streamed chats, and what its callers saw. */

export const MODEL = 'worker-vllm/random';
/** For one answer. */
const ONE_MS = 60_000;

export interface Load {
  concurrency: number;
  requests: number;
  failed: number;
  /** Milliseconds. */
  firstTokenP50: number;
  firstTokenP99: number;
  tokensPerSecond: number;
}

/** One streamed chat. @returns when its first token came, ms, and how many came */
export async function ask(base: string, tokens: number): Promise<{ first: number; tokens: number }> {
  const asked = performance.now();
  const content = `Tell me a story about the number ${Math.floor(Math.random() * 1e6)}.`;
  const response = await fetch(`${base}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: MODEL,
      messages: [{ role: 'user', content }],
      max_tokens: tokens,
      stream: true,
    }),
    signal: AbortSignal.timeout(ONE_MS),
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  let first = 0;
  let count = 0;
  for await (const bytes of response.body!) {
    const pieces = Buffer.from(bytes).toString('latin1').split('"content":"').length - 1;
    if (pieces > 0 && first === 0) first = performance.now() - asked;
    count += pieces;
  }
  return { first, tokens: count };
}

/** Callers that ask again as soon as they are answered. */
export async function load(
  base: string,
  { tokens: most, concurrency, seconds }: { tokens: number; concurrency: number; seconds: number },
): Promise<Load> {
  const firsts: number[] = [];
  let tokens = 0;
  let failed = 0;
  const start = performance.now();
  const deadline = start + seconds * 1000;
  const caller = async () => {
    while (performance.now() < deadline) {
      try {
        const answer = await ask(base, most);
        firsts.push(answer.first);
        tokens += answer.tokens;
      } catch (error) {
        failed += 1;
        console.error(String(error).slice(0, 300));
        await sleep(500);
      }
    }
  };
  await Promise.all(Array.from({ length: concurrency }, caller));
  const took = (performance.now() - start) / 1000;
  firsts.sort((a, b) => a - b);
  const at = (share: number) => firsts[Math.min(firsts.length - 1, Math.floor(firsts.length * share))] ?? 0;
  return {
    concurrency,
    requests: firsts.length,
    failed,
    firstTokenP50: at(0.5),
    firstTokenP99: at(0.99),
    tokensPerSecond: tokens / took,
  };
}
