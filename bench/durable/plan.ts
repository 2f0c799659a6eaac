/** What both sides of the comparison are told to do. */
export interface DurablePlan {
  /** Of the queue, or of Redis. */
  url: string;
  jobs: number;
  /** Jobs that are submitted and not yet answered. */
  inFlight: number;
  /** Of each payload and each result. */
  bytes: number;
  /** How they are submitted to our queue, and how results are heard of: by HTTP in arrays and a long poll each, or over one socket. */
  way?: 'http' | 'socket';
}

/** Times the work and prints `{"jobsPerSecond": …}`, then ends the process. */
export async function printRate(jobs: number, work: () => Promise<unknown>): Promise<never> {
  const began = performance.now();
  await work();
  console.log(JSON.stringify({ jobsPerSecond: (jobs * 1000) / (performance.now() - began) }));
  process.exit(0);
}
