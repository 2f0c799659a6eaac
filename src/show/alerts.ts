import type { AlertMute, AlertReceiverRow } from '../protocol/alerts.ts';
import { duration } from '../protocol/text.ts';

/** Returns of what a receiver is told, in a sentence. */
export function receiverRules(receiver: AlertReceiverRow): string {
  const { severity, pools, kinds, repeat_after_seconds, ends } = receiver;
  const what = severity === 'error' ? 'errors' : 'errors and warnings';
  const of = pools === null ? '' : ` of the pools ${pools.join(', ')}`;
  const kind = kinds === null ? '' : ` of the kinds ${kinds.join(', ')}`;
  const again =
    repeat_after_seconds === null
      ? ''
      : `, again after ${duration(repeat_after_seconds * 1000)} if nobody acknowledged`;
  return `It is told ${what}${of}${kind}${again}${ends ? ', and when they are over' : ''}.`;
}

/** Returns what a mute concerns: "everything", "the pool llama-8b", "worker_lost of the pool llama-8b". */
export function mutedText({ pool, kind }: Pick<AlertMute, 'pool' | 'kind'>): string {
  if (pool === null) return kind ?? 'everything';
  return kind === null ? `the pool ${pool}` : `${kind} of the pool ${pool}`;
}
