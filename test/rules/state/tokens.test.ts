import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { stateFolderError } from '../../../src/state/folder.ts';
import { makeToken, readTokenFile, storeToken, tokensFromText } from '../../../src/state/tokens.ts';

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

describe('tokens from the environment', () => {
  it('may be plain or hashed, with one scope or several', () => {
    const entries = tokensFromText(`submit:plain, worker+read:sha256:${sha256('hidden').toUpperCase()},`);
    expect(entries).toEqual([
      { name: 'QUEUE_TOKENS 1', sha256: sha256('plain'), scopes: ['submit'] },
      { name: 'QUEUE_TOKENS 2', sha256: sha256('hidden'), scopes: ['worker', 'read'] },
    ]);
  });

  it('may be bound to a worker', () => {
    expect(tokensFromText('worker@gpu-1:one,read+worker@runpod-*:two')).toMatchObject([
      { scopes: ['worker'], worker_id: 'gpu-1' },
      { scopes: ['read', 'worker'], worker_id: 'runpod-*' },
    ]);
  });

  it.each([
    'worker@:secretvalue',
    'worker@a b:secretvalue',
    'secretvalue',
    'boss:secretvalue',
    'submit:',
    'submit:sha256:secretvalue',
    ':secretvalue',
  ])('are refused without being shown: %s', (text) => {
    expect(() => tokensFromText(`admin:fine,${text}`)).toThrow(/entry 2: .*scope\+scope/);
    expect(() => tokensFromText(text)).not.toThrow(/secretvalue/);
  });
});

describe('tokens of the state folder', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'tokens-'));
  });
  afterEach(() => rm(folder, { recursive: true }));

  it('are stored as hashes that only the owner can read', async () => {
    const { token, entry } = makeToken('gpu-1', ['worker']);
    await storeToken(folder, entry);
    const path = join(folder, 'tokens.json');
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(await readFile(path, 'utf8')).not.toContain(token);
    expect(await readTokenFile(folder)).toEqual([
      { name: 'gpu-1', sha256: sha256(token), scopes: ['worker'] },
    ]);
  });

  it('may be bound to a worker', async () => {
    const { entry } = makeToken('gpu', ['worker'], { worker_id: 'runpod-*' });
    await storeToken(folder, entry);
    expect(await readTokenFile(folder)).toMatchObject([{ name: 'gpu', worker_id: 'runpod-*' }]);
  });

  it('are added to those there are', async () => {
    await storeToken(folder, makeToken('one', ['read']).entry);
    await storeToken(folder, makeToken('two', ['submit']).entry);
    const entries = await readTokenFile(folder);
    expect(entries.map(({ name }) => name)).toEqual(['one', 'two']);
    await expect(storeToken(folder, makeToken('two', ['read']).entry)).rejects.toThrow(/named "two"/);
  });

  it('are none before the first was made', async () => {
    expect(await readTokenFile(join(folder, 'nothing'))).toEqual([]);
  });

  it('say what to do when the folder cannot be used', async () => {
    const inFile = join(folder, 'file', 'state');
    await writeFile(join(folder, 'file'), '');
    const told = /Cannot .*ENOTDIR.*Choose another folder \(WORKER_VLLM_STATE or --state\)/;
    await expect(readTokenFile(inFile)).rejects.toThrow(told);
    await expect(storeToken(inFile, makeToken('one', ['read']).entry)).rejects.toThrow(told);
    // A folder in the place of the file: it can be read, and not replaced.
    await mkdir(join(folder, 'tokens.json.new'));
    const refused = storeToken(folder, makeToken('one', ['read']).entry);
    await expect(refused).rejects.toThrow(/^Cannot store the token: .*--state/);
    const denied = Object.assign(new Error('EACCES: permission denied'), { code: 'EACCES' });
    expect(stateFolderError('x', '/state', denied, 1000).message).toContain('chown -R 1000 /state');
  });

  it.runIf(process.platform === 'linux')('ask for room where the disk is full', async () => {
    const full = await writeFile('/dev/full', 'x').catch((error: unknown) => error);
    expect(stateFolderError('x', '/state', full).message).toMatch(
      /ENOSPC.*\. Make room on its disk, or choose /,
    );
  });

  it.runIf(process.platform === 'linux')('end where no folder can be made, below /proc too', async () => {
    const refused = storeToken('/proc/no-such-folder/state', makeToken('one', ['read']).entry);
    await expect(refused).rejects.toThrow(/^Cannot store the token: ENOENT.*--state/);
  });

  it('stop the start when their file is broken', async () => {
    await writeFile(join(folder, 'tokens.json'), '[{"name":');
    await expect(readTokenFile(folder)).rejects.toThrow(/tokens\.json is not a token file/);
  });
});
