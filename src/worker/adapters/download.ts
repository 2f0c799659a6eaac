import { createWriteStream } from 'node:fs';
import { access, mkdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Fetch, reasonOf } from '../../process/http.ts';
import type { Adapter } from '../../protocol/index.ts';

/** The source that adapters are downloaded from, and the folder that keeps them. */
export interface AdapterStore {
  fetch: Fetch;
  /** The address of Hugging Face, or of a mirror of it. */
  endpoint: string;
  token: string | undefined;
  /** The folder of this machine that keeps adapters; it has a folder for each commit. */
  folder: string;
}

/** PEFT's description of an adapter, and its weights in one of two forms. */
const DESCRIPTION = 'adapter_config.json';
const WEIGHTS = ['adapter_model.safetensors', 'adapter_model.bin'];

const COMMIT = /^[0-9a-f]{40}$/;

/**
 * Returns the checked folder that holds an adapter. The worker downloads an adapter of Hugging Face before the engine
 * learns of it: by itself vLLM 0.32 knows no revision, and everything else in the engine waits during a download. The
 * folder has the commit's name, since an engine that is given new weights under an old path goes on with what it has
 * cached of the old ones.
 * @throws Error with the reason, for people
 */
export async function adapterFolder(adapter: Adapter, store: AdapterStore): Promise<string> {
  const { source } = adapter;
  const folder = source.startsWith('/') ? source : await downloaded(adapter, store);
  await checkFolder(folder);
  return folder;
}

async function checkFolder(folder: string): Promise<void> {
  const description = await readFile(join(folder, DESCRIPTION), 'utf8').catch((error: unknown) => {
    throw new Error(`${join(folder, DESCRIPTION)} cannot be read (${codeOf(error)})`);
  });
  if (!/"peft_type"\s*:\s*"LORA"/i.test(description))
    throw new Error(`${join(folder, DESCRIPTION)} describes no LoRA adapter`);
  const found = await Promise.all(WEIGHTS.map((name) => exists(join(folder, name))));
  if (!found.includes(true)) throw new Error(`${folder} has no ${WEIGHTS.join(' and no ')}`);
}

async function downloaded({ source, revision = 'main' }: Adapter, store: AdapterStore): Promise<string> {
  const folderOf = (commit: string) => join(store.folder, source.replace('/', '--'), commit);
  if (COMMIT.test(revision) && (await isWhole(folderOf(revision)))) return folderOf(revision);
  const description = await ask(store, source, revision, DESCRIPTION);
  const commit = description.headers.get('x-repo-commit') ?? revision;
  const folder = folderOf(commit.replaceAll('/', '--'));
  if (COMMIT.test(commit) && (await isWhole(folder))) {
    await description.body?.cancel();
    return folder;
  }
  await mkdir(folder, { recursive: true });
  await write(description, join(folder, DESCRIPTION));
  await downloadWeights(store, source, commit, folder);
  return folder;
}

async function isWhole(folder: string): Promise<boolean> {
  return await checkFolder(folder).then(
    () => true,
    () => false,
  );
}

async function downloadWeights(
  store: AdapterStore,
  source: string,
  commit: string,
  folder: string,
): Promise<void> {
  for (const [index, name] of WEIGHTS.entries()) {
    const isLast = index === WEIGHTS.length - 1;
    const answer = await ask(store, source, commit, name, isLast ? [] : [404]);
    if (answer.status !== 404) return await write(answer, join(folder, name));
    await answer.body?.cancel();
  }
}

/** Requests an address. @param mayBe statuses beside 200 that the caller accepts */
async function ask(
  { fetch, endpoint, token }: AdapterStore,
  source: string,
  revision: string,
  file: string,
  mayBe: readonly number[] = [],
): Promise<Response> {
  const url = `${endpoint}/${source}/resolve/${encodeURIComponent(revision)}/${file}`;
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const answer = await fetch(url, { headers }).catch((error: unknown) => {
    throw new Error(`${url} cannot be reached (${reasonOf(error)})`);
  });
  if (answer.ok || mayBe.includes(answer.status)) return answer;
  await answer.body?.cancel();
  const help = [401, 403].includes(answer.status) ? ': a private one needs HF_TOKEN' : '';
  throw new Error(`${url} answered ${answer.status}${help}`);
}

/** Writes a file that gets its final name once it is whole. */
async function write(answer: Response, path: string): Promise<void> {
  const part = `${path}.part-${process.pid}`;
  try {
    await pipeline(Readable.fromWeb(answer.body as never), createWriteStream(part));
    const wanted = answer.headers.has('content-encoding') ? null : answer.headers.get('content-length');
    const { size } = await stat(part);
    if (wanted !== null && size !== Number(wanted))
      throw new Error(`${path} came with ${size} of ${wanted} bytes`);
    await rename(part, path);
  } finally {
    await rm(part, { force: true });
  }
}

async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  );
}

function codeOf(error: unknown): string {
  const { code, cause, message } = error as NodeJS.ErrnoException & { cause?: NodeJS.ErrnoException };
  return code ?? cause?.code ?? cause?.message ?? message;
}
