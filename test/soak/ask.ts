import { setTimeout as sleep } from 'node:timers/promises';

const ANSWER_WITHIN_MS = 5000;
const PAUSE_MS = 200;

/** Asks until there is a good answer, whatever is killed meanwhile. @param onRepeat before each further try */
export async function askUntilAnswered<T>(
  url: string,
  init: RequestInit = {},
  onRepeat = () => {},
): Promise<T> {
  for (;;) {
    const answer = await fetch(url, { ...init, signal: AbortSignal.timeout(ANSWER_WITHIN_MS) }).then(
      async (response) => (response.ok ? ((await response.json()) as T) : null),
      () => null,
    );
    if (answer !== null) return answer;
    onRepeat();
    await sleep(PAUSE_MS);
  }
}
