import * as z from 'zod';
import { Duration } from './duration.ts';
import { ALERT_KINDS } from './problem-kinds.ts';

/** This file has what `/api/alerts` takes and shows: receivers of alerts, and mutes. Times are epoch ms. */

/** The forms in which receivers take alerts. */
const RECEIVER_KINDS = ['slack', 'pagerduty', 'alertmanager', 'webhook', 'email'] as const;
export type ReceiverKind = (typeof RECEIVER_KINDS)[number];

/** The longest mute: one that is forgotten must end. */
const LONGEST_MUTE_SECONDS = 30 * 86_400;

/** A receiver of alerts as `GET /api/alerts` shows it: no address beyond its host, no key. */
export const AlertReceiverRow = z.object({
  name: z.string(),
  kind: z.enum(RECEIVER_KINDS),
  /** The host to which it is sent; for e-mail the recipients. */
  to: z.string(),
  /** The least severity that the receiver is told of. */
  severity: z.enum(['warning', 'error']),
  /** The only pools of which it is told, `*` for any characters; null: all, and what concerns no pool. */
  pools: z.array(z.string()).nullable(),
  /** The only kinds of problems of which it is told; null: all. */
  kinds: z.array(z.string()).nullable(),
  /** The receiver is told again of a problem that stands for so long unacknowledged; null: it is not. */
  repeat_after_seconds: z.number().nullable(),
  /** Whether it is told when a problem is over. */
  ends: z.boolean(),
  /** `idle`: nothing was sent to it yet; `failing`: it did not take the newest post; `refused`: this host cannot send to it. */
  state: z.enum(['idle', 'ok', 'failing', 'refused']),
  /** The state in one sentence. */
  text: z.string(),
  last_success_at: z.number().nullable(),
  last_failure_at: z.number().nullable(),
  /** When it is next tried; null: it is not failing. */
  retry_at: z.number().nullable(),
  /** The problems that it was told of and whose end it was not told of. */
  standing: z.number().int(),
});
export type AlertReceiverRow = z.infer<typeof AlertReceiverRow>;

/** A rule by which nothing is posted of some problems until a time. */
export const AlertMute = z.object({
  id: z.string(),
  /** The pool whose problems it concerns, `*` for any characters; null: all, and what concerns no pool. */
  pool: z.string().nullable(),
  /** The kind of problems that it concerns; null: all. */
  kind: z.enum(ALERT_KINDS).nullable(),
  until: z.number(),
  /** The reason; null: none was given. */
  why: z.string().nullable(),
  /** The name of the token; null: none was required. */
  by: z.string().nullable(),
  made_at: z.number(),
});
export type AlertMute = z.infer<typeof AlertMute>;

/** Body of `POST /api/alerts/mutes`: nothing is posted of what all given fields concern. */
export const MuteRequest = z.strictObject({
  pool: z.string().min(1).max(256).optional(),
  kind: z.enum(ALERT_KINDS).optional(),
  /** How long it lasts: seconds, or `30m`, `2h`, `1d`. */
  for: Duration.refine(
    (seconds) => seconds >= 1 && seconds <= LONGEST_MUTE_SECONDS,
    'expected a duration from 1s to 30d',
  ),
  why: z.string().max(500).optional(),
});
export type MuteRequest = z.infer<typeof MuteRequest>;

/** The answer of `GET /api/alerts`. */
export const AlertsView = z.object({ receivers: z.array(AlertReceiverRow), mutes: z.array(AlertMute) });
export type AlertsView = z.infer<typeof AlertsView>;

/** The outcome of a test post. */
export const TestPost = z.object({
  taken: z.boolean(),
  /** The receiver's answer in one sentence. */
  text: z.string(),
});
export type TestPost = z.infer<typeof TestPost>;
