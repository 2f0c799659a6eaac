import { Validator } from '@seriousme/openapi-schema-validator';
import { describe, expect, it } from 'vitest';
import { FEATURE_ROUTES } from '../../../src/features/index.ts';
import { createApp } from '../../../src/gateway/app.ts';
import type { GatewayEnv } from '../../../src/gateway/env.ts';
import { openApiDocument } from '../../../src/gateway/openapi/document.ts';
import { SCHEMAS, type SchemaEntry } from '../../../src/gateway/openapi/schemas.ts';
import { SCOPES, type Scope } from '../../../src/settings/token-entry.ts';
import { newAjv } from '../../support/contract.ts';
import { acceptNothing, playedObjects } from '../../support/objects.ts';
import { tokenEntry } from '../../support/token-entry.ts';

const ROUTES = createApp(FEATURE_ROUTES).rows;
/** Routes that no caller is told of: what one process says to another. */
const NOT_DESCRIBED = /^\/internal\//;

describe('the rows of routes', () => {
  const described = ROUTES.map(({ method, path }) => `${method} ${path}`);

  it('are of every route, none twice', () => {
    const registered = createApp(FEATURE_ROUTES)
      .routes.filter(({ method, path }) => method !== 'ALL' && !NOT_DESCRIBED.test(path))
      .map(({ method, path }) => `${method} ${path}`);
    const missing = registered.filter((one) => !described.includes(one));
    expect(missing, 'register these with route() of src/gateway/routes/route.ts').toEqual([]);
    expect(described).toHaveLength(new Set(described).size);
  });

  it.each(ROUTES)('say which scopes $method $path asks for', async ({ method, path, scopes }) => {
    const allowed: string[] = [];
    for (const scope of SCOPES.filter((name) => name !== 'admin')) {
      if (await isAllowed(method, path, scope)) allowed.push(scope);
    }
    const all = SCOPES.filter((name) => name !== 'admin');
    const said = scopes.filter((name) => name !== 'admin');
    expect(allowed.sort()).toEqual((scopes.length === 0 ? all : said).sort());
  });
});

/** Whether a token of this scope is admitted; nothing behind the gateway is there. */
async function isAllowed(method: string, path: string, scope: Scope): Promise<boolean> {
  const env: GatewayEnv = {
    objects: playedObjects({}),
    acceptUpgrade: acceptNothing,
    FILE_KEY_SECRET: 'secret',
    TOKENS: JSON.stringify([tokenEntry(scope, [scope])]),
  };
  const url = `http://localhost${path.replaceAll(/:\w+(\{[^}]*\})?/g, 'x')}?queue_id=stranger`;
  const request = new Request(url, {
    method,
    headers: { authorization: `Bearer ${scope}` },
    body: method === 'GET' ? null : '{}',
  });
  const context = { waitUntil: () => {}, passThroughOnException: () => {}, props: {} };
  const response = await createApp(FEATURE_ROUTES).fetch(request, env, context as never);
  return response.status !== 401 && response.status !== 403;
}

describe('the document', () => {
  it('is OpenAPI 3.1, with every reference in its place', async () => {
    const validator = new Validator();
    const result = await validator.validate(openApiDocument(ROUTES));
    expect(result.errors ?? []).toEqual([]);
    expect(validator.version).toBe('3.1');
  });

  it('names no operation twice', () => {
    const { paths } = openApiDocument(ROUTES) as {
      paths: Record<string, Record<string, { operationId: string }>>;
    };
    const ids = Object.values(paths).flatMap((path) => Object.values(path).map((one) => one.operationId));
    expect(ids).toHaveLength(new Set(ids).size);
  });

  it.each(Object.entries<SchemaEntry>(SCHEMAS))('has examples that fit the schema %s', (id, entry) => {
    const validate = newAjv()
      .addSchema(openApiDocument(ROUTES), 'openapi')
      .compile({ $ref: `openapi#/components/schemas/${id}` });
    for (const example of entry.examples ?? []) {
      expect([validate(example), validate.errors]).toEqual([true, null]);
      expect(entry.schema.safeParse(example).error).toBeUndefined();
    }
  });

  it.each(ROUTES.filter(({ body }) => body))('has examples of $method $path that fit', ({ body }) => {
    for (const { schema, example } of [body!].flat()) {
      if (schema === undefined || example === undefined) continue;
      const values = typeof schema === 'string' ? [example] : (example as unknown[]);
      const { schema: zod } = SCHEMAS[typeof schema === 'string' ? schema : schema[0]];
      for (const value of values) expect(zod.safeParse(value).error).toBeUndefined();
    }
  });
});

describe('what is served', () => {
  const ask = async (path: string) =>
    await createApp(FEATURE_ROUTES).fetch(new Request(`http://localhost${path}`), {} as GatewayEnv);

  it('is the document, and each schema on its own', async () => {
    expect(await (await ask('/openapi.json')).json()).toEqual(
      JSON.parse(JSON.stringify(openApiDocument(ROUTES))),
    );
    const index = (await (await ask('/schemas/')).json()) as { schemas: { file: string }[] };
    expect(index.schemas.map(({ file }) => file).sort()).toEqual(
      Object.keys(SCHEMAS)
        .map((id) => `${id}.json`)
        .sort(),
    );
    const ajv = newAjv();
    for (const { file } of index.schemas) {
      const response = await ask(`/schemas/${file}`);
      expect(response.headers.get('content-type')).toBe('application/schema+json');
      ajv.addSchema((await response.json()) as object);
    }
    for (const { file } of index.schemas) expect(ajv.getSchema(file), file).toBeTypeOf('function');
    const job = ajv.getSchema('JobView.json')!;
    expect(job({ id: 'x' })).toBe(false);
  });

  it('is 404 for a schema that there is not', async () => {
    for (const name of ['Nothing.json', 'toString', '__proto__.json']) {
      expect((await ask(`/schemas/${name}`)).status, name).toBe(404);
    }
  });

  it('lets senders leave out what has a default, and readers meet fields that are new', () => {
    const { components } = openApiDocument(ROUTES) as {
      components: { schemas: Record<string, { required?: string[]; additionalProperties?: boolean }> };
    };
    expect(components.schemas.JobSubmission?.required).toEqual(['job_type', 'payload']);
    const { fleet, TokenRequest, TokenChanges, MuteRequest, ...others } = components.schemas;
    expect(JSON.stringify(others)).not.toContain('"additionalProperties":false');
    // Written by people, whose editor is to mark what they misspell.
    expect(fleet?.additionalProperties).toBe(false);
    // What is misspelt there would let a token do more.
    expect(TokenRequest?.additionalProperties).toBe(false);
    expect(TokenChanges?.additionalProperties).toBe(false);
    // Without a rule that is misspelt a mute would concern more.
    expect(MuteRequest?.additionalProperties).toBe(false);
  });
});
