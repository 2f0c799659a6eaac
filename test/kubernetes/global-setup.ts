import { execFileSync } from 'node:child_process';
import { ensureDocker } from '../../scripts/docker/setup.ts';
import { ensureCluster } from '../../scripts/kubernetes/setup.ts';
import { freshPrograms } from '../../scripts/programs.ts';
import { build, ENGINE_VERSION, IMAGES } from '../docker/images.ts';
import { QUEUE_IMAGE, WORKER_IMAGE } from './cluster.ts';

/** Finds or starts a cluster and builds the images for its pods, before any hook's limit runs. */
export default async function setup(): Promise<() => Promise<void>> {
  await freshPrograms();
  const cluster = await ensureCluster();
  process.env.TEST_HOST_ADDRESS = cluster.address;
  if (cluster.folder === null) return cluster.release;
  process.env.TEST_CLUSTER_FOLDER = cluster.folder;
  try {
    const { nodeVersion: NODE_VERSION } = ensureDocker();
    build('test/docker/engine', IMAGES.engine, { NODE_VERSION });
    build('.', QUEUE_IMAGE, { NODE_VERSION }, 'deploy/Dockerfile.queue');
    build('.', WORKER_IMAGE, { NODE_VERSION, VLLM_VERSION: ENGINE_VERSION });
    execFileSync('docker', ['image', 'prune', '--force'], { stdio: 'ignore' });
    return cluster.release;
  } catch (error) {
    await cluster.release();
    throw error;
  }
}
