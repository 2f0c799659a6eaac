import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { longestWayDownMs, wayDownMs } from '../../../src/process/way-down.ts';

const REPOSITORY = join(import.meta.dirname, '../../..');
const read = (path: string) => readFileSync(join(REPOSITORY, path), 'utf8');
const folder = mkdtempSync(join(tmpdir(), 'deploy-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('what platforms start from', () => {
  /** Seconds from SIGTERM to SIGKILL: as the file sets it, else as `docker stop` has it. */
  const KILL_WINDOWS: Record<string, number> = {
    'deploy/compose.yaml': figure('deploy/compose.yaml', /worker:\n[\s\S]*?stop_grace_period: (\d+)s/),
    'deploy/kubernetes/worker.yaml': figure(
      'deploy/kubernetes/worker.yaml',
      /terminationGracePeriodSeconds: (\d+)/,
    ),
    'deploy/runpod.sh': 10,
    'deploy/vast.sh': 10,
  };

  it.each(Object.entries(KILL_WINDOWS))(
    '%s leaves a worker the time that it takes to end',
    (file, window) => {
      const grace = figure(file, /CASOLA_SHUTDOWN_GRACE_PERIOD\W+(?:value: ")?(\d+)\b(?! s)/);
      const whole = wayDownMs(grace * 1000) / 1000;
      expect(whole).toBeLessThan(window);
      const longest = longestWayDownMs(grace * 1000) / 1000;
      if (read(file).includes('had to be killed')) {
        expect(read(file), 'the longest way in its comment').toContain(`killed: ${longest} s`);
        expect(longest).toBeLessThan(window);
      }
      expect(read(file), 'the sum in its comment').toContain(`= ${whole} s`);
      expect(read('docs/deploying.md'), 'the sum in the documentation').toContain(`| ${whole} s |`);
    },
  );

  it('names only variables that something reads', () => {
    const sources = readdirSync(join(REPOSITORY, 'src'), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .map((file) => read(join('src', file)))
      .join('\n');
    const manifests = ['queue', 'launcher'].map((name) => `deploy/kubernetes/${name}.yaml`);
    const files = [...Object.keys(KILL_WINDOWS), ...manifests];
    const names = new Set(
      files.flatMap((file) => read(file).match(/\b(?:CASOLA|VLLM|QUEUE)_[A-Z_]+\b/g) ?? []),
    );
    // The scripts' own argument, and a variable of vLLM.
    for (const known of ['QUEUE_TOKEN', 'VLLM_CACHE_ROOT']) names.delete(known);
    expect([...names].filter((name) => !sources.includes(name))).toEqual([]);
  });

  it('gives the launcher the rights to pods that its driver uses, and no others', () => {
    const documents = parseAllDocuments(read('deploy/kubernetes/launcher.yaml')).map((one) => one.toJSON());
    const role = documents.find(({ kind }) => kind === 'Role');
    const verbs = ['create', 'get', 'list', 'delete'];
    expect(role.rules).toEqual([{ apiGroups: [''], resources: ['pods'], verbs }]);
    const driver = read('src/providers/kubernetes/kubernetes.ts');
    const used = [...driver.matchAll(/\.#api\.(create|read|list|delete)NamespacedPod\(/g)].map(
      ([, verb]) => verb,
    );
    expect(used.sort()).toEqual(['create', 'delete', 'list', 'read']);
  });

  it('has one version of an engine everywhere', () => {
    for (const name of ['VLLM_VERSION', 'SGLANG_VERSION', 'LLAMA_CPP_VERSION', 'FASTDEPLOY_VERSION']) {
      const pinned = new RegExp(`${name}=(b?[\\d.]+)`).exec(read('Dockerfile'))?.[1];
      expect(read('deploy/docker-bake.hcl')).toContain(`variable "${name}" {\n  default = "${pinned}"`);
    }
  });
});

describe('the scripts for clouds', () => {
  function dryRun(file: string, env: NodeJS.ProcessEnv): { status: number | null; output: string } {
    const keys = { OFFER: '1', QUEUE_TOKEN: 't', RUNPOD_API_KEY: 'k' };
    const given = {
      PATH: process.env.PATH,
      DRY_RUN: '1',
      ...keys,
      IMAGE: 'registry.example.com/me/worker-vllm',
    };
    const { status, stdout, stderr } = spawnSync(join(REPOSITORY, file), {
      env: { ...given, ...env },
      encoding: 'utf8',
    });
    return { status, output: stdout + stderr };
  }

  it.each(['deploy/runpod.sh', 'deploy/vast.sh'])('%s asks for the whole address of the queue', (file) => {
    const wrong = dryRun(file, { MODEL: 'm', QUEUE: 'queue.example.com' });
    expect(wrong).toMatchObject({ status: 2, output: expect.stringContaining('https://') });
    const right = dryRun(file, { MODEL: 'm', QUEUE: 'https://queue.example.com' });
    expect(right).toMatchObject({ status: 0, output: expect.stringContaining('wss://queue.example.com') });
  });

  it.each(['deploy/runpod.sh', 'deploy/vast.sh'])('%s asks for an image, since none is published', (file) => {
    const { status, output } = dryRun(file, { MODEL: 'm', QUEUE: 'https://queue.example.com', IMAGE: '' });
    expect([status === 0, output]).toEqual([
      false,
      expect.stringContaining('IMAGE: the image of the worker'),
    ]);
  });

  it("writes a template in the form of RunPod's REST v2", () => {
    const { output } = dryRun('deploy/runpod.sh', { MODEL: 'm', QUEUE: 'https://queue.example.com' });
    const { env, ...template } = JSON.parse(output);
    expect(env).toMatchObject({ VLLM_MODEL: 'm', CASOLA_WS_URL: 'wss://queue.example.com' });
    expect(template).toEqual({
      name: 'worker-vllm',
      image: 'registry.example.com/me/worker-vllm',
      disk: 20,
      mounts: { persistent: { size: 100, path: '/runpod-volume' } },
      startSsh: false,
      startJupyter: false,
    });
  });

  it('keep a value with a blank in it together', () => {
    const { output } = dryRun('deploy/vast.sh', { MODEL: '/models/my model', QUEUE: 'http://q' });
    expect(output).toContain("-e VLLM_MODEL='/models/my model'");
  });
});

describe('build.sh', () => {
  /** Its call of docker, one argument a line. */
  function build(env: NodeJS.ProcessEnv, ...args: string[]): string[] {
    const docker = join(folder, 'docker');
    writeFileSync(docker, '#!/bin/sh\nprintf "%s\\n" "$@"\n');
    chmodSync(docker, 0o755);
    const output = execFileSync(join(REPOSITORY, 'build.sh'), args, {
      env: { PATH: `${folder}:${process.env.PATH}`, ...env },
      encoding: 'utf8',
    });
    return output.trim().split('\n');
  }

  it('builds the worker under our name unless told another', () => {
    expect(build({})).toContain('ghcr.io/worker-vllm/worker-vllm:latest');
    expect(build({ IMAGE_NAME: 'my-worker', IMAGE_TAG: 'v1.0' })).toContain('my-worker:v1.0');
  });

  it('hands on build arguments, and a token only as a secret', () => {
    const call = build({ HF_TOKEN: 'hf_secret' }, '--build-arg', 'MODEL_NAME=a/b c');
    expect(call).toEqual(expect.arrayContaining(['id=HF_TOKEN,env=HF_TOKEN', 'MODEL_NAME=a/b c']));
    expect(call.join('\n')).not.toContain('hf_secret');
  });
});

function figure(file: string, pattern: RegExp): number {
  const found = pattern.exec(read(file))?.[1];
  if (found === undefined) throw new Error(`${file} has no ${pattern}`);
  return Number(found);
}
