import type { Context, Hono, MiddlewareHandler } from 'hono';
import type { Scope } from '../../settings/scopes.ts';
import { authorize, type Caller } from '../auth.ts';
import type { Env } from '../env.ts';
import { HttpError } from '../errors.ts';

/** Hono's view of the gateway. */
export interface Environment {
  Bindings: Env;
  Variables: {
    /** The token that asks; null where no tokens are configured. */
    token: Caller | null;
    /** Of this request alone, and not of the caller's choosing. */
    ownId: string;
    /** For finding this request again: the caller's, else `ownId`. */
    requestId: string;
  };
}
export type Gateway = Hono<Environment>;
export type GatewayContext = Context<Environment>;

/** Middleware that asks for a token with one of these scopes. */
export function needs(...anyOf: Scope[]): MiddlewareHandler<Environment> {
  return async (context, next) => {
    const entry = await authorize(context.req.raw, context.env, anyOf);
    context.set('token', entry);
    await next();
  };
}

/** @throws HttpError 426 where the request is not for a WebSocket */
export function requireUpgrade(context: GatewayContext, message: string): void {
  if (context.req.header('upgrade')?.toLowerCase() === 'websocket') return;
  throw new HttpError(426, message, 'upgrade_required', { upgrade: 'websocket' });
}
