import type { Bug } from './planted-batch-bugs.ts';

/** Faults of one line in the worker of a RunPod endpoint, each of which `node scripts/simulate-runpod.ts` must catch. */
export const RUNPOD_BUGS: readonly Bug[] = [
  {
    name: 'runpod: a result is posted twice',
    file: 'src/worker/runpod/job-answer.ts',
    line: 'const hasTaken = await this.#postEnd(this.#outcome);',
    becomes: 'await this.#postEnd(this.#outcome);\n    const hasTaken = await this.#postEnd(this.#outcome);',
  },
  {
    name: 'runpod: a result is lost after 429',
    file: 'src/worker/runpod/platform.ts',
    line: 'status === 429 || ',
    becomes: '',
  },
  {
    name: 'runpod: a result is lost with its connection',
    file: 'src/worker/runpod/platform.ts',
    line: 'return status === null || status === 408',
    becomes: 'return status === 408',
  },
  {
    name: 'runpod: pieces are posted without waiting for each other',
    file: 'src/worker/runpod/job-answer.ts',
    line: 'await this.#postOutput(output);',
    becomes: 'void this.#postOutput(output);',
  },
  {
    name: 'runpod: what waits to be posted goes last in, first out',
    file: 'src/worker/runpod/job-answer.ts',
    line: 'this.#waiting.push(output);',
    becomes: 'this.#waiting.unshift(output);',
  },
  {
    name: 'runpod: a piece is posted after the end',
    file: 'src/worker/runpod/job-answer.ts',
    line: 'if (this.#outcome === null || signal.aborted) return;',
    becomes:
      'if (this.#outcome !== null) void this.#postOutput(this.#posted.at(-1)!);\n    if (this.#outcome === null || signal.aborted) return;',
  },
  {
    name: 'runpod: a piece whose answer was lost is posted again',
    file: 'src/worker/runpod/job-answer.ts',
    line: 'mayPass(answer) && !answer.mayHaveReached,',
    becomes: 'mayPass(answer),',
  },
  {
    name: 'runpod: the end repeats only what nobody was posted',
    file: 'src/worker/runpod/job-answer.ts',
    line: 'this.#posted.push(output);\n      await',
    becomes: 'await',
  },
  {
    name: 'runpod: a job that comes with SIGTERM is dropped',
    file: 'src/worker/runpod/polling.ts',
    line: 'const hasBrought = isTaken(answer) && this.#ports.received(answer.body);',
    becomes: 'const hasBrought = isTaken(answer) && !this.#isStopping && this.#ports.received(answer.body);',
  },
  {
    name: 'runpod: a drain drops what may take longer than the grace',
    file: 'src/protocol/base.ts',
    line: '...EXTENDED_QUEUE,\n  choosesByModel: false,\n  countsUsage: false,\n  repeatsAttempts: false,\n  takesReleases: false,',
    becomes: '...EXTENDED_QUEUE,\n  choosesByModel: false,\n  countsUsage: false,\n  repeatsAttempts: false,',
  },
  {
    name: 'runpod: a stop is ignored',
    file: 'src/worker/runpod/runpod-queue.ts',
    line: 'for (const id of ids) this.#stop(id);',
    becomes: '',
  },
  {
    name: 'runpod: a stopped job goes on at its engine',
    file: 'src/worker/runpod/runpod-queue.ts',
    line: "this.#tell({ type: 'job_revoked', job_id: jobId, reason: 'cancelled' });",
    becomes: '',
  },
  {
    name: 'runpod: a stopped job is answered',
    file: 'src/worker/runpod/runpod-queue.ts',
    line: "held.answer.drop();\n    this.#forget(jobId);\n    this.#tell({ type: 'job_revoked'",
    becomes: "this.#forget(jobId);\n    this.#tell({ type: 'job_revoked'",
  },
  {
    name: 'runpod: pings name only what runs',
    file: 'src/worker/runpod/runpod-queue.ts',
    line: 'return [...this.#held.keys()];',
    becomes: 'return [...this.#held].filter(([, { isRunning }]) => isRunning).map(([id]) => id);',
  },
  {
    name: 'runpod: a job that is given again runs again beside itself',
    file: 'src/worker/runpod/runpod-queue.ts',
    line: 'if (this.#held.has(job.id)) return;',
    becomes: '',
  },
  {
    name: 'runpod: jobs are asked for at once after 429',
    file: 'src/worker/runpod/polling.ts',
    line: 'if (answer.status === 429) return TOO_MANY_PAUSE_MS;',
    becomes: 'if (answer.status === 429) return 0;',
  },
  {
    name: 'runpod: a result of an earlier process is posted piece by piece again',
    file: 'src/worker/runpod/job-answer.ts',
    line: 'this.#posted.push(...outcome.output.map((output) => writeJson(output)));\n      this.#yielded = outcome.output.length;',
    becomes: '',
  },
];
