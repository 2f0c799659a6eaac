/** Where a worker of an endpoint speaks to the platform: the addresses in its variables, their parts filled in. */
export interface Addresses {
  take(wanted: number, isBusy: boolean): string;
  /** Null: it cannot be told from the address of the take. */
  stop: ((isBusy: boolean) => string) | null;
  /** @param isStream whether the job streams its outputs */
  done(jobId: string, isStream: boolean): string;
  stream(jobId: string): string;
  /** Null: pings are not wanted. */
  ping: ((parameters: URLSearchParams) => string) | null;
}

export interface AddressTemplates {
  take: string;
  done: string;
  stream: string;
  ping: string | null;
}

const TAKE_PATH = '/job-take/';

/**
 * The templates are opaque but for two names in them: `$RUNPOD_POD_ID` is the worker, and `$ID` the worker where it
 * takes and the job where it answers. Some have a query already, others none.
 */
export function addressesFrom(templates: AddressTemplates, workerId: string): Addresses {
  const worker = encodeURIComponent(workerId);
  const ofWorker = (template: string) =>
    template.replaceAll('$RUNPOD_POD_ID', worker).replaceAll('$ID', worker);
  const ofJob = (template: string, jobId: string) =>
    template.replaceAll('$RUNPOD_POD_ID', worker).replaceAll('$ID', encodeURIComponent(jobId));
  const take = ofWorker(templates.take);
  const tells = take.includes(TAKE_PATH);
  return {
    take: (wanted, isBusy) => {
      if (wanted === 1 || !tells) return withQuery(take, `job_in_progress=${Number(isBusy)}`);
      const batch = take.replace(TAKE_PATH, '/job-take-batch/');
      return withQuery(batch, `batch_size=${wanted}&job_in_progress=${Number(isBusy)}`);
    },
    stop: tells
      ? (isBusy) => withQuery(take.replace(TAKE_PATH, '/job-stop/'), `job_in_progress=${Number(isBusy)}`)
      : null,
    done: (jobId, isStream) => withQuery(ofJob(templates.done, jobId), `isStream=${isStream}`),
    // False here too: only the end of a stream says that it was one.
    stream: (jobId) => withQuery(ofJob(templates.stream, jobId), 'isStream=false'),
    ping:
      templates.ping === null
        ? null
        : (parameters) => withQuery(ofWorker(templates.ping!), parameters.toString()),
  };
}

function withQuery(address: string, query: string): string {
  return `${address}${address.includes('?') ? '&' : '?'}${query}`;
}
