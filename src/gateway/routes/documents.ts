import { HttpError } from '../errors.ts';
import { openApiText } from '../openapi/text.ts';
import type { Gateway } from './types.ts';

interface OpenApi {
  components: { schemas: Record<string, { description: string }> };
}

interface Documents {
  text: string;
  schemas: OpenApi['components']['schemas'];
}

/** What can be asked for here, for machines. Open to all: it tells nothing of this queue. */
export function documentRoutes(app: Gateway): void {
  let made: Documents | null = null;
  const documents = async () => {
    made ??= await readDocuments();
    return made;
  };

  app.get('/openapi.json', async () => {
    const { text } = await documents();
    return new Response(text, { headers: { 'content-type': 'application/json' } });
  });

  app.get('/schemas', async (context) => {
    const { schemas } = await documents();
    const list = Object.entries(schemas).map(([id, { description }]) => ({
      file: `${id}.json`,
      description,
    }));
    return context.json({ schemas: list });
  });

  app.get('/schemas/:file', async (context) => {
    const id = context.req.param('file').replace(/\.json$/, '');
    const { schemas } = await documents();
    const schema = Object.hasOwn(schemas, id) ? schemas[id] : undefined;
    if (schema === undefined) {
      throw new HttpError(404, `There is no schema "${id}"; GET /schemas/ lists them.`, 'schema_not_found');
    }
    return new Response(standalone(id, schema), { headers: { 'content-type': 'application/schema+json' } });
  });
}

async function readDocuments(): Promise<Documents> {
  const text = await openApiText();
  return { text, schemas: (JSON.parse(text) as OpenApi).components.schemas };
}

/** On its own, it names the others by their addresses, relative to its own. */
function standalone(id: string, schema: object): string {
  const text = JSON.stringify({
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    $id: `${id}.json`,
    ...schema,
  });
  return text.replaceAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g, '"$ref":"$1.json"');
}
