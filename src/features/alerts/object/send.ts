import { deliver, isTaken } from '../../../durable/deliver.ts';
import type { Post } from '../../../durable/host.ts';
import type { AlertReceiver } from '../../../settings/alert-receivers.ts';
import type { Mail, Outgoing } from '../receivers/outgoing.ts';
import { withoutSecrets } from '../receivers/receivers.ts';

/** A mail server has this long to take a mail, ms. */
const MAIL_WITHIN_MS = 20_000;

/** Sends a mail by SMTP. @param server `smtp://` or `smtps://`, with user and password @throws Error that says why not */
export type SendMail = (server: string, mail: Mail, withinMs: number) => Promise<void>;

/** How alerts leave this host. */
export interface Ways {
  post: Post;
  /** Null: this host cannot send mail. */
  mail: SendMail | null;
}

/** The statuses with which a receiver refuses what it was sent, and may take something else. */
const REFUSES_THIS = [400, 413, 422];

/** Whether a receiver has taken what was sent, and how it answered, as a clause without secrets. */
export interface Answer {
  isTaken: boolean;
  how: string;
  /** Whether it refused this post for what is in it. */
  refusesThis: boolean;
}

/** Returns why this host cannot send to a receiver, as a sentence, or null. */
export function refusalOf({ kind }: AlertReceiver, { mail }: Pick<Ways, 'mail'>): string | null {
  if (kind !== 'email' || mail !== null) return null;
  return 'E-mail is not sent from Cloudflare, which has no SMTP: have a receiver of another kind send it, or run the queue on Node.';
}

/** Sends one post or mail. Never rejects. */
export async function send(receiver: AlertReceiver, outgoing: Outgoing, ways: Ways): Promise<Answer> {
  if ('mail' in outgoing) return await sendMail(receiver, outgoing, ways);
  const { url, body, headers } = outgoing;
  // The operator's own receiver may be at a private address.
  const answer = await deliver(ways.post('private'), url, body, headers);
  if ('status' in answer) {
    const { status } = answer;
    return {
      isTaken: isTaken(status),
      how: `it answered ${status}`,
      refusesThis: REFUSES_THIS.includes(status),
    };
  }
  return notTaken(`it did not answer: ${withoutSecrets(receiver, answer.problem)}`);
}

async function sendMail(
  receiver: AlertReceiver,
  { server, mail }: Extract<Outgoing, { mail: Mail }>,
  ways: Ways,
): Promise<Answer> {
  if (ways.mail === null) return notTaken('this host sends no mail');
  try {
    await ways.mail(server, mail, MAIL_WITHIN_MS);
    return { isTaken: true, how: 'its mail server took it', refusesThis: false };
  } catch (error) {
    const why = withoutSecrets(receiver, (error as Error).message);
    return notTaken(`its mail server did not take it: ${why}`);
  }
}

function notTaken(how: string): Answer {
  return { isTaken: false, how, refusesThis: false };
}
