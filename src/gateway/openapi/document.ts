import * as z from 'zod';
import { dialectOf } from '../../protocol/index.ts';
import type { Scope } from '../../settings/token-entry.ts';
import { SCHEMAS, type SchemaEntry, type SchemaId } from './schemas.ts';

/** A route of the gateway as `/openapi.json` describes it. */
export interface RouteRow {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** The path in the form in which it is registered: `/api/jobs/:id`. */
  path: string;
  /** The group in which the document lists the route. */
  tag:
    | 'Inference'
    | 'Jobs'
    | 'Files'
    | 'Fleet'
    | 'Tokens'
    | 'Page'
    | 'Metrics and usage'
    | 'RunPod'
    | 'Workers'
    | 'Documents';
  /** The route's effect, in one line. */
  summary: string;
  /** Details that the summary leaves out. */
  description?: string;
  /** The scopes of which a token needs one (or `admin`); empty where the route asks for no token. */
  scopes: readonly Scope[];
  query?: Record<string, Parameter>;
  headers?: Record<string, Parameter>;
  body?: Content | readonly Content[];
  /** The route's answers by status. */
  answers: Readonly<Record<number, Answer>>;
  /** The statuses of errors beside 401, 403 (where the route asks for a token) and 500. */
  errors?: readonly ErrorStatus[];
}

type ErrorStatus = 400 | 404 | 408 | 409 | 410 | 413 | 426 | 429 | 501 | 502 | 503 | 504;

export interface Parameter {
  description: string;
  /** The parameter's type; left out for text. */
  type?: 'string' | 'integer' | 'number' | 'boolean';
  enum?: readonly string[];
}

/** A body's type and schema. */
interface Content {
  /** The content type; left out for `application/json`. */
  type?: string;
  /** The body's schema; a list stands for an array of it. Left out, the body may be anything. */
  schema?: SchemaId | readonly [SchemaId];
  example?: unknown;
}

interface Answer {
  description: string;
  /** The answer's body; left out where there is none. */
  content?: Content | readonly Content[];
}

type Json = Record<string, unknown>;

const COMPONENTS = '#/components/schemas/';

/**
 * Returns the OpenAPI document, made of the routes' rows and the schemas.
 * @param rows the rows of all routes
 * @param closed whether objects that we send name all their fields, for tests of what is sent
 */
export function openApiDocument(rows: readonly RouteRow[], { closed = false } = {}): Json {
  return {
    openapi: '3.1.1',
    info: {
      title: 'worker-vllm',
      version: '1',
      description:
        'A queue for GPU workers behind the OpenAI API. Every request may name its queue with X-Queue-Id or ?queue_id=. Readers must ignore fields that they do not know.',
    },
    servers: [{ url: '/' }],
    components: {
      schemas: { ...convert('received', closed), ...convert('sent', closed) },
      responses: errorResponses(),
      parameters: headerParameters(rows),
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer' },
        api_key: { type: 'apiKey', in: 'header', name: 'X-Api-Key' },
        azure_api_key: { type: 'apiKey', in: 'header', name: 'Api-Key' },
      },
    },
    paths: pathsOf(rows),
  };
}

/**
 * Returns all schemas of one direction, which refer to each other. Schemas of the other direction are copied into
 * them.
 */
function convert(direction: SchemaEntry['direction'], closed: boolean): Record<string, Json> {
  const registry = z.registry<{ id: string }>();
  const entries = Object.entries<SchemaEntry>(SCHEMAS).filter(([, entry]) => entry.direction === direction);
  for (const [id, { schema }] of entries) registry.add(schema, { id });
  const { schemas } = z.toJSONSchema(registry, {
    io: direction === 'received' ? 'input' : 'output',
    uri: (id) => COMPONENTS + id,
    override: ({ jsonSchema }) => {
      // A schema that refuses unknown fields stays so, unless the gateway sends it.
      const isOpen = direction === 'sent' && !closed;
      if (isOpen && jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties;
      forgetSafeIntegers(jsonSchema);
      // This format is zod's own; the pattern beside it says the same.
      if (jsonSchema.format === 'starts_with') delete jsonSchema.format;
    },
  });
  return Object.fromEntries(
    entries.map(([id, { description, examples = [] }]) => {
      const { $schema: _, $id: __, ...schema } = schemas[id] as Json;
      return [id, { title: id, description, ...schema, ...(examples.length > 0 && { examples }) }];
    }),
  );
}

/** Removes the bounds of JavaScript's integers, which zod writes to each: they tell a reader nothing. */
function forgetSafeIntegers(schema: { minimum?: number; maximum?: number }): void {
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum;
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum;
}

function pathsOf(rows: readonly RouteRow[]): Record<string, Json> {
  const paths: Record<string, Json> = {};
  for (const row of rows) {
    const path = row.path.replaceAll(/:(\w+)(?:\{[^}]*\})?/g, '{$1}');
    paths[path] = { ...paths[path], [row.method.toLowerCase()]: operationOf(row, path) };
  }
  return paths;
}

function operationOf(row: RouteRow, path: string): Json {
  const { summary, description, scopes, tag, query = {}, headers = {}, body } = row;
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => parameter(name!, 'path', {}));
  const inQuery = Object.entries(query).map(([name, given]) => parameter(name, 'query', given));
  const inHeaders = Object.keys(headers).map((name) => ({ $ref: `#/components/parameters/${name}` }));
  const needs = scopes.length === 0 ? '' : `Scope: ${scopes.join(' or ')}.`;
  return {
    tags: [tag],
    operationId: operationId(row.method, path),
    summary,
    description: [description, needs].filter(Boolean).join(' ') || undefined,
    // Where no tokens are configured, the gateway asks for none.
    security: scopes.length === 0 ? [] : [{ bearer: [] }, { api_key: [] }, { azure_api_key: [] }, {}],
    parameters: [...inPath, ...inQuery, ...inHeaders],
    ...(body && { requestBody: { required: true, content: contentOf(body) } }),
    responses: { ...answersOf(row.answers), ...errorsOf(row) },
  };
}

/** Returns an id such as `get_api_jobs_id`. */
function operationId(method: string, path: string): string {
  return `${method.toLowerCase()}${path.replaceAll(/[^\w]+/g, '_').replace(/_$/, '')}`;
}

function parameter(name: string, place: string, given: Partial<Parameter>): Json {
  const { description, type = 'string', enum: values } = given;
  return {
    name,
    in: place,
    required: place === 'path',
    description,
    schema: { type, ...(values && { enum: values }) },
  };
}

/** Returns a body's content by type; several of one type are alternatives. */
function contentOf(given: Content | readonly Content[]): Json {
  const list = Array.isArray(given) ? (given as Content[]) : [given as Content];
  const types = [...new Set(list.map(({ type = 'application/json' }) => type))];
  return Object.fromEntries(
    types.map((type) => {
      const same = list.filter((content) => (content.type ?? 'application/json') === type);
      const schemas = same.map(({ schema }) => reference(schema));
      const examples = same.flatMap(({ example }) => (example === undefined ? [] : [example]));
      return [
        type,
        {
          schema: schemas.length === 1 ? schemas[0] : { anyOf: schemas },
          ...(examples.length > 0 && { examples: examplesOf(examples) }),
        },
      ];
    }),
  );
}

function examplesOf(examples: unknown[]): Json {
  return Object.fromEntries(examples.map((value, index) => [`example${index + 1}`, { value }]));
}

function reference(schema: Content['schema']): Json {
  if (schema === undefined) return {};
  if (typeof schema === 'string') return { $ref: COMPONENTS + schema };
  return { type: 'array', items: { $ref: COMPONENTS + schema[0] } };
}

function answersOf(answers: Readonly<Record<number, Answer>>): Json {
  return Object.fromEntries(
    Object.entries(answers).map(([status, { description, content }]) => [
      status,
      { description, ...(content && { content: contentOf(content) }) },
    ]),
  );
}

const ERRORS: Record<ErrorStatus | 401 | 403 | 415 | 500, string> = {
  400: 'The request cannot be read, or says something impossible.',
  401: 'The token is missing or unknown.',
  403: 'The token lacks the scope; or no tokens are configured, and the request comes from elsewhere.',
  404: 'There is no such thing, or no such queue.',
  408: 'The body came too slowly.',
  409: 'It contradicts what there is.',
  410: 'It is gone for now.',
  413: 'The body is too large.',
  415: 'The body is compressed.',
  426: 'A WebSocket is wanted.',
  429: 'Too much waits already; Retry-After says when to try again.',
  500: 'A fault of the gateway; the log says more under the id of the request.',
  501: 'No worker that serves the model can do this.',
  502: 'Every attempt failed; the message says how.',
  503: 'Not possible now; Retry-After says when to try again.',
  504: 'The time was up; the message says where it went.',
};

/** Returns the error responses by dialect and status. */
function errorResponses(): Record<string, Json> {
  const schemas: SchemaId[] = ['OpenAIError', 'AnthropicError', 'RunpodError'];
  return Object.fromEntries(
    schemas.flatMap((schema) =>
      Object.entries(ERRORS).map(([status, description]) => [
        `${schema}${status}`,
        { description, content: { 'application/json': { schema: reference(schema) } } },
      ]),
    ),
  );
}

/** Returns the parameters of all headers; a header means the same on every route. */
function headerParameters(rows: readonly RouteRow[]): Record<string, Json> {
  const headers = rows.flatMap((row) => Object.entries(row.headers ?? {}));
  return Object.fromEntries(headers.map(([name, given]) => [name, parameter(name, 'header', given)]));
}

function errorsOf({ scopes, errors = [], path, body }: RouteRow): Json {
  const asked = scopes.length > 0 ? [401, 403] : [];
  const statuses = [...errors, ...asked, ...(body ? [415] : []), 500].sort((a, b) => a - b);
  const schema = errorSchema(path);
  return Object.fromEntries(
    statuses.map((status) => [status, { $ref: `#/components/responses/${schema}${status}` }]),
  );
}

function errorSchema(path: string): SchemaId {
  if (path.startsWith('/v2/:endpoint')) return 'RunpodError';
  return dialectOf(path) === 'anthropic' ? 'AnthropicError' : 'OpenAIError';
}
