import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { HttpError } from '../../../gateway/errors.ts';
import { openAIError } from '../../../protocol/index.ts';

/** A caller has this long to read its refusal, ms. */
const READ_WITHIN_MS = 2000;

/** The longest head of a request, bytes. */
export const HEAD_BYTES = 64 * 1024;

/** An error of Node's HTTP, with its parser's reason. */
export type HttpFault = NodeJS.ErrnoException & { reason?: string };

/** Returns the error for a request whose head is malformed, too large or too slow. */
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

/** Returns the error for a request with a malformed body. */
export function bodyRefusalOf({ code, reason }: HttpFault): HttpError {
  if (code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW') {
    return new HttpError(413, 'The chunks of the body have too long extensions.', 'too_large');
  }
  return new HttpError(400, `The chunks of the body cannot be read${because(reason)}.`, 'invalid_request');
}

function because(reason: string | undefined): string {
  return reason ? ` (${reason})` : '';
}

/** Answers a malformed request with an error, and ends the connection once the caller has had time to read it. */
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
  // Bytes that the caller sends meanwhile are discarded: closing a connection with unread bytes would lose the answer.
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), READ_WITHIN_MS);
  socket.once('close', () => clearTimeout(timer));
}
