import { mkdirSync } from 'node:fs';
import { createServer } from '../../../src/host/node/http/server.ts';
import { HeldObjects } from '../../../src/host/node/objects/held-objects.ts';
import type { Caller } from '../../../src/host/node/objects/life.ts';
import { OpenObjects } from '../../../src/host/node/objects/open-objects.ts';
import { stubsOf } from '../../../src/host/node/objects/stubs.ts';
import { Probe, type ProbeCalls } from '../probe.ts';
import { answerOf } from './answer.ts';
import { endWithParent } from './end-with-parent.ts';

/** Probes in one process of Node: `node.ts PORT FOLDER`. */
const [port, folder] = process.argv.slice(2) as [string, string];
endWithParent();
mkdirSync(folder, { recursive: true });
const stubs = stubsOf({ prototype: Probe.prototype, opens: 'connect' });
const stubOf = (queueId: string, caller: Caller | null) => stubs({ held: held.of('probe', queueId), caller });
const held = new HeldObjects({
  dataDir: folder,
  open: new OpenObjects(1000),
  make: (_kind, host, caller) =>
    new Probe(host, (queueId) => stubOf(queueId, caller) as unknown as ProbeCalls),
  log: (...line) => console.log(JSON.stringify(line)),
  fatal: (error) => {
    console.error(error);
    process.exit(1);
  },
});

/** Answers the calls of a probe over HTTP, as workerd-entry.ts does. */
async function answer(request: Request): Promise<Response> {
  const { pathname, searchParams } = new URL(request.url);
  const [queueId, name] = [searchParams.get('id')!, pathname.slice(1)];
  const stub = stubOf(queueId, null);
  if (request.headers.has('upgrade')) return (await stub.connect!({ name })) as Response;
  const asked = (await request.json()) as unknown[];
  return Response.json(await answerOf(() => stub[name]!(...asked)));
}

await held.wakeAll();
await createServer({ host: '127.0.0.1', port: Number(port), fetch: answer });
console.log('ready');
