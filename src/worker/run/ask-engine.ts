import type { EngineAnswer, EngineCall } from '../../engine/client/types.ts';
import { engineAnswer, jsonOrText } from '../../protocol/index.ts';
import { finalFailure } from '../failure.ts';
import { readWhole } from '../files/transfer.ts';
import type { Attempt } from './attempt.ts';
import { answerTooLarge, failureOfEngine } from './engine-failures.ts';
import { usageOf } from './tokens.ts';
import { checkWhole } from './whole-answer.ts';

type Posted = Pick<EngineCall, 'body' | 'contentType'>;

/** A body that the engine gave with a status under 400. */
export interface EngineBody {
  bytes: Buffer;
  headers: EngineAnswer['headers'];
}

/**
 * Posts to a route of the engine and reads its whole answer.
 * @throws JobFailure for an error of the engine, also under a status of success, and for a redirect, which the worker
 * does not follow
 */
export async function askEngine(attempt: Attempt, path: string, body: Posted): Promise<EngineBody> {
  const answer = await post(attempt, path, body);
  await checkWhole(attempt, path, answer.headers, answer.bytes);
  return answer;
}

/**
 * Posts JSON to a route of the engine and reads its whole answer as JSON.
 * @throws JobFailure as `askEngine`, and also where the answer is not finished
 */
export async function askEngineJson(attempt: Attempt, path: string, body: string): Promise<unknown> {
  const { bytes, headers } = await post(attempt, path, { body });
  const answer = engineAnswer(bytes.toString());
  attempt.used(usageOf(answer));
  await checkWhole(attempt, path, headers, bytes);
  return answer;
}

async function post(attempt: Attempt, path: string, body: Posted): Promise<EngineBody> {
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
  return { bytes, headers: answer.headers };
}
