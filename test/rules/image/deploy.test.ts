import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { ENGINE_STOP_MS, WORKER_MARGIN_MS } from '../../../src/supervisor/decide.ts';

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
      const whole = grace + (WORKER_MARGIN_MS + ENGINE_STOP_MS) / 1000;
      expect(whole).toBeLessThan(window);
      expect(read(file), 'the sum in its comment').toContain(`= ${whole} s`);
    },
  );

  it('names only variables that something reads', () => {
    const sources = readdirSync(join(REPOSITORY, 'src'), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .map((file) => read(join('src', file)))
      .join('\n');
    const files = [...Object.keys(KILL_WINDOWS), 'deploy/kubernetes/queue.yaml'];
    const names = new Set(
      files.flatMap((file) => read(file).match(/\b(?:CASOLA|VLLM|QUEUE)_[A-Z_]+\b/g) ?? []),
    );
    // The scripts' own argument, and a variable of vLLM.
    for (const known of ['QUEUE_TOKEN', 'VLLM_CACHE_ROOT']) names.delete(known);
    expect([...names].filter((name) => !sources.includes(name))).toEqual([]);
  });

  it('has one version of an engine everywhere', () => {
    for (const name of ['VLLM_VERSION', 'FASTDEPLOY_VERSION']) {
      const pinned = new RegExp(`${name}=([\\d.]+)`).exec(read('Dockerfile'))?.[1];
      expect(read('docker-bake.hcl')).toContain(`variable "${name}" {\n  default = "${pinned}"`);
    }
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
