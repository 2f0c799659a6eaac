import { isRestart } from '../../../src/asking/once-more.ts';

/** How a call of a probe comes back over HTTP. */
export type ProbeAnswer = { value: unknown } | { error: string; mayBeAskedAgain: boolean };

export async function answerOf(call: () => Promise<unknown>): Promise<ProbeAnswer> {
  try {
    return { value: (await call()) ?? null };
  } catch (error) {
    return { error: (error as Error).message, mayBeAskedAgain: isRestart(error) };
  }
}
