import type { AnswerRecord } from '../protocol/index.ts';

/** Records the relay sends back to the worker. */
export type Reply = Extract<AnswerRecord, { type: 'pause' | 'resume' | 'taken' | 'cancel' }>;

/** What makes the worker give up a stream that is over here. */
export function stop(id: number, state: 'cancelled' | 'broken'): Reply {
  return { type: 'cancel', stream: id, reason: state === 'cancelled' ? 'caller_gone' : 'superseded' };
}
