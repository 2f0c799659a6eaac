import { resumed } from '../../engine/client/resumed.ts';
import { type EngineAnswer, readPieces } from '../../engine/client/types.ts';
import {
  EventTexts,
  eventData,
  fieldsOf,
  isEventStream,
  isFinish,
  jsonOrText,
  readEvent,
} from '../../protocol/index.ts';

/**
 * Resolves to the answer; if it is a stream, once its first token has come, with everything that came before. Resolves
 * to null if the answer failed before anything of it was passed on. An engine reports a cache that it could not read by
 * a status, or by an error among the events, behind a status of 200 and the role.
 * @throws what the engine client throws for a stream that breaks off before its first token
 */
export async function withFirstToken(answer: EngineAnswer): Promise<EngineAnswer | null> {
  if (answer.status >= 400) {
    await readPieces(answer.body, () => false);
    return null;
  }
  if (!isEventStream(answer.headers)) return answer;
  const pieces = answer.body[Symbol.asyncIterator]();
  const held: Uint8Array[] = [];
  const reader = new EventTexts();
  for (;;) {
    const { done, value } = await pieces.next();
    if (done) return null;
    held.push(value);
    const seen = beginningIn(reader.push(value));
    if (seen === 'nothing') continue;
    if (seen === 'token') return { ...answer, body: resumed(held, pieces) };
    await pieces.return?.();
    return null;
  }
}

function beginningIn(events: readonly string[]): 'nothing' | 'token' | 'failure' {
  for (const event of events) {
    const { failed, isGivenUp } = readEvent(event, 'openai');
    if (failed !== null || isGivenUp) return 'failure';
    const data = eventData(event);
    // A comment has no data.
    if (data === '') continue;
    const { choices } = fieldsOf(jsonOrText(data));
    const { delta, finish_reason } = fieldsOf(Array.isArray(choices) ? choices[0] : null);
    // The role comes before the first token.
    const isOpening =
      fieldsOf(delta).role !== undefined && !fieldsOf(delta).content && !isFinish(finish_reason);
    if (!isOpening) return 'token';
  }
  return 'nothing';
}
