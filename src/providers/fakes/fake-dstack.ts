import * as z from 'zod';
import type { Fetch } from '../../process/http.ts';
import type { FakeMachine, FakeProvider, MachineState } from './fake-provider.ts';
import { type FakeRequest, fetchFrom, refuseIfDown } from './http.ts';

const RunSpec = z.object({
  run_name: z.string().regex(/^[a-z][a-z0-9-]{1,40}$/, 'Resource name should match regex'),
  configuration: z.object({
    type: z.literal('task'),
    image: z.string(),
    env: z.record(z.string(), z.string()),
    resources: z.object({ gpu: z.string(), disk: z.string() }),
    max_price: z.number().optional(),
  }),
});
type RunSpec = z.output<typeof RunSpec>;

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
  readonly #provider: FakeProvider;
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
    if (path === '/runs/list') return this.#list(body as { prev_run_id?: string; limit: number });
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
      case 'delete':
        return this.#end((body as { runs_names: string[] }).runs_names);
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
    const created = this.#provider.create({ name, kind: 'local', env, request: spec });
    switch (created.reply) {
      case 'created':
        if (this.findsNoMachine)
          this.#provider.end(created.machine, 0, 'No offers matching the run requirements');
        return json(200, this.#run(created.machine));
      case 'name_taken':
        return refusal('Failed to apply plan. Resource has been changed. Try again or use force apply.');
      default:
        return new Response('Internal Server Error', { status: 500 });
    }
  }

  #end(names: string[]): Response {
    for (const name of names) {
      const run = this.#named(name);
      if (run && this.#provider.destroy(run.id) === 'failed') {
        return new Response('Internal Server Error', { status: 500 });
      }
    }
    return json(200, null);
  }

  #list({ prev_run_id, limit }: { prev_run_id?: string; limit: number }): Response {
    const newest = this.#provider.list().toReversed();
    const start = newest.findIndex(({ id }) => id === prev_run_id) + 1;
    return json(
      200,
      newest.slice(start, start + limit).map((machine) => this.#run(machine)),
    );
  }

  #named(name: string): FakeMachine | undefined {
    return this.#provider.alive.find(({ request }) => (request as RunSpec).run_name === name);
  }

  #run(machine: FakeMachine): object {
    const state = this.#provider.stateOf(machine);
    const instant = (at: number) => new Date(this.#provider.timeOf(at)).toISOString();
    const { ended } = machine;
    const reason = this.findsNoMachine ? 'failed_to_start_due_to_no_capacity' : 'container_exited_with_error';
    return {
      id: machine.id,
      project_name: 'main',
      status: STATUSES[state],
      submitted_at: instant(machine.createdAt),
      termination_reason: ended ? 'job_failed' : null,
      run_spec: machine.request,
      deleted: false,
      cost: 0,
      latest_job_submission: {
        status: STATUSES[state],
        termination_reason: ended ? reason : null,
        termination_reason_message: ended?.detail ?? null,
        exit_status: ended && !this.findsNoMachine ? ended.exitCode : null,
        finished_at: ended ? instant(ended.at) : null,
        job_provisioning_data: state === 'starting' ? null : { price: machine.price },
      },
    };
  }
}

function json(status: number, body: unknown): Response {
  return new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } });
}

function refusal(msg: string, code = 'error'): Response {
  return json(400, { detail: [{ msg, code }] });
}
