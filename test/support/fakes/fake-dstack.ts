import * as z from 'zod';
import type { Fetch } from '../../../src/process/http.ts';
import type { FakeMachine, FakeProvider, MachineState } from './fake-provider.ts';
import { type FakeRequest, fetchFrom, refuseIfDown } from './http.ts';

const RunSpec = z.object({
  run_name: z.string().regex(/^[a-z][a-z0-9-]{1,40}$/, 'Resource name should match regex'),
  configuration: z.object({
    type: z.literal('task'),
    image: z.string(),
    env: z.record(z.string(), z.string()),
    resources: z.object({ gpu: z.string(), disk: z.string() }),
    spot_policy: z.enum(['spot', 'on-demand', 'auto']),
    max_price: z.number().optional(),
    stop_duration: z.number().int().optional(),
  }),
});
type RunSpec = z.output<typeof RunSpec>;

interface ListBody {
  prev_run_id?: string;
  limit: number;
  only_active: boolean;
}

const STATUSES: Record<MachineState, string> = {
  starting: 'provisioning',
  running: 'running',
  ended: 'failed',
  stopped: 'failed',
  odd: 'hibernating',
};

/** Stands in for a dstack server: the runs of one project, which is how the real one (0.22.5) was seen to answer. */
export class FakeDstack {
  readonly fetch: Fetch;
  /** Runs are taken and fail at once, as where no machine is found for them. */
  findsNoMachine = false;
  /** From a stop until the run has ended and its machine is gone, ms. */
  endsAfterMs = 1000;
  /** Why a run's job ends, as dstack names it. */
  endReason = 'container_exited_with_error';
  readonly #provider: FakeProvider;
  readonly #deleted = new Set<string>();
  readonly #token: string;

  /** @param provider with unique names */
  constructor(provider: FakeProvider, token: string) {
    this.#provider = provider;
    this.#token = token;
    this.fetch = fetchFrom('/api', (request) => this.#answer(request));
  }

  #answer({ path, body, headers }: FakeRequest): Response {
    const verb = path.split('/').at(-1)!;
    const fault = this.#provider.faultOf(verb);
    refuseIfDown(fault);
    if (headers.get('authorization') !== `Bearer ${this.#token}`) {
      return json(403, { detail: [{ msg: 'Access denied', code: null }] });
    }
    if (fault) return new Response('Too Many Requests', { status: 429 });
    if (path === '/runs/list') return this.#list(body as ListBody);
    if (!path.startsWith('/project/main/runs/'))
      return json(404, { detail: { msg: 'Not found', code: null } });
    switch (verb) {
      case 'get_plan':
        return this.#plan((body as { run_spec: unknown }).run_spec);
      case 'apply':
        return this.#apply((body as { plan: { run_spec: unknown } }).plan.run_spec);
      case 'get': {
        const run = this.#named((body as { run_name: string }).run_name);
        return run ? json(200, this.#run(run)) : refusal('Run not found', 'resource_not_exists');
      }
      case 'stop':
        return this.#stop((body as { runs_names: string[] }).runs_names);
      case 'delete':
        return this.#delete((body as { runs_names: string[] }).runs_names);
      default:
        return json(404, { detail: { msg: 'Not found', code: null } });
    }
  }

  #plan(given: unknown): Response {
    const spec = RunSpec.safeParse(given);
    if (!spec.success) return refusal(spec.error.issues.map(({ message }) => message).join('; '));
    const { accidents } = this.#provider;
    const isFull = accidents.no_capacity > 0;
    if (isFull) accidents.no_capacity--;
    const current = this.#named(spec.data.run_name);
    const offers = isFull ? [] : [{ backend: 'vastai', price: this.#provider.prices.get('local') ?? 1 }];
    return json(200, {
      project_name: 'main',
      run_spec: spec.data,
      job_plans: [
        { total_offers: offers.length, offers, max_price: spec.data.configuration.max_price ?? null },
      ],
      current_resource: current ? this.#run(current) : null,
      action: current ? 'update' : 'create',
    });
  }

  #apply(given: unknown): Response {
    const spec = RunSpec.parse(given);
    const { env } = spec.configuration;
    const name = env.CASOLA_INSTANCE_ID ?? spec.run_name;
    const created = this.#provider.create({ name, instance_type: 'local', env, request: spec });
    switch (created.reply) {
      case 'created':
        if (this.findsNoMachine)
          this.#provider.end(created.machine, 0, 'No offers matching the run requirements');
        return json(200, this.#run(created.machine));
      case 'name_taken':
        return refusal('Failed to apply plan. Resource has been changed. Try again or use force apply.');
      default:
        return failed();
    }
  }

  /** The order to end; the run goes on until it has. */
  #stop(names: string[]): Response {
    for (const run of names.flatMap((name) => this.#named(name) ?? [])) {
      if (this.#isFinished(run)) continue;
      if (this.#provider.destroy(run.id, this.endsAfterMs) === 'failed') return failed();
    }
    return json(200, null);
  }

  #delete(names: string[]): Response {
    const runs = names.flatMap((name) => this.#named(name) ?? []);
    const active = runs.filter((run) => !this.#isFinished(run)).map(({ name }) => name);
    if (active.length > 0) return refusal(`Cannot delete active runs: ${JSON.stringify(active)}`);
    for (const run of runs) {
      // Of one that ended by itself.
      if (this.#provider.destroy(run.id) === 'failed') return failed();
      this.#deleted.add(run.id);
    }
    return json(200, null);
  }

  #list({ prev_run_id, limit, only_active }: ListBody): Response {
    const shown = new Set(this.#provider.list());
    const newest = this.#provider.machines
      .filter((run) => !this.#deleted.has(run.id) && (shown.has(run) || run.gone !== null))
      .filter((run) => !only_active || !this.#isFinished(run))
      .toReversed();
    const start = newest.findIndex(({ id }) => id === prev_run_id) + 1;
    return json(
      200,
      newest.slice(start, start + limit).map((machine) => this.#run(machine)),
    );
  }

  #named(name: string): FakeMachine | undefined {
    return this.#provider.machines.findLast(
      ({ id, request }) => !this.#deleted.has(id) && (request as RunSpec).run_name === name,
    );
  }

  #isFinished(run: FakeMachine): boolean {
    const state = this.#provider.stateOf(run);
    return run.gone !== null || state === 'ended' || state === 'stopped';
  }

  #statusOf(run: FakeMachine): { status: string; termination_reason: string | null } {
    const status = STATUSES[this.#provider.stateOf(run)];
    if (run.gone?.by === 'itself') return { status: 'failed', termination_reason: 'job_failed' };
    if (run.gone) return { status: 'terminated', termination_reason: 'stopped_by_user' };
    if (run.ended) return { status, termination_reason: 'job_failed' };
    if (run.leaving) return { status: 'terminating', termination_reason: 'stopped_by_user' };
    return { status, termination_reason: null };
  }

  #run(machine: FakeMachine): object {
    const state = this.#provider.stateOf(machine);
    const told = this.#statusOf(machine);
    const instant = (at: number) => new Date(this.#provider.timeOf(at)).toISOString();
    const { ended, gone } = machine;
    const exited = this.findsNoMachine ? 'failed_to_start_due_to_no_capacity' : this.endReason;
    const reason = gone?.by === 'itself' ? 'instance_unreachable' : gone ? 'terminated_by_user' : exited;
    return {
      id: machine.id,
      project_name: 'main',
      ...told,
      submitted_at: instant(machine.createdAt),
      run_spec: machine.request,
      deleted: false,
      cost: 0,
      latest_job_submission: {
        status: told.status,
        termination_reason: ended || gone ? reason : null,
        termination_reason_message: ended?.detail ?? null,
        exit_status: ended && !this.findsNoMachine ? ended.exitCode : null,
        finished_at: ended || gone ? instant((ended ?? gone)!.at) : null,
        job_provisioning_data: state === 'starting' ? null : { price: machine.price },
      },
    };
  }
}

function failed(): Response {
  return new Response('Internal Server Error', { status: 500 });
}

function json(status: number, body: unknown): Response {
  return new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } });
}

function refusal(msg: string, code = 'error'): Response {
  return json(400, { detail: [{ msg, code }] });
}
