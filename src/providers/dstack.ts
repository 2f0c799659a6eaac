import * as z from 'zod';
import type { LaunchOutcome, ListedMachine } from '../scheduler/rpc.ts';
import {
  DEFAULT_DISK_GB,
  type Driver,
  type DriverPorts,
  imageOf,
  type LaunchRequest,
  type MachineKey,
  type MakeDriver,
  secondsToEnd,
} from './driver.ts';
import { type Answer, CALL_LIMIT_MS, keyOf, lookAfter, Pace, RestApi, unknownFrom } from './rest.ts';

/** The fields of a run that this driver reads, as dstack 0.22 has them. */
const Run = z.object({
  id: z.string(),
  status: z.string(),
  submitted_at: z.string(),
  termination_reason: z.string().nullish(),
  deleted: z.boolean().nullish(),
  run_spec: z.object({
    run_name: z.string(),
    configuration: z.object({ env: z.record(z.string(), z.unknown()).nullish() }),
  }),
  latest_job_submission: z
    .object({
      status: z.string(),
      termination_reason: z.string().nullish(),
      termination_reason_message: z.string().nullish(),
      exit_status: z.number().int().nullish(),
      finished_at: z.string().nullish(),
      job_provisioning_data: z.object({ price: z.number().nullish() }).nullish(),
    })
    .nullish(),
});
type Run = z.output<typeof Run>;

const Plan = z.object({
  run_spec: z.unknown(),
  current_resource: Run.nullish(),
  job_plans: z
    .array(z.object({ total_offers: z.number(), offers: z.array(z.object({ price: z.number() })) }))
    .min(1),
});
type Plan = z.output<typeof Plan>;

const STATES: Record<string, ListedMachine['state']> = {
  pending: 'starting',
  submitted: 'starting',
  provisioning: 'starting',
  running: 'running',
  terminating: 'ended',
  terminated: 'ended',
  failed: 'ended',
  done: 'ended',
};
const FINISHED = new Set(['terminated', 'failed', 'done']);
const ENDED_BY_US = new Set(['stopped_by_user', 'aborted_by_user']);
const PREEMPTED = 'interrupted_by_no_capacity';
/** The termination reasons of runs for which no machine was found, or whose machine was taken back. */
const NO_CAPACITY = new Set(['failed_to_start_due_to_no_capacity', PREEMPTED]);

/** The longest name that dstack takes, `^[a-z][a-z0-9-]{1,40}$`. */
const MAX_NAME = 41;
const PAGE = 100;
/** The pause between looks by name after a submission with an unknown outcome, ms. */
const LOOK_PAUSE_MS = 2000;

type Spec = Parameters<MakeDriver<'dstack'>>[0];

export const makeDstack: MakeDriver<'dstack'> = (spec, ports) => {
  const token = keyOf(ports, spec.token_variable, 'the dstack token with which this launcher submits runs');
  return new Dstack(spec, ports, token);
};

/**
 * A driver for runs of dstack, which has some twenty clouds behind it. A run's name is unique in its project, and an
 * apply that expects no run fails if one exists, so the name is the idempotency key. dstack looks for a machine after
 * it has accepted the run, so often only the list shows that there is no room for it.
 */
class Dstack implements Driver {
  readonly #spec: Spec;
  readonly #ports: DriverPorts;
  readonly #api: RestApi;
  readonly #pace: Pace;

  constructor(spec: Spec, ports: DriverPorts, token: string) {
    this.#spec = spec;
    this.#ports = ports;
    this.#api = new RestApi(ports, { provider: 'dstack', url: spec.url, token });
    this.#pace = new Pace(ports.clock, 0);
  }

  async launch(request: LaunchRequest): Promise<LaunchOutcome> {
    const until = this.#ports.clock.now() + CALL_LIMIT_MS;
    let plan: Plan;
    try {
      const answer = await this.#inProject(
        'get_plan',
        { run_spec: runSpecOf(request), max_offers: 1 },
        until,
      );
      const refusal = this.#refusalOf('the request for a plan', answer);
      if (refusal) return refusal;
      plan = this.#api.read('the request for a plan', answer, Plan);
    } catch (error) {
      return unknownFrom(error);
    }
    if (plan.current_resource) return launched(plan.current_resource);
    const [{ total_offers, offers }] = plan.job_plans as [Plan['job_plans'][number]];
    if (total_offers > 0) return await this.#apply(request, plan, offers[0]?.price ?? null, until);
    const detail = `dstack has no offers of ${gpusOf(request)} in the fleets of its project ${this.#spec.project}`;
    return { kind: 'no_capacity', detail };
  }

  async #apply(
    request: LaunchRequest,
    plan: Plan,
    price: number | null,
    until: number,
  ): Promise<LaunchOutcome> {
    const what = 'the submission of a run';
    try {
      const body = { plan: { run_spec: plan.run_spec, current_resource: null }, force: false };
      const answer = await this.#inProject('apply', body, until);
      const refusal = this.#refusalOf(what, answer);
      if (!refusal) return { ...launched(this.#api.read(what, answer, Run)), price_per_hour: price };
      // A 400 may mean that another call has taken the name.
      const run = answer.status === 400 ? await this.#find(request.name, until) : null;
      return run ? launched(run) : refusal;
    } catch (error) {
      return await this.#lookAfter(request.name, until, error);
    }
  }

  async #lookAfter(name: string, until: number, cause: unknown): Promise<LaunchOutcome> {
    return await lookAfter(this.#ports.clock, LOOK_PAUSE_MS, cause, async () => {
      const run = await this.#find(name, until);
      return run && launched(run);
    });
  }

  #refusalOf(what: string, answer: Answer): LaunchOutcome | null {
    const { status } = answer;
    const said = this.#api.said(what, answer);
    if (status === 401 || status === 403) {
      return { kind: 'rejected', detail: `${said} (${this.#spec.token_variable})` };
    }
    if (status === 404) return { kind: 'rejected', detail: `${said} (project ${this.#spec.project})` };
    if (status === 429) return { kind: 'unknown', detail: said };
    return status >= 400 && status < 500 ? { kind: 'rejected', detail: said } : null;
  }

  /** Finds a run by its name. @throws NoAnswerError */
  async #find(name: string, until: number): Promise<Run | null> {
    const answer = await this.#inProject('get', { run_name: runNameOf(name) }, until);
    if (answer.status === 400 && this.#api.said('', answer).includes('Run not found')) return null;
    return this.#api.read('the request for a run', answer, Run);
  }

  /** Lists all active runs, and the newest of the ended ones, which cost nothing, for what they report. */
  async list(prefix: string): Promise<ListedMachine[]> {
    const until = this.#ports.clock.now() + CALL_LIMIT_MS;
    const [active, newest] = [await this.#activeRuns(until), await this.#page(false, undefined, until)];
    const runs = new Map([...newest, ...active].map((run) => [run.id, run]));
    return [...runs.values()]
      .filter((run) => nameOf(run).startsWith(prefix) && !isOver(run))
      .map((run) => machineOf(run));
  }

  async #activeRuns(until: number): Promise<Run[]> {
    const runs: Run[] = [];
    while (true) {
      const page = await this.#page(true, runs.at(-1), until);
      runs.push(...page);
      if (page.length < PAGE) return runs;
    }
  }

  async #page(onlyActive: boolean, after: Run | undefined, until: number): Promise<Run[]> {
    const body = {
      project_name: this.#spec.project,
      only_active: onlyActive,
      job_submissions_limit: 1,
      limit: PAGE,
      ...(after ? { prev_submitted_at: after.submitted_at, prev_run_id: after.id } : {}),
    };
    return this.#api.read('the list of runs', await this.#ask('/api/runs/list', body, until), z.array(Run));
  }

  async terminate({ name, external_id }: MachineKey): Promise<LaunchOutcome> {
    const until = this.#ports.clock.now() + CALL_LIMIT_MS;
    const what = `the end of run ${runNameOf(name)}`;
    try {
      const run = await this.#find(name, until);
      // Runs are ended by name: another run of that name must stay.
      if (!run || (external_id !== null && run.id !== external_id)) return { kind: 'terminated' };
      const names = { runs_names: [runNameOf(name)] };
      const hasEnded = FINISHED.has(run.status);
      // A stop only orders the end. A run that has ended is deleted, so that it is listed no more.
      const answer = hasEnded
        ? await this.#inProject('delete', names, until)
        : await this.#inProject('stop', { ...names, abort: false }, until);
      if (answer.status === 200) return { kind: hasEnded ? 'terminated' : 'terminating' };
      return { kind: 'unknown', detail: this.#api.said(what, answer) };
    } catch (error) {
      return unknownFrom(error);
    }
  }

  async prices(instance_types: string[]): Promise<{ instance_type: string; price_per_hour: number }[]> {
    const until = this.#ports.clock.now() + CALL_LIMIT_MS;
    const found: { instance_type: string; price_per_hour: number }[] = [];
    for (const instance_type of instance_types) {
      const any = { instance_type, gpus: 1, disk_gb: null, price_per_hour: null, image: null, env: {} };
      const { run_name: _, ...run_spec } = runSpecOf({ ...any, name: '', may_exist: false });
      const body = { run_spec, max_offers: 1, for_offers_only: true };
      const plan = await this.#inProject('get_plan', body, until);
      const offer = this.#api.read('the request for offers', plan, Plan).job_plans[0]?.offers[0];
      if (offer) found.push({ instance_type, price_per_hour: offer.price });
    }
    return found;
  }

  #inProject(verb: string, body: object, until: number): Promise<Answer> {
    return this.#ask(`/api/project/${encodeURIComponent(this.#spec.project)}/runs/${verb}`, body, until);
  }

  #ask(path: string, body: object, until: number): Promise<Answer> {
    return this.#api.ask({ method: 'POST', path, body, until, pace: this.#pace });
  }
}

/** Returns the run's name. A name that is too long loses its pool: the id at its end is unique in the installation. */
function runNameOf(name: string): string {
  if (name.length <= MAX_NAME) return name;
  const parts = name.split('-');
  return [parts[0], parts[1], parts.at(-1)].join('-');
}

/** Returns the whole name, which the run's own name may abbreviate. */
function nameOf({ run_spec: { run_name, configuration } }: Run): string {
  const told = configuration.env?.CASOLA_INSTANCE_ID;
  return typeof told === 'string' && runNameOf(told) === run_name ? told : run_name;
}

function gpusOf({ instance_type, gpus }: Pick<LaunchRequest, 'instance_type' | 'gpus'>): string {
  if (gpus === 0) return '0';
  return instance_type === 'local' ? String(gpus) : `${instance_type}:${gpus}`;
}

function runSpecOf(request: LaunchRequest) {
  const { name, env, disk_gb, price_per_hour, spot } = request;
  const configuration = {
    type: 'task',
    ...(name ? { name: runNameOf(name) } : {}),
    // Without commands the image starts unchanged.
    image: imageOf(request),
    env,
    resources: { gpu: gpusOf(request), disk: `${disk_gb ?? DEFAULT_DISK_GB}GB..` },
    spot_policy: spot ? 'spot' : 'on-demand',
    // The scheduler decides about new tries, and dstack must not wait for a machine.
    retry: false,
    max_duration: 'off',
    stop_duration: secondsToEnd(env),
    // An idle machine without a run would still cost money.
    idle_duration: 0,
    ...(price_per_hour === null ? {} : { max_price: price_per_hour }),
  };
  return { run_name: runNameOf(name), configuration };
}

/** Returns whether nothing is left of a run: it ended as ordered, or has been deleted. */
function isOver({ status, termination_reason, deleted }: Run): boolean {
  return Boolean(deleted) || (FINISHED.has(status) && ENDED_BY_US.has(termination_reason ?? ''));
}

function machineOf(run: Run): ListedMachine {
  const job = run.latest_job_submission;
  const isFull = NO_CAPACITY.has(job?.termination_reason ?? '');
  const said = [run.termination_reason, job?.termination_reason, job?.termination_reason_message];
  return {
    external_id: run.id,
    name: nameOf(run),
    state: STATES[run.status] ?? 'unknown',
    ...(isFull ? { no_capacity: true } : {}),
    ...(job?.termination_reason === PREEMPTED ? { preempted: true } : {}),
    created_at: Date.parse(run.submitted_at),
    started_at: null,
    ended_at: job?.finished_at ? Date.parse(job.finished_at) : null,
    price_per_hour: job?.job_provisioning_data?.price ?? null,
    exit_code: job?.exit_status ?? null,
    detail: said.filter(Boolean).join(': ') || (STATES[run.status] ? null : `dstack says ${run.status}`),
  };
}

function launched(run: Run) {
  const price = run.latest_job_submission?.job_provisioning_data?.price ?? null;
  return { kind: 'launched' as const, external_id: run.id, price_per_hour: price };
}
