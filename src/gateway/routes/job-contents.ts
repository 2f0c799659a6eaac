import { readerOf } from '../auth.ts';
import { HttpError } from '../errors.ts';
import { callQueue } from '../objects/calls.ts';
import { jobFile } from '../objects/job-files.ts';
import { queueIdOf } from '../objects/queue-ids.ts';
import { type Gateway, type GatewayContext, route } from './route.ts';

/** Registers the routes of a job's payload and result, each on its own: either may have megabytes. */
export function jobContentsRoutes(app: Gateway): void {
  for (const what of ['payload', 'result'] as const) {
    route(app, {
      method: 'GET',
      path: `/api/jobs/:id/${what}`,
      tag: 'Jobs',
      summary: `The ${what} of a job by itself, as a file`,
      description:
        'Of jobs of the own tenant; with the scope admin of every job (docs/security.md, "Tenants").',
      scopes: ['submit'],
      answers: { 200: { description: `The ${what}.`, content: {} } },
      errors: [404, 503],
      handler: (context) => download(context, what),
    });
  }
}

/** Returns a job's payload or result as a file to be saved. A browser must never show it itself: others wrote it. */
async function download(context: GatewayContext, kind: 'payload' | 'result'): Promise<Response> {
  const id = context.req.param('id') as string;
  const reader = readerOf(context.get('token'), context.env);
  const queueId = queueIdOf(context.env, context.req.raw);
  const contents = await callQueue(context.env, queueId, (queue) => queue.contents(id, kind, reader));
  if (contents === null) throw missing(id, kind);
  const gone = () => missing(id, kind);
  const body =
    'text' in contents ? contents.text : (await jobFile(context.env, queueId, contents.file, gone)).body;
  return new Response(body, {
    headers: {
      'content-type': 'application/json',
      'content-disposition': `attachment; filename="${id.replaceAll(/[^\w.-]/g, '_')}-${kind}.json"`,
      'x-content-type-options': 'nosniff',
    },
  });
}

function missing(id: string, kind: string): HttpError {
  const message = `There is no ${kind} of a job "${id}" for you: either there is no such job, it has none (yet), or it is another tenant's, whose payloads and results QUEUE_SHOW_PAYLOADS=1 shows to admins.`;
  return new HttpError(404, message, `${kind}_not_found`);
}
