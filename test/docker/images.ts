import { execFileSync } from 'node:child_process';
import { resolve } from 'node:path';

const REPOSITORY = resolve(import.meta.dirname, '../..');

/** No version of vLLM: its image has some ten gigabytes and needs a GPU. */
export const ENGINE_VERSION = 'stand-in';

export const IMAGES = {
  engine: `vllm/vllm-openai:v${ENGINE_VERSION}`,
  queue: 'worker-vllm-test-queue:latest',
  worker: 'worker-vllm-test:latest',
  /** Starts at once and sleeps: for what is the driver's affair alone. */
  sleeper: 'worker-vllm-test-sleeper:latest',
};

/**
 * Builds an image.
 * @param folder its context, as seen from the repository
 * @throws Error with what the build printed
 */
export function build(
  folder: string,
  tag: string,
  args: Record<string, string>,
  file = 'Dockerfile',
  more: string[] = [],
): void {
  const given = Object.entries(args).flatMap(([name, value]) => ['--build-arg', `${name}=${value}`]);
  const context = resolve(REPOSITORY, folder);
  execFileSync(
    'docker',
    // A daemon of our own has no way out but the machine's network.
    [
      'build',
      '--quiet',
      '--network',
      'host',
      '--tag',
      tag,
      '--file',
      resolve(context, file),
      ...given,
      ...more,
      context,
    ],
    { env: { ...process.env, DOCKER_BUILDKIT: '1' }, stdio: ['ignore', 'ignore', 'pipe'], encoding: 'utf8' },
  );
}
