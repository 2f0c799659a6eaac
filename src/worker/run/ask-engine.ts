import type { EngineCall } from '../../engine/client/types.ts';
import { engineAnswer, jsonOrText, readWholeAnswer } from '../../protocol/index.ts';
import { finalFailure } from '../failure.ts';
import { readWhole } from '../files/transfer.ts';
import type { Attempt } from './attempt.ts';
import { answerTooLarge, failureInside, failureOfEngine, gaveUp } from './engine-failures.ts';
import { usageOf } from './tokens.ts';

/** A body that the engine gave with a status under 400. */
export interface EngineBody {
  bytes: Buffer;
  contentType: string;
}

/**
 * Posts to a route of the engine and reads its whole answer.
 * @throws JobFailure for an error of the engine, and for a redirect, which is not followed
 */
export async function askEngine(
  attempt: Attempt,
  path: string,
  body: Pick<EngineCall, 'body' | 'contentType'>,
): Promise<EngineBody> {
  attempt.requested();
  const answer = await attempt.engine.request({
    method: 'POST',
    path,
    ...body,
    requestId: attempt.jobId,
    signal: attempt.signal,
  });
  const bytes = await readWhole(answer.body, answerTooLarge);
  if (answer.status >= 400) throw await failureOfEngine(attempt, answer.status, jsonOrText(bytes.toString()));
  if (answer.status >= 300)
    throw finalFailure('engine_refused', `the engine redirects (HTTP ${answer.status})`);
  return { bytes, contentType: answer.headers['content-type'] ?? '' };
}

/** The same with JSON both ways. @throws JobFailure also where the answer is an error, or not finished */
export async function askEngineJson(attempt: Attempt, path: string, body: string): Promise<unknown> {
  const { bytes } = await askEngine(attempt, path, { body });
  const answer = engineAnswer(bytes.toString());
  attempt.used(usageOf(answer));
  const { failed, isGivenUp } = readWholeAnswer(path, answer);
  if (failed !== null) throw await failureInside(attempt, failed);
  if (isGivenUp) throw gaveUp();
  return answer;
}
