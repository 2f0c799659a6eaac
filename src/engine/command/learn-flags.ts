import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { homeFolder } from '../../process/environment.ts';
import { manifest, packagePath } from '../../process/package.ts';

/**
 * The forms of a flag:
 *
 * - `switch`: `--x` and `--no-x`
 * - `present`: `--x` or nothing
 * - `list`: `--x a b`
 * - `value`: `--x a`
 */
type FlagKind = 'switch' | 'present' | 'list' | 'value';

/** A flag of an engine's command line. */
export interface Flag {
  /** The flag's first long name, with the dashes: `--max-model-len`. */
  name: string;
  /** The flag's other names: `-tp`, `--device-memory-utilization`. */
  otherNames: string[];
  kind: FlagKind;
}

/** Matches choices, which may hold commas and blanks: `{a,b}`, `['a', 'b']`. */
const CHOICES = /\{[^}]*\}|\['[^\]]*'\]/g;
const A_NAME = /(?:^|, )(--?[a-zA-Z][\w.-]*)/g;

/** Returns the flags that a help text lists, in the form of Python's argparse or in that of llama.cpp. */
export function parseHelp(help: string): Flag[] {
  return help
    .split('\n')
    .filter((line) => /^(?: {2})?-[-\w]*[a-zA-Z]/.test(line))
    .map(flagIn)
    .filter((flag) => flag !== null);
}

/** Parses a line such as `  --api-key API_KEY [API_KEY ...]   what it is for`. */
function flagIn(line: string): Flag | null {
  // llama.cpp aligns the names behind a short one: `-c,    --ctx-size N`.
  const aligned = line.trim().replace(/^(-\w+,) +/, '$1 ');
  const said = aligned.split(/ {2,}/)[0]!.replaceAll(CHOICES, 'CHOICE');
  const names = [...said.matchAll(A_NAME)].map((match) => match[1]!);
  const name = names.find((each) => each.startsWith('--') && !each.startsWith('--no-'));
  if (name === undefined || name === '--help') return null;
  const negated = `--no-${name.slice(2)}`;
  const otherNames = names.filter((each) => each !== name && !each.startsWith('--no-'));
  return { name, otherNames, kind: names.includes(negated) ? 'switch' : kindOf(said) };
}

function kindOf(said: string): FlagKind {
  if (/ \.\.\.\]/.test(said)) return 'list';
  return said.split(', ').some((part) => part.includes(' ')) ? 'value' : 'present';
}

/** The time limit of the help, ms: a slow machine needs 20 s to import vLLM, a busy one several times that. */
const HELP_LIMIT_MS = 180_000;
const HELP_BYTES = 16 * 1024 ** 2;
/**
 * The folder in which an image stores its engine's list of flags, made when it was built; only images have this folder.
 */
const OF_THE_IMAGE = packagePath('flags/');

export interface HelpProgram {
  /** The full path of the program. */
  program: string;
  /** The arguments before `--help`: `['serve']`. */
  args: readonly string[];
  env: NodeJS.ProcessEnv;
  /** Aborting the signal ends the program. */
  signal?: AbortSignal | undefined;
}

/**
 * Returns the flags of the installed engine, as stored at an earlier start, else from its help.
 * @param onAsking called before the help is requested, which takes seconds
 * @throws Error when the program gives no help
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

/** Asks for the full help: vLLM's bare `--help` lists only groups, but other programs know only that. */
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

/** Returns the name of the file that stores the flags: another program, or another version of it, has another file. */
function fileName({ program, args }: HelpProgram): string {
  const versions = [program, ...args].map(versionOf);
  const key = createHash('sha256')
    .update(JSON.stringify([manifest.version, program, args, versions]))
    .digest('hex');
  return `flags-${key.slice(0, 24)}.json`;
}

/**
 * Returns the time and size of a word's file. An upgrade writes the program anew; for a script, any file beside it may
 * have changed.
 */
function versionOf(word: string): string {
  try {
    const files = /\.(?:ts|js|py)$/.test(word)
      ? readdirSync(dirname(word)).map((name) => join(dirname(word), name))
      : [word];
    const stats = files.map((file) => statSync(file)).filter((stat) => stat.isFile());
    // Only whole seconds count: a copy of an image on another machine may lose the rest.
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

/** Stores the flags for later starts; if nothing can be written, the next start asks again. */
function keep(file: string, flags: readonly Flag[]): void {
  try {
    mkdirSync(dirname(file), { recursive: true });
    const draft = `${file}.${process.pid}`;
    writeFileSync(draft, JSON.stringify(flags));
    renameSync(draft, file);
  } catch {
    // The container's file system is read-only.
  }
}
