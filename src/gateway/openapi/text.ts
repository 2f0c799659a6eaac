import { openApiDocument } from './document.ts';

/**
 * The OpenAPI document as JSON. Where the gateway is built for workerd, this module is run, and what it gives is put in
 * its place (workerd/bundle.ts).
 */
export async function openApiText(): Promise<string> {
  return JSON.stringify(openApiDocument());
}
