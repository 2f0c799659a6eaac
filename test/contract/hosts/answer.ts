import { isRestart } from '../../../src/asking/once-more.ts';

/** The answer to a call of a probe, as it comes back over HTTP. */
export type ProbeAnswer = { value: unknown } | { error: string; mayBeAskedAgain: boolean };

export async function answerOf(call: () => Promise<unknown>): Promise<ProbeAnswer> {
  try {
    return { value: (await call()) ?? null };
  } catch (error) {
    return { error: (error as Error).message, mayBeAskedAgain: isRestart(error) };
  }
}
