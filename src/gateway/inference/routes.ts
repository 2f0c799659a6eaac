import { inferenceRoutes, type RouteList } from '../../protocol/index.ts';
import type { Env } from '../env.ts';

/** The list of routes, parsed once for each text that describes it. */
let routes: { text: string; list: RouteList } | null = null;

/** Returns the routes of engines that callers may use. */
export function inferenceRoutesOf({ INFERENCE_ROUTES: text = '' }: Env): RouteList {
  if (routes?.text !== text) routes = { text, list: inferenceRoutes(text) };
  return routes.list;
}
