import type { AlertMute, AlertReceiverRow } from '../protocol/alerts.ts';
import { duration } from '../protocol/text.ts';
import { inWords } from './format.ts';

/** Returns of what a receiver is told, in a sentence. */
export function receiverRules(receiver: AlertReceiverRow): string {
  const { severity, pools, kinds, repeat_after_seconds, ends } = receiver;
  const what = severity === 'error' ? 'errors' : 'errors and warnings';
  const of = pools === null ? '' : ` of the pools ${pools.join(', ')}`;
  const kind = kinds === null ? '' : `, if they are of the kinds ${kinds.map(inWords).join(', ')}`;
  const again =
    repeat_after_seconds === null
      ? ''
      : `, again after ${wholeDuration(repeat_after_seconds)} unless somebody acknowledges them`;
  return `It is told of ${what}${of}${kind}${again}${ends ? ', and when they are over' : ''}.`;
}

/** Returns a duration without a part that is nothing: `4 h`, not `4 h 00 min`. */
function wholeDuration(seconds: number): string {
  return duration(seconds * 1000).replace(/ 0+ [a-z]+$/, '');
}

/** Returns what a mute concerns: "everything", "the pool llama-8b", "worker lost of the pool llama-8b". */
export function mutedText({ pool, kind }: Pick<AlertMute, 'pool' | 'kind'>): string {
  if (pool === null) return kind === null ? 'everything' : inWords(kind);
  return kind === null ? `the pool ${pool}` : `${inWords(kind)} of the pool ${pool}`;
}
