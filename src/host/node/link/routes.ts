import type { MiddlewareHandler } from 'hono';
import { denialOf } from '../../../gateway/auth/authorize.ts';
import { watchToken } from '../../../gateway/auth/tokens.ts';
import { HttpError } from '../../../gateway/errors.ts';
import { toldFault } from '../../../gateway/objects/calls.ts';
import { noteDialled } from '../../../gateway/objects/sockets.ts';
import {
  type Environment,
  type Gateway,
  type GatewayContext,
  needs,
  requireUpgrade,
} from '../../../gateway/routes/route.ts';
import type { Links } from './links.ts';
import { LINK_PATHS, LINK_VERSION, OBJECT_HEADER, OPENED_HEADER } from './messages.ts';

const SCOPES = ['gateway'] as const;

/**
 * Returns the function that registers what gateway processes request of the owner: their link, and beside it what is
 * no call: sockets and bodies.
 */
export function linkRoutes(links: Links): (app: Gateway) => void {
  return (app) => {
    for (const path of Object.values(LINK_PATHS)) app.get(path, needs(...SCOPES), refusePage);

    app.get(LINK_PATHS.link, (context) => {
      requireUpgrade(context, 'This address is for WebSocket connections of gateway processes.');
      const { version, instance, home, address, port } = context.req.query();
      if (Number(version) !== LINK_VERSION) {
        const message = `This queue speaks version ${LINK_VERSION} of the link, and the gateway process version ${version}: run both from the same release of worker-vllm.`;
        throw new HttpError(409, message, 'link_version');
      }
      const dialling = {
        instance: needed(instance, 'instance'),
        home: home === undefined ? null : Number(home),
        address: address ?? null,
        port: Number(needed(port, 'port')),
      };
      const { env } = context;
      const token = context.get('token');
      return links.open(dialling, (over) =>
        watchToken(token, env, over, (entry) => denialOf(entry, SCOPES, LINK_PATHS.link)),
      );
    });

    app.get(LINK_PATHS.control, async (context) => {
      const [instance, queueId] = [instanceOf(context), queueOf(context)];
      const opening = context.env.objects.queue(queueId).connect(openedOf(context), context.req.raw);
      noteDialled('queues', queueId);
      return links.pipe(instance, await told(queueId, opening));
    });

    app.get(LINK_PATHS.viewer, async (context) => {
      const [instance, queueId] = [instanceOf(context), queueOf(context)];
      const opening = context.env.objects.fleet(queueId).watch(openedOf(context), context.req.raw);
      noteDialled('fleets', queueId);
      return links.pipe(instance, await told(queueId, opening));
    });

    app.get(LINK_PATHS.file, async (context) => {
      const queueId = queueOf(context);
      const id = needed(context.req.query('id'), 'id');
      return ofObject(await told(queueId, context.env.objects.files(queueId).content(id)));
    });

    app.get(LINK_PATHS.replay, async (context) => {
      const worker = needed(context.req.query('worker'), 'worker');
      const stream = Number(needed(context.req.query('stream'), 'stream'));
      const relay = context.env.objects.relay(queueOf(context), worker);
      return ofObject(await relay.openReplay(stream, {}, context.req.raw.signal));
    });
  };
}

/**
 * Refuses the sign-in of a page: a page reads no prompts unless QUEUE_SHOW_PAYLOADS lets it, and these routes would show
 * it more than that.
 */
const refusePage: MiddlewareHandler<Environment> = async (context, next) => {
  if (context.get('token')?.signed_in !== undefined) {
    const message = 'A gateway process shows a token of its own; the sign-in of a page is none.';
    throw new HttpError(403, message, 'scope_missing');
  }
  await next();
};

function queueOf(context: GatewayContext): string {
  return needed(context.req.query('queue'), 'queue');
}

function instanceOf(context: GatewayContext): string {
  requireUpgrade(context, 'This address is for sockets that gateway processes pass on.');
  return needed(context.req.query('instance'), 'instance');
}

/** Returns what the gateway process says of a socket's peer. */
function openedOf<Opened>(context: GatewayContext): Opened {
  const text = Buffer.from(needed(context.req.header(OPENED_HEADER), OPENED_HEADER), 'base64url').toString();
  return JSON.parse(text) as Opened;
}

function needed(value: string | undefined, name: string): string {
  if (value !== undefined) return value;
  throw new HttpError(400, `The request of a gateway process lacks ${name}.`, 'invalid_link');
}

/** Waits for the answer of an object, and turns its errors into those that callers get. */
async function told(queueId: string, answer: Promise<Response>): Promise<Response> {
  try {
    return await answer;
  } catch (error) {
    throw toldFault(error, queueId);
  }
}

/** Marks a response that is an object's, and not the owner's for a request that failed. */
function ofObject(response: Response): Response {
  response.headers.set(OBJECT_HEADER, '1');
  return response;
}
