import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { checkHealth } from '../engine/check-health.ts';
import { reasonOf } from '../process/http.ts';
import { EXIT } from '../process/index.ts';
import { dialableHost } from '../process/network.ts';
import { DEFAULT_QUEUE_URL } from './command-line.ts';
import { print } from './terminal.ts';

/** The time limit of the probe, ms, below that of the images' HEALTHCHECK. */
const PROBE_MS = 4000;

/**
 * Runs `worker-vllm health`, for a container's health check: whether the container's program does its work. The command
 * line of process 1 names that program, since both images run several and the check is part of the image: a queue and
 * a gateway have to answer, a launcher has to reach its queue, a worker's engine has to be healthy.
 * @returns 0 when the program is healthy, 1 when it is not: Docker knows no other codes
 */
export async function runHealth(env: NodeJS.ProcessEnv): Promise<number> {
  const commandLine = commandLineOfFirst();
  const program = commandLine.findIndex((word) => /(^|\/)worker-vllm(\.js)?$/.test(word));
  const [command, ...args] = program < 0 ? [] : commandLine.slice(program + 1);
  const { values } = parseArgs({
    args,
    strict: false,
    options: { host: { type: 'string' }, port: { type: 'string' }, url: { type: 'string' } },
  });
  // Without `strict` an option without a value is `true`, which the command itself has refused.
  const { host, port, url } = values as Record<string, string | undefined>;
  switch (command) {
    case 'queue':
    case 'up':
      return await answers(addressOf(host ?? env.QUEUE_HOST, port ?? env.QUEUE_PORT));
    case 'gateway':
      return await answers(addressOf(host ?? env.GATEWAY_HOST, port ?? env.GATEWAY_PORT));
    case 'launcher':
      return await answers(url ?? (env.QUEUE_URL?.trim() || DEFAULT_QUEUE_URL));
    default:
      return await checkHealth(env);
  }
}

/** Returns the address at which this machine reaches a program that was given these, or has its usual ones. */
function addressOf(host: string | undefined, port: string | undefined): string {
  return `http://${dialableHost(host?.trim() || '127.0.0.1')}:${port?.trim() || 8788}`;
}

async function answers(url: string): Promise<number> {
  try {
    const { ok, status } = await fetch(`${url.replace(/\/+$/, '')}/health`, {
      signal: AbortSignal.timeout(PROBE_MS),
    });
    print(`the queue at ${url}: ${ok ? 'healthy' : `HTTP ${status}`}`);
    return ok ? EXIT.ok : EXIT.unexpected;
  } catch (error) {
    print(`the queue at ${url}: ${reasonOf(error)}`);
    return EXIT.unexpected;
  }
}

/** Returns the command line of process 1; empty without `/proc`, where there is no container. */
function commandLineOfFirst(): string[] {
  try {
    return readFileSync('/proc/1/cmdline', 'utf8').split('\0');
  } catch {
    return [];
  }
}
