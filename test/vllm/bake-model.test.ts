import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ensureVllm } from '../../scripts/vllm/setup.ts';
import { stateFolder, tearDown } from '../support/road.ts';

/** The step of the Dockerfile that puts a model into an image, with the hub's own client and a hub of ours. */

const SCRIPT = join(import.meta.dirname, '../../scripts/bake_model.py');
const COMMIT = 'c0ffee'.padEnd(40, '0');
const REPOSITORIES: Record<string, string[]> = {
  'owner/model': ['config.json', 'model.safetensors', 'pytorch_model.bin', 'original/weights.pth'],
  'owner/twice': ['params.json', 'config.json', 'consolidated.safetensors', 'model-1-of-1.safetensors'],
  'owner/tokenizer': ['tokenizer.json', 'README.md'],
};

let hub: Server;
let endpoint: string;
const tokens = new Set<string | undefined>();

beforeAll(async () => {
  hub = createServer((request, response) => {
    tokens.add(request.headers.authorization);
    const path = new URL(request.url!, 'http://hub').pathname;
    const [, name = ''] = /^\/(?:api\/models\/)?([^/]+\/[^/]+)\//.exec(path) ?? [];
    const files = REPOSITORIES[name];
    if (!files) {
      response.writeHead(404, { 'x-error-code': 'RepoNotFound' }).end();
    } else if (path.includes('/tree/')) {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(files.map((file) => ({ type: 'file', path: file, size: 4, oid: file }))));
    } else if (path.startsWith('/api/')) {
      response.setHeader('content-type', 'application/json');
      response.end(
        JSON.stringify({ id: name, sha: COMMIT, siblings: files.map((file) => ({ rfilename: file })) }),
      );
    } else {
      const file = path.slice(path.indexOf(COMMIT) + COMMIT.length + 1);
      response.writeHead(200, { 'x-repo-commit': COMMIT, etag: `"${file}"`, 'content-length': 4 });
      response.end(request.method === 'HEAD' ? undefined : 'data');
    }
  });
  await once(hub.listen(0, '127.0.0.1'), 'listening');
  endpoint = `http://127.0.0.1:${(hub.address() as AddressInfo).port}`;
});
afterAll(async () => {
  hub.closeAllConnections();
  hub.close();
  await tearDown();
});

async function bake(env: Record<string, string>): Promise<{ code: number; output: string; folder: string }> {
  const { python } = await ensureVllm();
  const folder = stateFolder();
  const child = spawn(python, [SCRIPT], {
    env: {
      PATH: process.env.PATH,
      HF_ENDPOINT: endpoint,
      HF_HOME: join(folder, 'cache'),
      HF_HUB_DISABLE_XET: '1',
      BASE_PATH: join(folder, 'models'),
      LOCAL_MODEL_ARGS: join(folder, 'local_model_args.json'),
      ...env,
    },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text));
  const [code] = await once(child, 'close');
  return { code, output, folder };
}

describe('a model in the image', () => {
  it('lies there with its tokenizer, without other forms of its weights, and the worker is told', async () => {
    const { code, output, folder } = await bake({
      MODEL_NAME: 'owner/model',
      TOKENIZER_NAME: 'owner/tokenizer',
      QUANTIZATION: 'awq',
      HF_TOKEN: 'hf_a_secret',
    });
    expect(code, output).toBe(0);
    const model = join(folder, 'models/owner--model');
    expect(JSON.parse(readFileSync(join(folder, 'local_model_args.json'), 'utf8'))).toEqual({
      MODEL_NAME: model,
      OPENAI_SERVED_MODEL_NAME_OVERRIDE: 'owner/model',
      TOKENIZER_NAME: join(folder, 'models/owner--tokenizer'),
      QUANTIZATION: 'awq',
    });
    const has = (file: string) => existsSync(join(folder, 'models', file));
    expect(has('owner--model/model.safetensors') && has('owner--tokenizer/tokenizer.json')).toBe(true);
    for (const file of [
      'owner--model/pytorch_model.bin',
      'owner--model/original',
      'owner--tokenizer/README.md',
    ])
      expect(has(file), file).toBe(false);
    expect(tokens).toContain('Bearer hf_a_secret');
    expect(output).not.toContain('hf_a_secret');
  });

  it.each([
    ['vllm', 'consolidated.safetensors', 'model-1-of-1.safetensors'],
    ['fastdeploy', 'model-1-of-1.safetensors', 'consolidated.safetensors'],
  ])('lies there once where its repository has it twice: for %s as %s', async (ENGINE, kept, left) => {
    const { code, output, folder } = await bake({ MODEL_NAME: 'owner/twice', ENGINE });
    expect(code, output).toBe(0);
    const has = (file: string) => existsSync(join(folder, 'models/owner--twice', file));
    expect([has(kept), has(left), has('params.json'), has('config.json')]).toEqual([true, false, true, true]);
  });

  it('is missed with one message that names it and the token it may need', async () => {
    const { code, output } = await bake({ MODEL_NAME: 'owner/misspelt' });
    expect(code).not.toBe(0);
    expect(output).toContain('owner/misspelt');
    expect(output).toContain('--secret id=HF_TOKEN');
    expect(output).not.toContain('Traceback');
  });
});
