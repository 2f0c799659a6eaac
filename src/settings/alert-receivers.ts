import * as z from 'zod';
import type { ReceiverKind } from '../protocol/alerts.ts';
import { Duration } from '../protocol/duration.ts';
import { ALERT_KINDS } from '../protocol/problem-kinds.ts';
import { expectationWords } from '../protocol/schema-words.ts';
import { checkPostUrl, webhookKey } from './webhooks.ts';

/** This file reads QUEUE_ALERTS: who is told of problems, of which, and how often. */

/** The name of the receiver that QUEUE_ALERT_URL stands for. */
const SHORT_FORM = 'QUEUE_ALERT_URL';
/** The address of PagerDuty's Events API v2: https://developer.pagerduty.com/docs/events-api-v2-overview. */
const PAGERDUTY_URL = 'https://events.pagerduty.com/v2/enqueue';
/** A receiver is told again at most this often, s. */
const LEAST_REPEAT_SECONDS = 60;
const MOST_RECEIVERS = 50;

/** Makes a text that a function accepts, which throws an Error that says what is wrong. */
function checked(check: (text: string) => unknown) {
  return z.string().superRefine((text, context) => {
    try {
      check(text);
    } catch (error) {
      context.addIssue({ code: 'custom', message: (error as Error).message });
    }
  });
}

const postUrl = () => checked(checkPostUrl);

/** The value of an `Authorization` header. */
const authorization = z
  .string()
  .regex(/^[\x21-\x7e][\x20-\x7e]*$/, 'expected visible ASCII characters, as they go into an HTTP header')
  .optional();

const rules = {
  name: z
    .string()
    .regex(/^\w[\w.-]{0,63}$/, 'expected up to 64 letters, digits, "_", "." and "-"')
    .refine((name) => name !== SHORT_FORM, `${SHORT_FORM} is the name of the receiver of that variable`),
  severity: z.enum(['warning', 'error']).default('warning'),
  pools: z.array(z.string().min(1)).min(1).optional(),
  kinds: z.array(z.enum(ALERT_KINDS)).min(1).optional(),
  repeat_after: Duration.refine(
    (seconds) => seconds >= LEAST_REPEAT_SECONDS,
    `expected a duration of ${LEAST_REPEAT_SECONDS}s or more`,
  ).optional(),
  ends: z.boolean().default(true),
};

const receiver = <const Kind extends ReceiverKind, Shape extends z.ZodRawShape>(kind: Kind, shape: Shape) =>
  z.strictObject({ kind: z.literal(kind), ...rules, ...shape });

/** A receiver of alerts as QUEUE_ALERTS has it; `repeat_after` in seconds. */
const AlertReceiver = z.discriminatedUnion('kind', [
  receiver('slack', { url: postUrl() }),
  receiver('pagerduty', {
    routing_key: z
      .string()
      .regex(/^\w{16,64}$/, 'expected the integration key of an Events API v2 integration'),
    url: postUrl().default(PAGERDUTY_URL),
  }),
  // The address under which Alertmanager's own page is; the path of its API is appended.
  receiver('alertmanager', { url: postUrl(), authorization }),
  receiver('webhook', {
    url: postUrl(),
    authorization,
    secret: z
      .string()
      .refine((text) => webhookKey(text) !== null, 'expected "whsec_" and 24 to 64 bytes in base64')
      .optional(),
  }),
  receiver('email', {
    server: checked(checkMailServer),
    from: z.email('expected an e-mail address'),
    to: z.array(z.email('expected an e-mail address')).min(1),
  }),
]);
export type AlertReceiver = z.infer<typeof AlertReceiver>;

/** @throws Error if no mail can be sent there */
function checkMailServer(text: string): void {
  const url = URL.canParse(text) ? new URL(text) : null;
  const isServer = url !== null && /^smtps?:$/.test(url.protocol) && url.hostname !== '';
  if (!isServer || !/^\/?$/.test(url.pathname) || url.search !== '' || url.hash !== '') {
    throw new Error('expected smtp://host:port or smtps://host:port, with user:password@ before the host');
  }
  try {
    decodeURIComponent(url.username + url.password);
  } catch {
    throw new Error('expected "%" in its user name and password to be written as %25');
  }
}

/**
 * Reads the receivers in the text of QUEUE_ALERTS, a JSON array.
 * @throws Error that names the receiver and the field, and shows no value
 */
export function parseAlertReceivers(text: string): AlertReceiver[] {
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch (error) {
    if (!/^\s*[[{]/.test(text)) {
      throw new Error(
        'expected a JSON array of receivers, or the path of a file, which begins with "/" or "."',
      );
    }
    throw new Error(`the JSON of the receivers has a fault: ${faultWithoutText(error as SyntaxError)}`);
  }
  if (!Array.isArray(list)) throw new Error('expected a JSON array of receivers');
  if (list.length > MOST_RECEIVERS) throw new Error(`expected at most ${MOST_RECEIVERS} receivers`);
  const receivers = list.map(parseReceiver);
  const names = receivers.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) < index);
  if (twice !== undefined) throw new Error(`the name "${twice}" is there twice`);
  return receivers;
}

/** Returns what a parser of JSON found, without the piece of the text that it may quote: that may be a secret. */
function faultWithoutText({ message }: SyntaxError): string {
  return message.replace(/, (\.\.\.)?".*"(\.\.\.)? is not valid JSON$/s, '');
}

function parseReceiver(given: unknown, index: number): AlertReceiver {
  const parsed = AlertReceiver.safeParse(given, { error: expectationWords });
  if (parsed.success) return parsed.data;
  const { name } = (given ?? {}) as { name?: unknown };
  const which = typeof name === 'string' && name !== '' ? `"${name.slice(0, 64)}"` : `number ${index + 1}`;
  const faults = parsed.error.issues.map(({ path, message }) => `${path.join('.')} ${message}`.trim());
  throw new Error(`receiver ${which}: ${[...new Set(faults)].join('; ')}`);
}

/** Returns all receivers: those of QUEUE_ALERTS, and the one of QUEUE_ALERT_URL. @throws Error as above */
export function alertReceivers(given: { alerts: string; alert_url: string }): AlertReceiver[] {
  const receivers = given.alerts === '' ? [] : parseAlertReceivers(given.alerts);
  if (given.alert_url === '') return receivers;
  const short = { name: SHORT_FORM, kind: 'slack', url: given.alert_url } as const;
  return [{ ...short, severity: 'warning', ends: true }, ...receivers];
}

/** The rows of the settings of alerts, for the table of settings (queue-settings.ts). */
export const ALERT_SETTINGS = {
  alerts: {
    kind: 'text',
    default: '',
    check: parseAlertReceivers,
    help: 'who is told of problems: a JSON array of receivers (Slack, PagerDuty, Alertmanager, webhooks, e-mail), each with rules, or the path of a file with one; [alerts](alerts.md)',
  },
  alert_url: {
    kind: 'text',
    default: '',
    check: checkPostUrl,
    help: 'short form of QUEUE_ALERTS for one receiver: each error and warning that enters the attention list, and each that leaves it, is posted here, as Slack, Mattermost and their like take it (`{"text": …}`); [alerts](alerts.md)',
  },
  // A problem that comes and goes is not posted. The list of problems is checked three times as often.
  alert_settled_seconds: {
    kind: 'seconds',
    default: 15,
    min: 0.1,
  },
} as const;
