import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, symlinkSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { CoreV1Api, KubeConfig } from '@kubernetes/client-node';
import { UserError } from '../../src/process/index.ts';
import { SetupSteps } from '../setup-steps.ts';
import { Services } from './services.ts';

/** A cluster for tests, which `KUBECONFIG` of this process's environment names. */
export interface TestCluster {
  /** Where pods reach this machine. */
  address: string;
  /** The folder of a cluster of our own; null: it is somebody else's, and its processes are not ours to stop. */
  folder: string | null;
  release(): Promise<void>;
}

const UP_MS = 180_000;

const setup = new SetupSteps('kubernetes');

/**
 * The cluster that `KUBECONFIG` names, with `TEST_HOST_ADDRESS` where its pods reach this machine. Else, on Debian as
 * root, one of our own, of programs that are compiled once a machine; it ends with this process at the latest.
 * `~/.kube/config` is not looked at: nobody's cluster is taken for a test without being asked.
 * @throws UserError where neither is possible
 */
export async function ensureCluster(): Promise<TestCluster> {
  const { KUBECONFIG, TEST_HOST_ADDRESS } = process.env;
  if (!KUBECONFIG) return await ownCluster();
  if (!TEST_HOST_ADDRESS) {
    throw new UserError(
      'KUBECONFIG is set: set TEST_HOST_ADDRESS too, the address at which pods of that cluster reach this machine, or unset KUBECONFIG for a cluster of our own.',
    );
  }
  return { address: TEST_HOST_ADDRESS, folder: null, release: async () => {} };
}

async function ownCluster(): Promise<TestCluster> {
  const programs = await ensurePrograms();
  const folder = mkdtempSync(join(tmpdir(), 'wv-kubernetes-'));
  // Also where this process is killed.
  const whenGone = 'while [ -d "/proc/$0" ]; do sleep 1; done; exec "$@"';
  const down = [script('cluster.sh'), 'down', folder];
  spawn('sh', ['-c', whenGone, String(process.pid), ...down], { detached: true, stdio: 'ignore' }).unref();
  let services: Services | undefined;
  const release = async () => {
    await services?.close();
    spawnSync(down[0]!, down.slice(1), { stdio: ['ignore', 'inherit', 'inherit'] });
  };
  setup.say(`starting a cluster of our own in ${folder}`);
  try {
    const prepare = ['prepare', folder, join(programs, 'bin')];
    const [address = ''] = run(prepare).trim().split('\n');
    process.env.KUBECONFIG = join(folder, 'kubeconfig');
    process.env.DOCKER_HOST = `unix://${join(folder, 'docker/docker.sock')}`;
    // The first `docker` on the PATH may be a newer one that cannot build.
    mkdirSync(join(folder, 'commands'));
    symlinkSync('/usr/bin/docker', join(folder, 'commands/docker'));
    process.env.PATH = `${join(folder, 'commands')}:${process.env.PATH}`;
    run(['start', folder, 'etcd', 'kube-apiserver']);
    const config = await untilUp(folder, async () => {
      const loaded = new KubeConfig();
      loaded.loadFromFile(process.env.KUBECONFIG!);
      await loaded.makeApiClient(CoreV1Api).listNamespace();
      return loaded;
    });
    run(['start', folder, 'kube-controller-manager', 'kube-scheduler', 'kubelet']);
    services = new Services(config, address);
    const api = config.makeApiClient(CoreV1Api);
    await untilUp(folder, async () => {
      // Pods are refused until the controllers have made it.
      await api.readNamespacedServiceAccount({ name: 'default', namespace: 'default' });
      const { status } = await api.readNode({ name: 'node' });
      const ready = status?.conditions?.find(({ type }) => type === 'Ready');
      if (ready?.status !== 'True') throw new Error(`the node is not ready: ${ready?.message}`);
      return true;
    });
    return { address, folder, release };
  } catch (error) {
    await release();
    throw error;
  }
}

async function untilUp<T>(folder: string, probe: () => Promise<T>): Promise<T> {
  const until = Date.now() + UP_MS;
  for (;;) {
    try {
      return await probe();
    } catch (error) {
      if (Date.now() > until) {
        throw new UserError(`The cluster in ${folder} did not come up: ${(error as Error).message}`);
      }
    }
    await sleep(300);
  }
}

/** Kubernetes' programs, compiled where they are missing, beside the clones of a machine: once for all of them. */
async function ensurePrograms(): Promise<string> {
  if (process.getuid?.() !== 0 || !existsSync('/etc/debian_version')) {
    throw new UserError(
      'The tests of Kubernetes need KUBECONFIG, a cluster that they may use, or Debian 12 and root for one of their own.',
    );
  }
  const cache = process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache');
  const home = join(cache, 'worker-vllm-tests/kubernetes-1.20');
  mkdirSync(home, { recursive: true });
  const unlock = await setup.lock(join(home, 'lock.sqlite'));
  try {
    await setup.step('compiling Kubernetes, once a machine', join(home, 'build.log'), script('build.sh'), [
      home,
    ]);
  } finally {
    unlock();
  }
  return home;
}

function run(args: string[]): string {
  return execFileSync(script('cluster.sh'), args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
}

function script(name: string): string {
  return join(import.meta.dirname, name);
}

if (import.meta.main) {
  try {
    if (!process.env.KUBECONFIG) await ensurePrograms();
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    console.error(error.message);
    process.exitCode = error.exitCode;
  }
}
