import { openApiDocument } from './document.ts';
import type { RouteRow } from './row.ts';

/**
 * The OpenAPI document as JSON. Where the gateway is built for workerd, the build runs this module and puts the text
 * in its place (workerd/bundle.ts).
 */
export async function openApiText(rows: readonly RouteRow[]): Promise<string> {
  return JSON.stringify(openApiDocument(rows));
}
