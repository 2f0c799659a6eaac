import type { AnswerRecord } from '../protocol/index.ts';

/** A record that the relay sends back to the worker. */
export type Reply = Extract<AnswerRecord, { type: 'pause' | 'resume' | 'taken' | 'cancel' }>;

/** Returns the reply that makes the worker give up a stream which is over at the relay. */
export function stop(id: number, state: 'cancelled' | 'broken'): Reply {
  return { type: 'cancel', stream: id, reason: state === 'cancelled' ? 'caller_gone' : 'superseded' };
}
