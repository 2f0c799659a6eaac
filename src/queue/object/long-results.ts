import { onceMore } from '../../asking/once-more.ts';
import type { Log } from '../../durable/host.ts';
import { type JobFileCalls, putJobFile } from '../../files/put-job-file.ts';
import { bounds, type JobResult, type Parsed, type WorkerFrame, writeJson } from '../../protocol/index.ts';

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
