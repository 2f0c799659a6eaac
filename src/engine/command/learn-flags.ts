import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { homeFolder } from '../../process/home.ts';
import { manifest, packagePath } from '../../process/package.ts';
import { type Flag, parseHelp } from './flag-help.ts';

/** A slow machine needs 20 s to import vLLM, a busy one several times that. */
const HELP_LIMIT_MS = 180_000;
const HELP_BYTES = 16 * 1024 ** 2;
/** Where an image keeps the list of its engine, made when it was built; nowhere else is there such a folder. */
const OF_THE_IMAGE = packagePath('flags/');

export interface HelpProgram {
  /** Full path. */
  program: string;
  /** What comes before `--help`: `['serve']`. */
  args: readonly string[];
  env: NodeJS.ProcessEnv;
  /** Aborting ends it. */
  signal?: AbortSignal | undefined;
}

/**
 * The flags of the installed engine: from the last time they were asked for, else from its help.
 * @param onAsking called before the help is asked for, which takes seconds
 * @throws Error when there is no help to be had
 */
export async function learnFlags(asked: HelpProgram, onAsking: () => void): Promise<Flag[]> {
  const name = fileName(asked);
  const ofTheImage = readKept(join(OF_THE_IMAGE, name));
  if (ofTheImage) return ofTheImage;
  const cache = asked.env.XDG_CACHE_HOME?.trim() || join(homeFolder('XDG_CACHE_HOME'), '.cache');
  const folder = join(cache, 'worker-vllm');
  const kept = readKept(join(folder, name));
  if (kept) return kept;
  onAsking();
  const flags = parseHelp(await helpOf(asked));
  if (flags.length === 0) throw new Error(`${asked.program} lists no flags in its help`);
  keep(join(folder, name), flags);
  return flags;
}

/** vLLM's bare `--help` lists only groups; others know only that. */
async function helpOf(asked: HelpProgram): Promise<string> {
  return await ask(asked, '--help=all').catch(() => ask(asked, '--help'));
}

async function ask({ program, args, env, signal }: HelpProgram, help: string): Promise<string> {
  // Names of flags must not be broken over lines.
  const options = { env: { ...env, COLUMNS: '400' }, timeout: HELP_LIMIT_MS, maxBuffer: HELP_BYTES };
  const { stdout } = await promisify(execFile)(program, [...args, help], {
    ...options,
    killSignal: 'SIGKILL',
    signal,
  });
  return stdout;
}

/** Another program, or the same in another version, is another file. */
function fileName({ program, args }: HelpProgram): string {
  const versions = [program, ...args].map(versionOf);
  const key = createHash('sha256')
    .update(JSON.stringify([manifest.version, program, args, versions]))
    .digest('hex');
  return `flags-${key.slice(0, 24)}.json`;
}

/** An upgrade writes the program anew; of a script, any file beside it may be what changed. */
function versionOf(word: string): string {
  try {
    const files = /\.(?:ts|js|py)$/.test(word)
      ? readdirSync(dirname(word)).map((name) => join(dirname(word), name))
      : [word];
    const stats = files.map((file) => statSync(file)).filter((stat) => stat.isFile());
    // Whole seconds: what copies images between machines may keep no more of a time.
    return stats.map((stat) => `${Math.floor(stat.mtimeMs / 1000)}/${stat.size}`).join();
  } catch {
    // A word that names no file stands for itself.
    return '';
  }
}

function readKept(file: string): Flag[] | null {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Flag[];
  } catch {
    return null;
  }
}

/** Where nothing can be written, the next start asks again. */
function keep(file: string, flags: readonly Flag[]): void {
  try {
    mkdirSync(dirname(file), { recursive: true });
    const draft = `${file}.${process.pid}`;
    writeFileSync(draft, JSON.stringify(flags));
    renameSync(draft, file);
  } catch {
    // A read-only container.
  }
}
