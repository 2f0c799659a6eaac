import { EXIT, UserError } from '../../process/index.ts';
import { keepMembers, writeJson } from '../../protocol/index.ts';
import type { Ports } from '../ports.ts';
import { LocalApi, LocalPlatform } from './local-api.ts';

/** A local mode of RunPod's SDK. */
export type LocalMode =
  /** Runs one job, whose result is printed. */
  | { testInput: string }
  /** Serves an API on this machine. */
  | { host: string; port: number };

export interface OpenedLocally {
  platform: LocalPlatform;
  /** Returns the exit code of the process; null: the worker's own. */
  exitCode(): number | null;
  close(): void;
}

/**
 * Opens a local mode.
 * @param end called when the worker has nothing more to do
 * @throws UserError when the test input is no JSON with an input, or the port is in use
 */
export async function openLocally(
  mode: LocalMode,
  ports: Pick<Ports, 'fetch' | 'fetchPublic' | 'log'>,
  webhookHosts: readonly string[] | null,
  end: () => void,
): Promise<OpenedLocally> {
  const platform = new LocalPlatform();
  if ('host' in mode) {
    const api = new LocalApi(platform, ports, webhookHosts);
    await api.listen(mode.host, mode.port);
    return { platform, exitCode: () => null, close: () => api.close() };
  }
  let exitCode: number | null = null;
  const job = readTestInput(mode.testInput);
  void platform.submit(job).then(({ stream: _stream, ...outcome }) => {
    exitCode = outcome.error === undefined ? EXIT.ok : EXIT.unexpected;
    process.stdout.write(`${writeJson({ id: job.id, ...outcome })}\n`);
    end();
  });
  return { platform, exitCode: () => exitCode, close: () => {} };
}

/** Reads the test input. @throws UserError, with the exit code of RunPod's SDK */
function readTestInput(given: string): { id: string; input: unknown } {
  let job: Record<string, unknown>;
  try {
    job = Object(JSON.parse(given));
    keepMembers(job, Buffer.from(given), ['input']);
  } catch (error) {
    throw new UserError(`The test input is no JSON: ${(error as Error).message}`, EXIT.unexpected);
  }
  if (job.input === undefined) {
    throw new UserError('The test input has no "input": expected {"input": {…}}.', EXIT.unexpected);
  }
  return { id: typeof job.id === 'string' ? job.id : 'local_test', input: job.input };
}
