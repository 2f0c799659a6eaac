import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { ensureDocker } from '../../scripts/docker/setup.ts';
import { freshPrograms } from '../../scripts/programs.ts';
import { build, ENGINE_VERSION, IMAGES } from './images.ts';

/** Finds or starts a daemon and builds all images, before any hook's limit runs. */
export default async function setup(): Promise<() => void> {
  await freshPrograms();
  const docker = ensureDocker();
  const NODE_VERSION = docker.nodeVersion;
  process.env.TEST_NODE_VERSION = NODE_VERSION;
  const remove = () => {
    try {
      execFileSync('docker', ['image', 'rm', '--force', ...Object.values(IMAGES)], { stdio: 'ignore' });
    } finally {
      docker.release();
    }
  };
  try {
    build(join(import.meta.dirname, 'engine'), IMAGES.engine, { NODE_VERSION });
    build(join(import.meta.dirname, 'sleeper'), IMAGES.sleeper, { NODE_VERSION });
    build('.', IMAGES.queue, { NODE_VERSION }, 'deploy/Dockerfile.queue');
    build('.', IMAGES.worker, { NODE_VERSION, VLLM_VERSION: ENGINE_VERSION });
    return remove;
  } catch (error) {
    remove();
    throw error;
  }
}
