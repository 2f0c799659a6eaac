import { type Context, type Handler, Hono, type MiddlewareHandler } from 'hono';
import type { Scope } from '../../settings/token-entry.ts';
import { authorize, type Caller } from '../auth/authorize.ts';
import type { GatewayEnv } from '../env.ts';
import { HttpError } from '../errors.ts';
import type { RouteRow } from '../openapi/document.ts';

/** The types of the gateway for Hono. */
export interface Environment {
  Bindings: GatewayEnv;
  Variables: {
    /** The caller's token; null where no tokens are configured. */
    token: Caller | null;
    /** The id for finding this request again: the caller's, else one that the gateway made. */
    requestId: string;
  };
}
export type GatewayContext = Context<Environment>;

/** The router, with the rows that describe its routes. */
export class Gateway extends Hono<Environment> {
  /** The rows of all routes, for `/openapi.json`. */
  readonly rows: RouteRow[] = [];
}

/** Registers a route. Callers need a token with one of its scopes. */
export function route<const P extends string>(
  app: Gateway,
  { handler, ...row }: RouteRow & { path: P; handler: Handler<Environment, P> },
): void {
  app.rows.push(row);
  if (row.scopes.length > 0) app.on(row.method, row.path, needs(...row.scopes));
  app.on(row.method, row.path, handler);
}

/** Middleware that refuses callers without a token of one of these scopes. */
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
