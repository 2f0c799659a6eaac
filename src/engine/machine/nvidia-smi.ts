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
