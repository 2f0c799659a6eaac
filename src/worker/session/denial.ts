import { CLOSE, isFatalClose } from '../../protocol/index.ts';
import type { SocketClose } from './socket.ts';

export interface Denied {
  wsUrl: string;
  workerId: string;
  token: string | undefined;
}

/** Returns what to tell people when the queue denies this worker for good; null when dialling again makes sense. */
export function denialOf(close: SocketClose, { wsUrl, workerId, token }: Denied): string | null {
  if (close.code === CLOSE.superseded) {
    return `another worker registered with the id "${workerId}"; give each worker its own CASOLA_INSTANCE_ID`;
  }
  // The message shows the address without user name and password.
  const address = wsUrl.replace(/\/\/[^/@]*@/, '//');
  if (close.code === CLOSE.forbidden || close.httpStatus === 403) {
    return `the queue at ${address} denies this token: it lacks the scope "worker"`;
  }
  if (!isFatalClose(close.code) && close.httpStatus !== 401) return null;
  return token
    ? `the queue at ${address} does not know this token: check CASOLA_API_TOKEN`
    : `the queue at ${address} asks for a token: set CASOLA_API_TOKEN`;
}
