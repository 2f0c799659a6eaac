import { HttpError } from '../errors.ts';
import { openApiDocument, type RouteRow } from '../openapi/document.ts';
import { type Gateway, route } from './route.ts';

interface OpenApi {
  components: { schemas: Record<string, { description: string }> };
}

interface Documents {
  text: string;
  schemas: OpenApi['components']['schemas'];
}

/**
 * Registers the documents that describe the gateway to machines. They are open to all: they tell nothing of this
 * queue.
 */
export function documentRoutes(app: Gateway): void {
  let made: Documents | null = null;
  const documents = () => {
    made ??= readDocuments(app.rows);
    return made;
  };

  route(app, {
    method: 'GET',
    path: '/openapi.json',
    tag: 'Documents',
    summary: 'This document',
    scopes: [],
    answers: { 200: { description: 'OpenAPI 3.1.', content: {} } },
    handler: () => {
      const { text } = documents();
      return new Response(text, { headers: { 'content-type': 'application/json' } });
    },
  });

  route(app, {
    method: 'GET',
    path: '/schemas',
    tag: 'Documents',
    summary: 'The names of all schemas',
    scopes: [],
    answers: { 200: { description: 'Each with its address and what it describes.', content: {} } },
    handler: async (context) => {
      const { schemas } = documents();
      const list = Object.entries(schemas).map(([id, { description }]) => ({
        file: `${id}.json`,
        description,
      }));
      return context.json({ schemas: list });
    },
  });

  route(app, {
    method: 'GET',
    path: '/schemas/:file',
    tag: 'Documents',
    summary: 'A JSON Schema of a request, a response or a frame, such as JobView.json',
    scopes: [],
    answers: {
      200: { description: 'JSON Schema 2020-12.', content: { type: 'application/schema+json' } },
    },
    errors: [404],
    handler: async (context) => {
      const id = context.req.param('file').replace(/\.json$/, '');
      const { schemas } = documents();
      const schema = Object.hasOwn(schemas, id) ? schemas[id] : undefined;
      if (schema === undefined) {
        throw new HttpError(404, `There is no schema "${id}"; GET /schemas/ lists them.`, 'schema_not_found');
      }
      return new Response(standalone(id, schema), { headers: { 'content-type': 'application/schema+json' } });
    },
  });
}

function readDocuments(rows: readonly RouteRow[]): Documents {
  const text = JSON.stringify(openApiDocument(rows));
  return { text, schemas: (JSON.parse(text) as OpenApi).components.schemas };
}

/** Returns a schema on its own, which refers to the others by addresses relative to its own. */
function standalone(id: string, schema: object): string {
  const text = JSON.stringify({
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    $id: `${id}.json`,
    ...schema,
  });
  return text.replaceAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g, '"$ref":"$1.json"');
}
