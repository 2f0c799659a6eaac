import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { adapterFolder } from '../../../src/worker/adapters/download.ts';

const COMMIT = 'c'.repeat(40);
const CONFIG = '{"peft_type": "LORA"}';

/** What a repository holds, by path and file; null: its answer breaks off. */
let files: Record<string, string | null>;
let asked: string[];
let hub: Server;
let folder: string;
let endpoint: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'adapters-'));
  asked = [];
  files = { 'adapter_config.json': CONFIG, 'adapter_model.safetensors': 'weights' };
  hub = createServer(({ url = '', headers }, response) => {
    asked.push(url);
    const content = files[url.split('/').at(-1) ?? ''];
    const isPrivate = url.startsWith('/acme/private/') && headers.authorization !== 'Bearer hf_secret';
    if (isPrivate || content === undefined) return response.writeHead(isPrivate ? 401 : 404).end();
    response.writeHead(200, { 'x-repo-commit': COMMIT, 'content-length': content?.length ?? 100 });
    if (content !== null) return response.end(content);
    response.write('half');
    setTimeout(() => response.destroy(), 20);
    return response;
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => hub.once('listening', resolve));
  endpoint = `http://127.0.0.1:${(hub.address() as AddressInfo).port}`;
});
afterEach(async () => {
  hub.close();
  await rm(folder, { recursive: true, force: true });
});

function get(source: string, revision?: string, token?: string): Promise<string> {
  return adapterFolder({ name: 'sql', source, revision }, { fetch, endpoint, token, folder });
}

describe('an adapter of Hugging Face', () => {
  test('lies in a folder of its commit, whole', async () => {
    const at = await get('acme/sql', 'v2');
    expect(at).toBe(join(folder, 'acme--sql', COMMIT));
    expect((await readdir(at)).sort()).toEqual(['adapter_config.json', 'adapter_model.safetensors']);
    expect(await readFile(join(at, 'adapter_model.safetensors'), 'utf8')).toBe('weights');
    // What is downloaded is of one commit, whatever the branch becomes meanwhile.
    expect(asked).toEqual([
      '/acme/sql/resolve/v2/adapter_config.json',
      `/acme/sql/resolve/${COMMIT}/adapter_model.safetensors`,
    ]);
  });

  test('is not downloaded twice, and of a commit not even asked for', async () => {
    const at = await get('acme/sql');
    asked = [];
    expect(await get('acme/sql')).toBe(at);
    expect(asked).toEqual(['/acme/sql/resolve/main/adapter_config.json']);
    hub.close();
    expect(await get('acme/sql', COMMIT)).toBe(at);
  });

  test('may have its weights in the older form, and its revision a slash', async () => {
    files = { 'adapter_config.json': CONFIG, 'adapter_model.bin': 'old' };
    const at = await get('acme/sql', 'refs/pr/1');
    expect(await readFile(join(at, 'adapter_model.bin'), 'utf8')).toBe('old');
    expect(asked[0]).toBe('/acme/sql/resolve/refs%2Fpr%2F1/adapter_config.json');
  });

  test('that breaks off is not taken for whole, and comes whole the next time', async () => {
    files['adapter_model.safetensors'] = null;
    await expect(get('acme/sql')).rejects.toThrow();
    expect(await readdir(join(folder, 'acme--sql', COMMIT))).toEqual(['adapter_config.json']);
    files['adapter_model.safetensors'] = 'weights';
    expect(await readdir(await get('acme/sql'))).toHaveLength(2);
  });

  test('says what to do when it is private or not there', async () => {
    await expect(get('acme/private')).rejects.toThrow(/answered 401: a private one needs HF_TOKEN$/);
    expect(await get('acme/private', undefined, 'hf_secret')).toContain('acme--private');
    files = {};
    await expect(get('acme/none')).rejects.toThrow(/adapter_config\.json answered 404$/);
    hub.close();
    await expect(get('acme/sql')).rejects.toThrow(/cannot be reached \(\w+/);
  });
});

describe('an adapter of the machine', () => {
  test('is where it is, and looked at before the engine hears of it', async () => {
    await expect(get(folder)).rejects.toThrow(
      `${join(folder, 'adapter_config.json')} cannot be read (ENOENT)`,
    );
    await writeFile(join(folder, 'adapter_config.json'), '{"peft_type": "PREFIX_TUNING"}');
    await expect(get(folder)).rejects.toThrow('describes no LoRA adapter');
    await writeFile(join(folder, 'adapter_config.json'), CONFIG);
    await expect(get(folder)).rejects.toThrow('has no adapter_model.safetensors and no adapter_model.bin');
    await writeFile(join(folder, 'adapter_model.safetensors'), '');
    expect(await get(folder)).toBe(folder);
    expect(asked).toEqual([]);
  });
});
