import type { Context, Hono, MiddlewareHandler } from 'hono';
import { authorize, readTokens, type Scope } from '../auth.ts';
import type { Env } from '../env.ts';

/** Hono's view of the gateway. */
export type Gateway = Hono<{ Bindings: Env }>;
export type GatewayContext = Context<{ Bindings: Env }>;

/** Middleware that asks for a token with one of these scopes. */
export function needs(...anyOf: Scope[]): MiddlewareHandler<{ Bindings: Env }> {
  return async (context, next) => {
    await authorize(context.req.raw, readTokens(context.env.TOKENS), anyOf);
    await next();
  };
}
