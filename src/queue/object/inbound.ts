import { onceMore } from '../../asking/once-more.ts';
import type { Log, ObjectHost } from '../../durable/host.ts';
import { type JobFileCalls, putJobFile } from '../../files/put-job-file.ts';
import {
  bounds,
  type JobError,
  type JobResult,
  type JobResultRef,
  type Parsed,
  parseFrames,
  WorkerFrame,
  writeJson,
} from '../../protocol/index.ts';
import { usageIn } from '../attempts/account.ts';
import type { Queue } from '../queue.ts';
import type { Connection } from '../store/ports.ts';
import type { Commits } from './commits.ts';
import type { FilteredResults } from './filtered-results.ts';

const newSessionId = () => crypto.randomUUID();

/**
 * Hands the frames of workers to the rules: with a commit, or at once where a frame needs none and overtakes nothing. A
 * result that is too long for a row goes into a file first; later frames of its worker wait for that.
 */
export class Inbound {
  readonly #queue: Queue;
  readonly #commits: Commits;
  readonly #longResults: LongResults;
  readonly #filtered: FilteredResults | null;
  /** Resolves, for each connection that brought a result which takes a while, when its last message is taken; by connection id. */
  readonly #busy = new Map<string, Promise<unknown>>();
  readonly #background: ObjectHost['background'];

  /** @param filtered what changes results before they are taken; null: nothing does */
  constructor(
    queue: Queue,
    commits: Commits,
    longResults: LongResults,
    filtered: FilteredResults | null,
    background: ObjectHost['background'],
  ) {
    this.#queue = queue;
    this.#commits = commits;
    this.#longResults = longResults;
    this.#filtered = filtered;
    this.#background = background;
  }

  /** Takes a message of a control socket. @param text the message, with one or more frames */
  async receive(connection: Connection, text: string): Promise<void> {
    const frames = parseFrames(WorkerFrame, text, 'result');
    const busy = this.#busy.get(connection.id);
    if (this.#filtered !== null) {
      const taken = this.#takeFiltered(connection, frames, this.#filtered);
      return await this.#whileBusy(connection, Promise.all([taken, busy?.catch(() => {})]));
    }
    // A short message holds no long result, so it is taken at once.
    if (!busy && text.length <= bounds.ROW_RESULT_CHARACTERS) return this.#take(connection, frames);
    const taking = async () => {
      await busy?.catch(() => {});
      for (const frame of frames) await this.#takeLong(connection, frame);
    };
    await this.#whileBusy(connection, taking());
  }

  async #whileBusy({ id }: Connection, taking: Promise<unknown>): Promise<void> {
    this.#busy.set(id, taking);
    try {
      await taking;
    } finally {
      if (this.#busy.get(id) === taking) this.#busy.delete(id);
    }
  }

  /**
   * Takes frames of which results wait for the filters of the queue. Neither the frames behind such a result nor those
   * of its worker's later messages wait for it: leases are renewed meanwhile. The end of the connection waits for a
   * result that the filters look at, and not for one that waits until they can: its worker sends that one again.
   */
  async #takeFiltered(
    connection: Connection,
    frames: readonly Parsed<WorkerFrame>[],
    filtered: FilteredResults,
  ): Promise<void> {
    await Promise.all(
      frames.map(async (frame) => {
        const attempt = filtered.in(frame);
        const facts = attempt && this.#queue.read('settling', attempt);
        if (!attempt || !facts) return await this.#takeLong(connection, frame);
        const isWanted = () => this.#queue.read('settling', attempt) !== null;
        const { settled, waits } = filtered.filter(attempt, facts, connection.load()?.worker_id, isWanted);
        const taken = this.#takeSettled(connection, attempt, settled);
        await Promise.race([taken, waits.then(() => this.#background(taken))]);
      }),
    );
  }

  async #takeSettled(
    connection: Connection,
    sent: JobResult | JobResultRef,
    settled: Promise<JobResult | JobResultRef | JobError>,
  ): Promise<void> {
    const changed = await settled;
    await this.#takeLong(connection, { ok: true, value: changed });
    // A base worker waits for the echo of its own frame.
    const isOther = sent.type === 'job_result_ref' && changed.type !== sent.type;
    if (isOther && !connection.load()?.extended) connection.send({ type: sent.type, job_id: sent.job_id });
  }

  /** Resolves when the rules have taken all that this connection has sent, but for results that wait. */
  async received(connection: Connection): Promise<void> {
    await this.#busy.get(connection.id)?.catch(() => {});
  }

  async #take(connection: Connection, frames: readonly Parsed<WorkerFrame>[]): Promise<void> {
    const queue = this.#queue;
    const taken = frames.map((frame) => {
      const take = () => queue.onFrame(connection, frame, newSessionId);
      const needsCommit = this.#commits.isGathering || !queue.frames.staysInMemory(connection, frame);
      return needsCommit ? this.#commits.together(take) : this.#commits.atOnce(take);
    });
    await Promise.all(taken);
  }

  async #takeLong(connection: Connection, frame: Parsed<WorkerFrame>): Promise<void> {
    const long = this.#longResults.in(frame);
    const isWanted = long !== null && this.#queue.read('mayHaveResult', long);
    const file = isWanted ? await this.#longResults.put(long) : null;
    if (long === null || file === null) return this.#take(connection, [frame]);
    const { result, ...rest } = long;
    const settlement = { ...rest, type: 'job_result_ref' as const, usage: long.usage ?? usageIn(result) };
    const queue = this.#queue;
    await this.#commits.together(() => {
      queue.do('noteResult', long, file);
      queue.onFrame(connection, { ok: true, value: settlement }, newSessionId);
    });
  }
}

interface LongResultPorts {
  /** Returns a stub, a new one for each try: a stub that failed once stays broken. */
  files(): JobFileCalls;
  log: Log;
}

/** Puts results too long for a row into files; a worker sends them in frames when it cannot upload them. */
export class LongResults {
  readonly #ports: LongResultPorts;

  constructor(ports: LongResultPorts) {
    this.#ports = ports;
  }

  /** Returns the frame's settlement if its result is too long for a row, else null. */
  in(frame: Parsed<WorkerFrame>): JobResult | null {
    if (!frame.ok || frame.value.type !== 'job_result') return null;
    const { value } = frame;
    return writeJson(value.result).length > bounds.ROW_RESULT_CHARACTERS ? value : null;
  }

  /** Puts a result into a file. @returns the file's id; null if it could not be stored, and stays in the frame */
  async put({ job_id, result }: JobResult): Promise<string | null> {
    const id = `result-${crypto.randomUUID()}`;
    const bytes = new TextEncoder().encode(writeJson(result));
    try {
      await putJobFile((ask) => onceMore(() => ask(this.#ports.files())), { id, job: job_id }, bytes);
      return id;
    } catch (error) {
      this.#ports.log('warn', 'a long result is not in a file, but in the row of its job', {
        job_id,
        error: String(error),
      });
      return null;
    }
  }
}
