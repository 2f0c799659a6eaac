import { type BrokenReason, type Dialect, errorEvents } from '../protocol/index.ts';

const encoder = new TextEncoder();

/** Returns the status for an answer that broke without one from its engine. */
const statusOf = (code: string) => (code === 'deadline' ? 504 : 502);

/** Returns the last events of an event stream that cannot be finished. Clients raise them as an API error. */
export function brokenEvents({ message, code, http_status }: BrokenReason, dialect: Dialect): Uint8Array {
  const error = {
    status: http_status ?? statusOf(code),
    message: `The answer broke off: ${message}`,
    type: dialect === 'anthropic' ? undefined : 'server_error',
    code,
  };
  return encoder.encode(errorEvents(error, dialect));
}
