import type { Objects } from '../../../../../src/asking/objects.ts';
import { errorResponse, toHttpError } from '../../../../../src/gateway/errors.ts';
import { Gateway } from '../../../../../src/gateway/routes/route.ts';
import { createServer, type RunningServer } from '../../../../../src/host/node/http/server.ts';
import { acceptUpgrade } from '../../../../../src/host/node/http/upgrade.ts';
import { Bodies } from '../../../../../src/host/node/link/bodies.ts';
import { Link, type LinkParts } from '../../../../../src/host/node/link/link.ts';
import { Links } from '../../../../../src/host/node/link/links.ts';
import type { Push, Welcome } from '../../../../../src/host/node/link/messages.ts';
import { Pipes } from '../../../../../src/host/node/link/pipes.ts';
import { linkRoutes } from '../../../../../src/host/node/link/routes.ts';
import { linkedObjects } from '../../../../../src/host/node/link/stubs.ts';

/** An owner of played objects, which gateway processes link to over real sockets. */
export interface Owner {
  links: Links;
  server: RunningServer;
  close(): Promise<void>;
}

/**
 * @param port of an owner that was there before; left out: a free one
 * @param problem why the objects must not be asked
 * @param settings what gateway processes are told beside the usual
 */
export async function startOwner(
  objects: Partial<Objects>,
  port = 0,
  problem: () => Error | null = () => null,
  settings: Record<string, string> = {},
): Promise<Owner> {
  const links = new Links({
    objects: () => objects as Objects,
    welcome: () => ({
      bindings: { TOKENS: '[]', FILE_KEY_SECRET: 'secret', ...settings },
      peers_secret: 'peers',
    }),
    problem,
    peers: () => {},
    log: () => {},
  });
  const app = new Gateway();
  linkRoutes(links)(app);
  app.onError((error) => errorResponse(toHttpError(error)));
  const env = { objects: objects as Objects, acceptUpgrade };
  const server = await createServer({
    host: '127.0.0.1',
    port,
    fetch: (request, waitUntil) =>
      app.fetch(request, env, { waitUntil, passThroughOnException: () => {}, props: {} }),
  });
  const close = async () => {
    links.close();
    await server.close(0);
  };
  return { links, server, close };
}

export interface Linked {
  link: Link;
  pipes: Pipes;
  objects: Objects;
  welcomes: Welcome[];
  pushes: Push[];
  lines: string[];
  close(): Promise<void>;
}

/** A gateway process's end, not started yet. */
export function linkTo(urls: string[], parts: Partial<LinkParts> = {}): Linked {
  const welcomes: Welcome[] = [];
  const pushes: Push[] = [];
  const lines: string[] = [];
  const link = new Link({
    urls,
    token: null,
    instance: crypto.randomUUID(),
    address: null,
    port: 1234,
    figures: () => ({}),
    welcomed: (welcome) => welcomes.push(welcome),
    pushed: (push) => pushes.push(push),
    lost: () => pipes.close(),
    log: (_level, line) => lines.push(line),
    ...parts,
  });
  const pipes = new Pipes(link);
  const bodies = new Bodies(link);
  const objects = linkedObjects({ link, bodies, pipes, relay: () => ({}) as never });
  const close = async () => {
    link.close();
    pipes.close();
    await bodies.close();
  };
  return { link, pipes, objects, welcomes, pushes, lines, close };
}

/** What a test has opened. */
export const open: { close(): Promise<void> }[] = [];

/** Closes what a test has opened, the newest first. */
export async function closeOpened(): Promise<void> {
  for (const one of open.splice(0).reverse()) await one.close();
}

/** Opens an owner whose objects of a queue have these calls. @param port as for `startOwner` */
export async function owner(queue: Record<string, unknown>, port?: number): Promise<Owner> {
  const started = await startOwner({ queue: () => queue as never, files: () => queue as never }, port);
  open.push(started);
  return started;
}

/** Opens a gateway process's end, and waits for its first welcome. */
export async function linked(...to: Parameters<typeof linkTo>): Promise<Linked> {
  const made = linkTo(...to);
  open.push(made);
  await made.link.start();
  return made;
}
