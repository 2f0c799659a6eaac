import type { OpenedWith } from '../../fleet/live-viewers.ts';
import { VIEWER_HEADERS } from '../../fleet/rpc.ts';

/** Reads what the viewer showed from headers that only the gateway sets. */
export function openedWith(headers: Headers): OpenedWith {
  const [signIn, sha256, expires] = (['signIn', 'sha256', 'expires'] as const).map((name) =>
    headers.get(VIEWER_HEADERS[name]),
  );
  return {
    ...(signIn && { signIn }),
    ...(sha256 && { token: { sha256, ...(expires && { expires_at: Number(expires) }) } }),
  };
}
