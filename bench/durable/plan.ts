/** The plan that every side of the comparison carries out. */
export interface DurablePlan {
  /** The address of the queue, of Redis or of NATS. */
  url: string;
  jobs: number;
  /** Jobs that are submitted and not yet answered: the next one is submitted when one of them is. */
  inFlight: number;
  /** Jobs that each worker process runs at a time. */
  slots: number;
  /** The bytes of each payload and each result. */
  bytes: number;
}

/** The two programs of a side; each runs in processes of its own. */
export interface Programs {
  /** Takes jobs until the process is killed. @returns once it takes them */
  work(plan: DurablePlan): Promise<void>;
  /** Submits all jobs and reads every result. @returns how to begin, once it is connected */
  connect(plan: DurablePlan): Promise<() => Promise<void>>;
}

/** The report that the submitter prints when it has every result. */
export interface SubmitterReport {
  jobsPerSecond: number;
  /** Processor time of the submitter from its first submission to its last result. */
  processorMs: number;
}

/** Runs the program that the arguments name: `work` or `submit`, then the plan. */
export async function runProgram({ work, connect }: Programs): Promise<void> {
  const [, , which, text = ''] = process.argv;
  const plan = JSON.parse(text) as DurablePlan;
  if (which === 'work') {
    await work(plan);
    console.log('ready');
    return;
  }
  const submitAll = await connect(plan);
  const began = performance.now();
  const used = process.cpuUsage();
  await submitAll();
  const { user, system } = process.cpuUsage(used);
  const report: SubmitterReport = {
    jobsPerSecond: (plan.jobs * 1000) / (performance.now() - began),
    processorMs: (user + system) / 1000,
  };
  console.log(JSON.stringify(report));
  process.exit(0);
}

/** Calls `submit` for every job, as many at a time as may be in flight. */
export async function keepInFlight(
  plan: DurablePlan,
  submit: (n: number) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  const lane = async () => {
    while (next < plan.jobs) await submit(next++);
  };
  await Promise.all(Array.from({ length: plan.inFlight }, lane));
}

export const payloadOf = ({ bytes }: DurablePlan) => ({
  messages: [{ role: 'user', content: 'x'.repeat(bytes) }],
});

export const resultOf = ({ bytes }: DurablePlan) => ({ status: 'success', text: 'y'.repeat(bytes) });
