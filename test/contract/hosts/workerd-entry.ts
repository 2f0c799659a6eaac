import { shellOf } from '../../../src/host/cloudflare/shell.ts';
import { Probe, type ProbeCalls } from '../probe.ts';
import { answerOf } from './answer.ts';

interface Env {
  PROBE: DurableObjectNamespace;
}

const PEER_HEADER = 'x-peer';
const stubOf = (env: Env, queueId: string) => env.PROBE.get(env.PROBE.idFromName(queueId));

/** The probe as a Durable Object. */
export class ProbeObject extends shellOf({
  hosted: Probe,
  make: (host: ConstructorParameters<typeof Probe>[0], env: Env) =>
    new Probe(host, (queueId) => stubOf(env, queueId) as unknown as ProbeCalls),
  namespace: (env) => env.PROBE,
  opened: (request) => ({ name: request.headers.get(PEER_HEADER)! }),
}) {}

/** `POST /<call>?id=<queue id>` with a list of arguments, and `GET /<peer>?id=<queue id>` for a socket. */
export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    const [queueId, name] = [searchParams.get('id')!, pathname.slice(1)];
    const stub = stubOf(env, queueId);
    if (request.headers.has('upgrade')) {
      const headers = new Headers(request.headers);
      headers.set(PEER_HEADER, name);
      return await stub.fetch('https://probe/', { headers });
    }
    const asked = (await request.json()) as unknown[];
    const calls = stub as unknown as Record<string, (...asked: unknown[]) => Promise<unknown>>;
    return Response.json(await answerOf(async () => await calls[name]!(...asked)));
  },
};
