import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { SMTPServer } from 'smtp-server';

/** A mail that a server took. */
interface Received {
  from: string;
  to: string[];
  /** The user who signed in; null: nobody did. */
  user: string | null;
  /** Whether the connection was encrypted. */
  isSecure: boolean;
  /** Headers and text as they came. */
  content: string;
}

/** A mail server in this process, which takes every mail of whoever signs in with its password. */
export interface MailServer {
  port: number;
  mails: Received[];
  stop(): Promise<void>;
}

/** @param password the password of every user; null: nobody has to sign in, and nothing is encrypted */
export async function startMailServer(password: string | null = null): Promise<MailServer> {
  const mails: Received[] = [];
  const server = new SMTPServer({
    authOptional: password === null,
    // Its own certificate is one that nobody trusts.
    ...(password === null && { disabledCommands: ['STARTTLS', 'AUTH'] }),
    onAuth: ({ username, password: given }, _, answer) =>
      given === password ? answer(null, { user: username }) : answer(new Error('no such user')),
    onData: async (stream, { envelope, user, secure }, taken) => {
      const { mailFrom, rcptTo } = envelope;
      const content = await text(stream).catch(() => null);
      // A sender that ends in the middle of a mail has sent none.
      if (content === null) return taken(new Error('the mail broke off'));
      mails.push({
        from: mailFrom === false ? '' : mailFrom.address,
        to: rcptTo.map(({ address }) => address),
        user: typeof user === 'string' ? user : null,
        isSecure: secure,
        content,
      });
      taken();
    },
  });
  // A client that refuses the certificate breaks the connection off.
  server.on('error', () => {});
  const listening = server.listen(0, '127.0.0.1');
  await once(listening, 'listening');
  return {
    port: (listening.address() as AddressInfo).port,
    mails,
    stop: () => new Promise((stopped) => server.close(() => stopped())),
  };
}
