import { WORKER_TOKEN_HEADERS } from '../rpc.ts';
import type { Session, WorkerToken } from '../store/ports.ts';

/** What stays with a socket while the object hibernates. */
export interface Attachment {
  token: WorkerToken | null;
  session: Session | null;
}

export function attachmentOf(socket: { deserializeAttachment(): unknown }): Attachment {
  return socket.deserializeAttachment() as Attachment;
}

/** As the gateway says in headers that only it sets. */
export function tokenOf({ headers }: Request): WorkerToken | null {
  const [name, pattern] = [headers.get(WORKER_TOKEN_HEADERS.name), headers.get(WORKER_TOKEN_HEADERS.pattern)];
  if (name === null) return null;
  return {
    name: decodeURIComponent(name),
    worker_ids: pattern === null ? null : decodeURIComponent(pattern),
  };
}

/** What the worker dialled, as it must be dialled again: a proxy before us may have taken the encryption off. */
export function originOf(request: Request): string {
  const url = new URL(request.url);
  const forwarded = request.headers.get('x-forwarded-proto')?.split(',')[0]?.trim().toLowerCase();
  const scheme = forwarded === 'https' || forwarded === 'http' ? `${forwarded}:` : url.protocol;
  return `${scheme}//${url.host}`;
}
