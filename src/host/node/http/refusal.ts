import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { HttpError } from '../../../gateway/errors.ts';
import { openAIError } from '../../../protocol/index.ts';

/** How long a caller has to read why it was refused, ms. */
const READ_WITHIN_MS = 2000;

/** Bytes of a request's head that are read. */
export const HEAD_BYTES = 64 * 1024;

/** An error of Node's HTTP, with what its parser says of the cause. */
export type HttpFault = NodeJS.ErrnoException & { reason?: string };

/** What HTTP itself has to say against a request. */
export function refusalOf({ code, reason }: HttpFault): HttpError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new HttpError(
        431,
        `The head of the request is larger than ${HEAD_BYTES / 1024} KiB.`,
        'head_too_large',
      );
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new HttpError(408, 'The head of the request came too slowly.', 'head_too_slow');
    default:
      return new HttpError(400, `This is no request of HTTP/1.1${because(reason)}.`, 'invalid_request');
  }
}

/** The same where the head was fine, and what follows it is no body. */
export function bodyRefusalOf({ code, reason }: HttpFault): HttpError {
  if (code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW') {
    return new HttpError(413, 'The chunks of the body have too long extensions.', 'too_large');
  }
  return new HttpError(400, `The chunks of the body cannot be read${because(reason)}.`, 'invalid_request');
}

function because(reason: string | undefined): string {
  return reason ? ` (${reason})` : '';
}

/** Answers what is no request with an error, and ends the connection once its caller can have read it. */
export function refuse(socket: Socket, error: HttpError): void {
  const body = JSON.stringify(openAIError(error));
  const lines = [
    `HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
    `date: ${new Date().toUTCString()}`,
    'connection: close',
  ];
  socket.end(`${lines.join('\r\n')}\r\n\r\n${body}`);
  // What it sends meanwhile is thrown away: a connection that is closed on unread bytes loses the answer.
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), READ_WITHIN_MS);
  socket.once('close', () => clearTimeout(timer));
}
