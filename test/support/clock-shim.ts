import { spawnSync } from 'node:child_process';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The wall clock of one process, set by the test; its monotonic clock goes on as it is. */
export interface ClockShim {
  /** Variables of the environment that the process must be started with. */
  env: Record<string, string>;
  /** From now on its wall clock differs by this from the machine's, ms. */
  setOffset(ms: number): void;
  remove(): void;
}

/** Why there can be no shim here; null: there can. */
export const noClockShim: string | null =
  process.platform !== 'linux'
    ? 'the clock of a process can be set on Linux only'
    : spawnSync('cc', ['--version']).status !== 0
      ? 'no C compiler (cc) to build the clock shim with'
      : null;

/** Compiles a library that the process loads before its own. */
export function buildClockShim(): ClockShim {
  const folder = mkdtempSync(join(tmpdir(), 'clock-shim-'));
  const source = fileURLToPath(new URL('clock-shim.c', import.meta.url));
  const library = join(folder, 'clock-shim.so');
  const offsets = join(folder, 'offset');
  const built = spawnSync('cc', ['-O2', '-shared', '-fPIC', '-o', library, source], { encoding: 'utf8' });
  if (built.status !== 0) throw new Error(`the clock shim cannot be built: ${built.stderr}`);
  const setOffset = (ms: number) => {
    // The process reads the file at any moment, and would take one that is still empty for the machine's time.
    writeFileSync(`${offsets}.new`, String(ms));
    renameSync(`${offsets}.new`, offsets);
  };
  setOffset(0);
  return {
    env: { LD_PRELOAD: library, CLOCK_OFFSET_FILE: offsets },
    setOffset,
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
