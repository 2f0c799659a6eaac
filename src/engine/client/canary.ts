import { type EngineClient, readPieces } from './types.ts';

/**
 * An engine's answer to a request for one token:
 *
 * - `alive`: one token came
 * - `late`: no token came in time, or the engine failed or refused for its own reasons
 * - `unfit`: the engine refused the question itself, which says nothing (a model that only embeds)
 */
export type CanaryAnswer = 'alive' | 'late' | 'unfit';

const QUESTIONS = [
  { path: '/v1/completions', body: { prompt: 'Hello' } },
  { path: '/v1/chat/completions', body: { messages: [{ role: 'user', content: 'Hello' }] } },
];

/** Asks the engine for one token. Never throws. @param model the name to ask for; left out, the engine chooses */
export async function askCanary(
  engine: Pick<EngineClient, 'request'>,
  model: string | undefined,
  limitMs: number,
): Promise<CanaryAnswer> {
  const signal = AbortSignal.timeout(limitMs);
  try {
    for (const { path, body } of QUESTIONS) {
      const answer = await engine.request({
        method: 'POST',
        path,
        body: JSON.stringify({ model, ...body, max_tokens: 1, stream: false }),
        requestId: 'canary',
        signal,
      });
      await readPieces(answer.body, () => {});
      if (answer.status < 400) return 'alive';
      // An engine that is full while nothing moves is no better than one that says nothing.
      if (answer.status === 429 || answer.status >= 500) return 'late';
    }
    return 'unfit';
  } catch {
    return 'late';
  }
}
