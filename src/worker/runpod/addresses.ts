/**
 * The addresses at which a worker of an endpoint reaches the platform, from its variables, with their parts filled in.
 */
export interface Addresses {
  take(wanted: number, isBusy: boolean): string;
  /** Returns the address that asks for no more jobs; null: it cannot be derived from the address of the take. */
  stop: ((isBusy: boolean) => string) | null;
  /** @param isStream whether the job streams its outputs */
  done(jobId: string, isStream: boolean): string;
  stream(jobId: string): string;
  /** Returns the address of a ping; null: pings are not wanted. */
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
 * Fills in the templates, which are opaque but for two names in them: `$RUNPOD_POD_ID` is the worker, and `$ID` the
 * worker where it takes jobs and the job where it answers. Some templates have a query already, others none.
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
    // This is false too: only the address of the end of a stream says that the job was one.
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
