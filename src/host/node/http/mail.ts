import { getCACertificates } from 'node:tls';
import { createTransport } from 'nodemailer';
import type { SendMail } from '../../../features/alerts/object/send.ts';

/**
 * Sends a mail by SMTP. The connection is encrypted where the server offers it (STARTTLS), and has to be where a
 * password is sent.
 */
export const sendMail: SendMail = async (server, mail, withinMs) => {
  const { protocol, hostname, port, username, password } = new URL(server);
  const secure = protocol === 'smtps:';
  const auth = { user: decodeURIComponent(username), pass: decodeURIComponent(password) };
  const transport = createTransport({
    host: hostname.replace(/^\[(.*)\]$/, '$1'),
    ...(port !== '' && { port: Number(port) }),
    secure,
    ...(auth.user !== '' && { auth, requireTLS: !secure }),
    tls: { ca: [...new Set([...getCACertificates('default'), ...getCACertificates('system')])] },
    connectionTimeout: withinMs,
    greetingTimeout: withinMs,
    socketTimeout: withinMs,
    // A mail is text of ours: it names no file and no address to be read.
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  try {
    await transport.sendMail(mail);
  } finally {
    transport.close();
  }
};
