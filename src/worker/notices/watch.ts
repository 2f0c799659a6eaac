import { readFile, stat } from 'node:fs/promises';
import { sleep, withTimeout } from '../../process/clock.ts';
import { reasonOf } from '../../process/http.ts';
import { CLOUDS, type CloudPorts, type NoticeSource } from './clouds.ts';
import { fileNotice, graceMsOf, type Notice } from './notice.ts';

export interface NoticePorts extends CloudPorts {
  /** The file whose appearance is a notice; null: none. */
  file: string | null;
  /** The grace after a signal, ms. */
  graceMs: number;
  /** Drains the worker. */
  drain(graceMs: number): void;
}

/**
 * A cloud that did not answer is asked again after these pauses, ms: a network, or the service of a pod, may come
 * seconds after the worker.
 */
const FIND_AGAIN_AFTER_MS = [5000, 30_000];
const FILE_EVERY_MS = 500;
/** The provider is told within this time that the machine may go, ms; the machine goes without it too, only later. */
const TELL_WITHIN_MS = 500;

/**
 * Watches for a notice that the machine is taken away: at the metadata service of the cloud, if it is one's, and in a
 * file. A notice that is taken back changes nothing: the drain has begun.
 */
export class NoticeWatch {
  readonly #ports: NoticePorts;
  readonly #stopped = new AbortController();
  /** The places that gave a notice. */
  readonly #given: NoticeSource[] = [];

  constructor(ports: NoticePorts) {
    this.#ports = ports;
  }

  start(): void {
    for (const find of CLOUDS) void this.#findAndFollow(find);
    const { file } = this.#ports;
    if (file !== null) void this.#follow(fileSource(file));
  }

  /** Stops, and tells the providers that gave notice that the machine may go. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    const { clock, log } = this.#ports;
    const told = this.#given.map(({ name, drained }) =>
      withTimeout(clock, TELL_WITHIN_MS, async () => drained?.()).catch((error: unknown) =>
        log.info({ problem: reasonOf(error) }, `${name} was not told that this machine may go`),
      ),
    );
    await Promise.all(told);
  }

  async #findAndFollow(find: (typeof CLOUDS)[number]): Promise<void> {
    const source = await this.#find(find);
    if (source === null || this.#stopped.signal.aborted) return;
    this.#ports.log.info(
      {},
      `this is a machine of ${source.name}: a notice that it is taken away will be seen`,
    );
    await this.#follow(source);
  }

  /** Returns null where nobody answers, or something that is no metadata service: most machines are no cloud's. */
  async #find(find: (typeof CLOUDS)[number]): Promise<NoticeSource | null> {
    const { signal } = this.#stopped;
    for (const pauseMs of [...FIND_AGAIN_AFTER_MS, null]) {
      try {
        return await find(this.#ports, signal);
      } catch {
        if (pauseMs !== null) await sleep(this.#ports.clock, pauseMs, signal);
      }
      if (signal.aborted) return null;
    }
    return null;
  }

  async #follow(source: NoticeSource): Promise<void> {
    const { clock, log } = this.#ports;
    const { signal } = this.#stopped;
    while (!signal.aborted) {
      const notice = await source.look(signal).catch((error: unknown) => {
        log.debug({ problem: reasonOf(error) }, `${source.name} could not be asked for a notice`);
        return null;
      });
      if (signal.aborted) return;
      if (notice !== null) {
        this.#given.push(source);
        return this.#noticed(notice);
      }
      await sleep(clock, source.everyMs, signal);
    }
  }

  #noticed(notice: Notice): void {
    const { clock, log, graceMs, drain } = this.#ports;
    const { from, endsAtMs } = notice;
    const when = endsAtMs === null ? 'it does not say when' : `at ${new Date(endsAtMs).toISOString()}`;
    log.warn({}, `this machine is taken away, says ${from}: ${when}`);
    drain(graceMsOf(notice, clock.now(), graceMs));
  }
}

function fileSource(path: string): NoticeSource {
  let wasEmpty = false;
  return {
    name: `the file ${path}`,
    everyMs: FILE_EVERY_MS,
    look: async () => {
      const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return null;
        throw error;
      });
      if (text === null) return null;
      // A file that is empty may be one that is being written.
      if (text.trim() === '' && !wasEmpty) {
        wasEmpty = true;
        return null;
      }
      return fileNotice(path, text, (await stat(path)).mtimeMs);
    },
  };
}
