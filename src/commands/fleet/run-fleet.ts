import { createHash } from 'node:crypto';
import { type FSWatcher, watch } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { type LauncherOptions, type RunningLauncher, startLauncher } from '../../launcher/run.ts';
import { createLogger } from '../../process/index.ts';
import type { FleetView } from '../../protocol/index.ts';
import { type QueueTarget, UnreachableQueue } from '../ask-queue.ts';
import { print } from '../terminal.ts';
import { watchFleet } from '../top/live.ts';
import { applyFleet, changeLines } from './control.ts';
import { type FleetFile, readFleetFile } from './file.ts';
import { happenings } from './story.ts';

export interface RunningFleet {
  launcher: RunningLauncher;
  /** Reads the file again. */
  reload(): void;
  /** Stops following the file and printing; the launcher continues. */
  stop(): void;
}

/**
 * Applies a fleet's file to a queue, now and whenever the file changes, starts a launcher, and prints what happens.
 * Waits for a queue that is away.
 * @throws UserError when the file cannot be applied now
 */
export async function runFleet(
  path: string,
  target: QueueTarget,
  options: Omit<LauncherOptions, keyof QueueTarget>,
  env: NodeJS.ProcessEnv,
): Promise<RunningFleet> {
  const follower = new FileFollower({
    path,
    env,
    say: print,
    apply: async ({ document }) => {
      const { changes, ...rest } = await applyFleet(target, document);
      if (changes.length === 0) return print(`${path} is in force as it was.`);
      for (const line of changeLines({ changes, ...rest })) print(line);
    },
  });
  await follower.start();
  // The command prints what it does in sentences, so the log has warnings only.
  const log = createLogger('launcher', { ...env, LOG_LEVEL: env.LOG_LEVEL || 'warn' });
  const launcher = startLauncher({ ...options, ...target }, env, log);
  let before: FleetView | null = null;
  const telling = watchFleet(target, {
    onFrame: (_frame, view) => {
      for (const text of happenings(before, view)) print(text);
      before = view;
    },
    // The launcher reports that the queue is away.
    onState: () => {},
  });
  return {
    launcher,
    reload: () => follower.again(),
    stop: () => {
      follower.stop();
      telling.stop();
    },
  };
}

export interface FollowedFile {
  path: string;
  env: NodeJS.ProcessEnv;
  /** Applies a file. @throws UnreachableQueue for another try, UserError for a file that the queue refuses */
  apply(file: FleetFile): Promise<void>;
  say(text: string): void;
}

/** A changed file is read after this many ms, since editors write a file in several steps. */
const SETTLE_MS = 200;
const RETRY_MS = 3000;

/**
 * Applies a fleet file now and whenever it changes. If a file cannot be applied, it says so, and the earlier one stays
 * in force.
 */
export class FileFollower {
  readonly #followed: FollowedFile;
  #watcher: FSWatcher | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** The fingerprint of the file that was applied last, or the message of the last refusal. */
  #seen = '';
  #isBusy = false;
  #isStopped = false;

  constructor(followed: FollowedFile) {
    this.#followed = followed;
  }

  /** Applies the file, waiting for a queue that is away. @throws UserError when the file cannot be applied now */
  async start(): Promise<void> {
    const { path, say } = this.#followed;
    const file = await this.#read();
    try {
      await this.#apply(file);
    } catch (error) {
      if (!(error instanceof UnreachableQueue)) throw error;
      // A service may be started before its queue is.
      say(`${error.message} Trying again every ${RETRY_MS / 1000} s.`);
      this.#later(RETRY_MS);
    }
    // The folder is watched, since editors replace the file, and Kubernetes replaces a link named `..data`.
    this.#watcher = watch(dirname(resolve(path)), (_event, name) => {
      if (name === null || name === basename(path) || name.startsWith('..')) this.#later(SETTLE_MS);
    });
    this.#watcher.on('error', (error) =>
      say(`${path} is no longer watched (${error.message}): SIGHUP reads it again.`),
    );
  }

  /** Reads the file again now, changed or not. */
  again(): void {
    this.#seen = '';
    this.#later(0);
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    this.#watcher?.close();
  }

  #later(ms: number): void {
    if (this.#isStopped) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#reload(), ms);
  }

  async #reload(): Promise<void> {
    if (this.#isBusy) return this.#later(SETTLE_MS);
    this.#isBusy = true;
    try {
      const file = await this.#read();
      if (fingerprint(file) !== this.#seen) await this.#apply(file);
    } catch (error) {
      this.#refused(error as Error);
    } finally {
      this.#isBusy = false;
    }
  }

  #refused(error: Error): void {
    if (this.#isStopped) return;
    const { path, say } = this.#followed;
    if (error instanceof UnreachableQueue) return this.#later(RETRY_MS);
    // Faults that stay the same are reported once.
    if (error.message === this.#seen) return;
    this.#seen = error.message;
    say(
      `${error.message}\nThe fleet that was applied before stays in force; ${path} is read again when it changes.`,
    );
  }

  #read(): Promise<FleetFile> {
    return readFleetFile(this.#followed.path, this.#followed.env);
  }

  async #apply(file: FleetFile): Promise<void> {
    await this.#followed.apply(file);
    this.#seen = fingerprint(file);
    this.#warn(file);
  }

  #warn({ warnings }: FleetFile): void {
    for (const warning of warnings) this.#followed.say(warning);
  }
}

function fingerprint({ document }: FleetFile): string {
  return createHash('sha256').update(JSON.stringify(document)).digest('hex');
}
