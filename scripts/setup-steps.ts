import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../src/process/index.ts';

const PROGRESS_EVERY_MS = 15_000;

/** Steps of an installation that tests need, told on stderr. */
export class SetupSteps {
  readonly #name: string;

  constructor(name: string) {
    this.#name = name;
  }

  say(text: string): void {
    process.stderr.write(`${this.#name} setup: ${text}\n`);
  }

  /**
   * Runs a program, its output in a file.
   * @param more.hintFor what to add to the message of a failure, from the last lines
   * @param more.limitMs after which it is killed; left out: it may take as long as it takes
   * @throws UserError naming the step that failed, with the last lines of its output
   */
  async step(
    what: string,
    log: string,
    command: string,
    args: string[],
    { hintFor = () => '', limitMs }: { hintFor?: (tail: string) => string; limitMs?: number } = {},
  ): Promise<void> {
    this.say(`${what} ...`);
    const began = Date.now();
    const progress = setInterval(() => {
      this.say(`${what} ... ${Math.round((Date.now() - began) / 1000)} s`);
    }, PROGRESS_EVERY_MS);
    const output = openSync(log, 'a');
    const child = spawn(command, args, {
      stdio: ['ignore', output, output],
      timeout: limitMs,
      killSignal: 'SIGKILL',
    });
    const ended = await new Promise<string | null>((resolveEnd) => {
      child.once('error', (error) => resolveEnd(error.message));
      child.once('exit', (code, signal) => resolveEnd(code === 0 ? null : `exit ${signal ?? code}`));
    });
    clearInterval(progress);
    if (ended === null) return;
    const tail = readFileSync(log, 'utf8').trimEnd().split('\n').slice(-20).join('\n');
    throw new UserError(`${what} failed (${ended}). The end of ${log}:\n${tail}${hintFor(tail)}`);
  }

  /**
   * Makes an installation unless it is there as its recipe says. Safe to call from several processes at once: one
   * installs, the others wait.
   * @param home the folder of the installation, whose file `complete` then holds the recipe
   * @throws what `make` throws
   */
  async once(home: string, recipe: string, make: () => Promise<void>): Promise<void> {
    const marker = join(home, 'complete');
    const isComplete = () => existsSync(marker) && readFileSync(marker, 'utf8') === recipe;
    if (isComplete()) return;
    mkdirSync(home, { recursive: true });
    const unlock = await this.lock(join(home, 'lock.sqlite'));
    try {
      if (isComplete()) return;
      await make();
      writeFileSync(marker, recipe);
    } finally {
      unlock();
    }
  }

  /** An exclusive lock that the operating system lets go of when this process ends, however it ends. */
  async lock(path: string): Promise<() => void> {
    let told = false;
    for (;;) {
      const database = new DatabaseSync(path, { timeout: 0 });
      try {
        database.exec('BEGIN EXCLUSIVE');
        return () => database.close();
      } catch (error) {
        database.close();
        if ((error as { errcode?: number }).errcode !== 5) throw error;
      }
      if (!told) this.say('waiting for another process that installs the same ...');
      told = true;
      await sleep(500);
    }
  }
}

/** A recipe that changes with the content of these files. */
export function recipeOf(files: string[]): string {
  const hash = createHash('sha256');
  for (const file of files) hash.update(readFileSync(file));
  return `${hash.digest('hex')}\n`;
}

/**
 * A Python with venv, of the minor versions that are supported.
 * @throws UserError where there is none
 */
export function findPython(what: string, { from, to }: { from: number; to: number }): string {
  const minors = Array.from({ length: to - from + 1 }, (_, index) => from + index);
  const names = ['python3', ...minors.map((minor) => `python3.${minor}`)];
  const test = `import sys, venv, ensurepip; sys.exit(not (3, ${from}) <= sys.version_info < (3, ${to + 1}))`;
  const found = names.find((name) => spawnSync(name, ['-c', test], { stdio: 'ignore' }).status === 0);
  if (found) return found;
  throw new UserError(
    `${what} needs Python 3.${from} to 3.${to} with venv: install one and put it on the PATH as python3.`,
  );
}
