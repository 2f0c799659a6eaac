import { addCredential } from '../../../gateway/auth/credentials.ts';
import type { Gateway } from '../../../gateway/routes/route.ts';
import { jwtCredential } from './credential.ts';

/** Lets people sign in as themselves: their JWTs are taken wherever tokens are. */
export function oidcRoutes(_app: Gateway): void {
  addCredential(jwtCredential);
}
