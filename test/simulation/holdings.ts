interface Frame {
  type: string;
  job_id?: string;
  fence_token?: number;
  jobs?: { job_id: string; fence_token: number }[];
  lost?: { job_id: string; fence_token: number }[];
  revoked?: { job_id: string }[];
}

/**
 * What one boot of a worker holds by the frames that passed: every attempt it was given, until its settlement
 * is acknowledged, it released it, or the queue took it away.
 */
export class Holdings {
  readonly #held = new Map<string, number>();

  /** The process was given a frame. */
  received(text: string): void {
    const frame = JSON.parse(text) as Frame;
    if (frame.type === 'job') this.#held.set(frame.job_id!, frame.fence_token!);
    if (frame.type === 'ack') this.#over(frame.job_id!, frame.fence_token!);
    if (frame.type === 'job_revoked') this.#gone(frame.job_id!);
    for (const { job_id, fence_token } of frame.lost ?? []) this.#over(job_id, fence_token);
    for (const { job_id } of frame.revoked ?? []) this.#gone(job_id);
  }

  /**
   * The process says something.
   * @returns attempts that it holds and does not list where it should
   */
  said(text: string): string[] {
    const frame = JSON.parse(text) as Frame;
    if (frame.type === 'job_release') this.#gone(frame.job_id!);
    if (frame.type !== 'register') return [];
    const listed = new Map((frame.jobs ?? []).map((job) => [job.job_id, job.fence_token]));
    return [...this.#held]
      .filter(([jobId, fence]) => listed.get(jobId) !== fence)
      .map(([jobId, fence]) => `${jobId}#${fence}`);
  }

  /** Released while there was no connection to say so on: told by its absence from the next list. */
  released(jobId: string): void {
    this.#gone(jobId);
  }

  /** This attempt; a newer one of the same job is held on. */
  #over(jobId: string, fence: number): void {
    if (this.#held.get(jobId) === fence) this.#gone(jobId);
  }

  #gone(jobId: string): void {
    this.#held.delete(jobId);
  }
}
