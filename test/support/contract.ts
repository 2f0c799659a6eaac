import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { FEATURE_ROUTES } from '../../src/features/index.ts';
import { createApp } from '../../src/gateway/app.ts';
import { openApiDocument } from '../../src/gateway/openapi/document.ts';

/** Answers of the gateway, held against the document that describes them. */

interface Operation {
  responses: Record<string, { $ref?: string; content?: Record<string, { schema: object }> }>;
}
interface Document {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, object>; responses: Record<string, Operation['responses'][string]> };
}

/** Objects name all their fields: one that nobody described is a fault. */
const document = openApiDocument(createApp(FEATURE_ROUTES).rows, { closed: true }) as unknown as Document;
const ajv = newAjv().addSchema(document, 'openapi');
const validators = new Map<string, ValidateFunction>();

/** Knows the formats that zod writes; unknown keywords are faults. */
export function newAjv(): Ajv2020 {
  const isDate = (text: string) => !Number.isNaN(Date.parse(text));
  return new Ajv2020({
    allErrors: true,
    strictTypes: false,
    formats: { 'date-time': isDate, base64: /^[A-Za-z0-9+/]*={0,2}$/, uri: URL.canParse },
    // These keywords belong to the document around the schemas.
    keywords: ['openapi', 'info', 'servers', 'components', 'paths'],
  });
}

/** The row of a path: `/api/jobs/{id}`. */
function templateOf(path: string, method: string): string {
  const fits = (template: string) =>
    new RegExp(`^${template.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(path);
  const templates = Object.keys(document.paths).filter(
    (template) => fits(template) && document.paths[template]?.[method],
  );
  // The one with the fewest parameters.
  const [best] = templates.sort((a, b) => a.split('{').length - b.split('{').length);
  if (best === undefined) throw new Error(`${method} ${path}: no route has such a row`);
  return best;
}

/**
 * What is wrong with an answer; empty: nothing.
 * @param path without a query
 * @param body parsed
 */
export function faultsOf(
  method: string,
  path: string,
  status: number,
  body: unknown,
  type?: string,
): string[] {
  const verb = method.toLowerCase();
  const template = templateOf(path, verb);
  const given = document.paths[template]?.[verb]?.responses[status];
  if (given === undefined) return [`${method} ${template}: the status ${status} is not described`];
  const place = given.$ref ? given.$ref : `#/paths/${pointer(template)}/${verb}/responses/${status}`;
  const content = (given.$ref ? document.components.responses[given.$ref.split('/').at(-1)!] : given)
    ?.content;
  const mime = (type ?? 'application/json').split(';', 1)[0]!;
  if (!content?.[mime]) return [`${method} ${template} ${status}: ${mime} is not described`];
  return faultsAgainst(`${place}/content/${pointer(mime)}/schema`, body, `${method} ${template} ${status}`);
}

/** @param id of the schema */
export function faultsOfSchema(id: string, value: unknown): string[] {
  return faultsAgainst(`#/components/schemas/${id}`, value, id);
}

function faultsAgainst(place: string, value: unknown, what: string): string[] {
  const validate = validators.get(place) ?? ajv.compile({ $ref: `openapi${place}` });
  validators.set(place, validate);
  if (validate(value)) return [];
  return validate.errors!.map(
    ({ instancePath, message, params }) => `${what}${instancePath}: ${message} ${JSON.stringify(params)}`,
  );
}

function pointer(text: string): string {
  return encodeURIComponent(text.replaceAll('~', '~0').replaceAll('/', '~1'));
}
