import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import {
  expand,
  isIgnored,
  parseDockerfile,
  readIgnoreRules,
  stageChain,
} from '../../../scripts/dockerfile.ts';
import { stageImage } from '../../../scripts/stage-image.ts';

const root = mkdtempSync(join(tmpdir(), 'staged-image-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe('the reader of Dockerfiles', () => {
  const SOURCE = `
ARG ENGINE=one
ARG MODEL=
FROM images/one:1 AS engine-one
FROM images/two:2 AS engine-two
ENV KIND=two
FROM engine-\${ENGINE} AS worker
RUN first && \\
    # a remark
    second
FROM worker AS image-baked
COPY model /model
FROM worker AS image
FROM image\${MODEL:+-baked}
`;

  it('follows stages to the image at the bottom, by the build arguments', () => {
    const chain = (args: Record<string, string>) => stageChain(parseDockerfile(SOURCE, args));
    expect(chain({})).toEqual({
      base: 'images/one:1',
      instructions: [{ keyword: 'RUN', text: 'first && second' }],
    });
    const other = chain({ ENGINE: 'two', MODEL: 'some' });
    expect(other.base).toBe('images/two:2');
    expect(other.instructions.map(({ keyword }) => keyword)).toEqual(['ENV', 'RUN', 'COPY']);
  });

  it('expands variables as Docker does', () => {
    const variables = { given: 'value', empty: '' };
    const text = `$given \${given} \${empty:-other} \${given:+set} [\${empty:+set}]`;
    expect(expand(text, variables)).toBe('value value other set []');
  });

  it('keeps what the last matching rule of .dockerignore keeps', () => {
    const rules = readIgnoreRules('# remark\n*\n!src\n**/*.log\n!scripts/one.py\n');
    const kept = ['src/a.ts', 'src/deep/b.ts', 'scripts/one.py', 'test/a.ts', 'src/deep/x.log', '.env'];
    expect(kept.filter((path) => !isIgnored(path, rules))).toEqual(kept.slice(0, 3));
  });
});

describe("the worker's Dockerfile", () => {
  const source = readFileSync(join(import.meta.dirname, '../../../Dockerfile'), 'utf8');
  const chain = (args: Record<string, string>) => stageChain(parseDockerfile(source, args));

  it('copies the program, what it needs to run and nothing else', () => {
    const image = stageImage('Dockerfile', root);
    const app = join(root, 'opt/worker-vllm');
    expect(image.entrypoint).toEqual(['/opt/worker-vllm/entrypoint.sh']);
    expect(readdirSync(app).sort()).toEqual(['LICENSE', 'bin', 'dist', 'entrypoint.sh', 'package.json']);
  });

  it.each(['Dockerfile', 'Dockerfile.queue'])('%s puts the command on the PATH', (file) => {
    const image = join(root, file);
    stageImage(file, image);
    const text = readFileSync(join(import.meta.dirname, '../../..', file), 'utf8');
    const runs = stageChain(parseDockerfile(text)).instructions.map((instruction) => instruction.text);
    const [, program, command] = /ln -s (\S+) (\S+)/.exec(runs.join('\n')) ?? [];
    expect(command).toBe('/usr/local/bin/worker-vllm');
    mkdirSync(join(image, 'usr/local/bin'), { recursive: true });
    symlinkSync(join(image, program!), join(image, command!));
    const { stdout, stderr } = spawnSync(join(image, command!), ['--help'], { encoding: 'utf8' });
    expect(stdout, stderr).toContain('health');
  });

  it('has no queue, and says where there is one', () => {
    const program = join(root, 'opt/worker-vllm/bin/worker-vllm.js');
    const { status, stderr } = spawnSync(process.execPath, [program, 'queue', '--port', '0'], {
      cwd: root,
      encoding: 'utf8',
    });
    expect(stderr).toContain('Dockerfile.queue');
    expect(status).toBe(2);
  });

  it('builds upon the engine asked for', () => {
    expect(chain({}).base).toMatch(/^vllm\/vllm-openai:v\d+\.\d+\.\d+$/);
    expect(chain({ ENGINE: 'fastdeploy' }).base).toContain('fastdeploy');
    expect(chain({ ENGINE: 'fastdeploy' }).instructions).toContainEqual({
      keyword: 'ENV',
      text: 'ENGINE=fastdeploy',
    });
  });

  it('takes a model in, and goes offline, only when one is named', () => {
    const texts = (args: Record<string, string>) => chain(args).instructions.map(({ text }) => text);
    expect(texts({ MODEL_NAME: 'owner/model' })).toContain('HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1');
    expect(texts({}).join('\n')).not.toContain('HF_HUB_OFFLINE');
  });
});
