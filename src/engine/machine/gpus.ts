import { spawn } from 'node:child_process';

/** The answer of nvidia-smi. `absent`: there is no such program on the PATH. `problem`: for people, one line. */
export type SmiAnswer =
  | { case: 'absent' }
  | { case: 'answered'; output: string }
  | { case: 'failed'; problem: string };

export interface SmiCall {
  args: readonly string[];
  env: NodeJS.ProcessEnv;
  limitMs: number;
  /** Aborting the signal ends nvidia-smi; the answer is then `failed`. */
  signal?: AbortSignal;
}

/**
 * Asks nvidia-smi. Never rejects, and is never late: a driver that hangs holds nvidia-smi in the kernel, where not even
 * SIGKILL ends it, so this function does not wait for its end.
 */
export function nvidiaSmi({ args, env, limitMs, signal }: SmiCall): Promise<SmiAnswer> {
  const { promise, resolve } = Promise.withResolvers<SmiAnswer>();
  const child = spawn('nvidia-smi', args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  let errors = '';
  child.stdout.setEncoding('utf8').on('data', (text) => {
    output += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text) => {
    errors += text;
  });
  const giveUp = (problem: string) => {
    resolve({ case: 'failed', problem });
    child.kill('SIGKILL');
    child.stdout.destroy();
    child.stderr.destroy();
    child.unref();
  };
  const timer = setTimeout(() => giveUp(`nvidia-smi gave no answer in ${limitMs / 1000} s`), limitMs);
  const onAbort = () => giveUp('nvidia-smi was stopped');
  signal?.addEventListener('abort', onAbort, { once: true });
  child.once('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') resolve({ case: 'absent' });
    else resolve({ case: 'failed', problem: `nvidia-smi cannot be run: ${error.message}` });
  });
  child.once('close', (code, killedBy) => {
    if (code === 0) return resolve({ case: 'answered', output });
    const said = `${errors}${output}`.trim().replace(/\s+/g, ' ').slice(0, SHOWN);
    const how = code === null ? String(killedBy) : `exit code ${code}`;
    resolve({ case: 'failed', problem: `nvidia-smi failed (${how})${said ? `: ${said}` : ''}` });
  });
  return promise.finally(() => {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
  });
}

/** A problem shows this many characters of nvidia-smi's output. */
const SHOWN = 300;

const COUNT_LIMIT_MS = 10_000;

/** The GPUs that an engine started from here would see. */
export interface VisibleGpus {
  /** The number of GPUs; 0 if it cannot be found out. */
  count: number;
  /** The reason why the count is lower than that of the visible devices, for the log; null: it is not lower. */
  note: string | null;
}

/**
 * Counts the GPUs that an engine would see. CUDA shows a process only one MIG instance, whatever else there is
 * (NVIDIA's MIG User Guide, "CUDA Device Enumeration").
 */
export async function visibleGpus(env: NodeJS.ProcessEnv, signal?: AbortSignal): Promise<VisibleGpus> {
  const named = env.CUDA_VISIBLE_DEVICES === undefined ? null : devicesIn(env.CUDA_VISIBLE_DEVICES);
  if (named?.some((device) => device.startsWith('MIG-'))) return oneInstance(named.length);
  // A single GPU counts as one, whether or not it is divided into instances.
  if (named && named.length < 2) return { count: named.length, note: null };
  const answer = await nvidiaSmi({ args: ['-L'], env, limitMs: COUNT_LIMIT_MS, ...(signal && { signal }) });
  const lines = answer.case === 'answered' ? answer.output.split('\n') : [];
  const instances = lines.filter((line) => /^\s+MIG /.test(line)).length;
  if (instances > 0) return oneInstance(named?.length ?? instances);
  return { count: named?.length ?? lines.filter((line) => /^GPU \d+:/.test(line)).length, note: null };
}

function oneInstance(devices: number): VisibleGpus {
  const note = `CUDA shows a process one MIG instance, of the ${devices} that are visible: the engine runs on one, with a tensor-parallel size of 1`;
  return { count: 1, note: devices > 1 ? note : null };
}

/**
 * Returns the entries of a CUDA_VISIBLE_DEVICES: numbers, `GPU-…`, or `MIG-…`. CUDA reads the list up to the first
 * entry that is no device, such as `-1`.
 */
export function devicesIn(list: string): string[] {
  const entries = list.split(',').map((entry) => entry.trim());
  const end = entries.findIndex((entry) => !/^(?:\d+|(?:GPU|MIG)-.+)$/.test(entry));
  return end < 0 ? entries : entries.slice(0, end);
}
