import { FakeServerless, type FakeServerlessOptions } from './fake-serverless.ts';
import { until } from './poll.ts';
import { freePort } from './ports.ts';
import type { Child } from './processes.ts';
import { cli, stateFolder } from './road.ts';

/** A worker of ours in an endpoint of the fake platform, started as its image starts. */
export interface ServerlessWorker {
  process: Child;
  engineUrl: string;
}

const platforms: FakeServerless[] = [];
const workers: Child[] = [];

/** For `afterEach`. */
export async function endAll(): Promise<void> {
  // SIGTERM would not do: a worker waits for its jobs, and these never end.
  await Promise.all(
    workers.splice(0).map((worker) => {
      worker.kill('SIGKILL');
      return worker.stop();
    }),
  );
  for (const platform of platforms.splice(0)) platform.close();
}

export async function startPlatform(
  options?: FakeServerlessOptions,
): Promise<{ platform: FakeServerless; endpoint: Record<string, string> }> {
  const platform = new FakeServerless(options);
  platforms.push(platform);
  // Its workers have one disk, and none of another endpoint.
  return { platform, endpoint: { ...(await platform.listen()), XDG_STATE_HOME: stateFolder() } };
}

/** `worker-vllm supervise` with the variables that RunPod sets and the names of RunPod's worker; not waited for. */
export async function startServerlessWorker(
  endpoint: Record<string, string>,
  { engineArgs = '', env = {} }: { engineArgs?: string; env?: NodeJS.ProcessEnv } = {},
): Promise<ServerlessWorker> {
  const port = await freePort();
  const process = cli(
    ['supervise'],
    {
      ...endpoint,
      ENGINE: 'simulator',
      MODEL_NAME: 'tiny',
      VLLM_PORT: String(port),
      VLLM_EXTRA_ARGS: engineArgs,
      ...env,
    },
    'serverless worker',
  );
  workers.push(process);
  return { process, engineUrl: `http://127.0.0.1:${port}` };
}

/** Platform and worker, the worker asking for jobs. */
export async function startEndpoint(
  options: FakeServerlessOptions & { engineArgs?: string; env?: NodeJS.ProcessEnv } = {},
) {
  const { platform, endpoint } = await startPlatform(options);
  const worker = await startServerlessWorker(endpoint, options);
  await Promise.race([
    until(() => platform.of('take').length > 0, 'the worker asks for jobs'),
    worker.process.exited.then(({ code }) => {
      throw new Error(`the worker ended with ${code}:\n${worker.process.output()}`);
    }),
  ]);
  return { platform, endpoint, ...worker };
}
