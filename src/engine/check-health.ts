import { EXIT } from '../process/index.ts';
import { createEngineClient } from './client/client.ts';
import { readEngineConfiguration } from './command/configuration.ts';
import { readSettledEnvironment } from './command/flag-names.ts';
import { describeEngine } from './kinds/index.ts';

/** The time limit of the probe, ms, below the time-out of the image's HEALTHCHECK. */
const PROBE_MS = 5000;

/**
 * Runs `worker-vllm health`, which asks the engine of this environment once, for a container's health check.
 * @returns 0 when the engine is healthy, 1 when it is not: Docker knows no other codes
 */
export async function checkHealth(env: NodeJS.ProcessEnv): Promise<number> {
  const { engine, url, apiKey } = readEngineConfiguration(readSettledEnvironment(env).env);
  const client = createEngineClient({ baseUrl: url, apiKey, engine: describeEngine(engine) });
  const probe = await client.probe(PROBE_MS);
  process.stdout.write(`the engine at ${url}: ${probe}\n`);
  return probe === 'healthy' ? EXIT.ok : EXIT.unexpected;
}
