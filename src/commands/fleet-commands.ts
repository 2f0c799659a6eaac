import type { Command } from 'commander';
import { DEFAULT_QUEUE_URL, DEFAULT_STATE, finish, list } from './command-line.ts';

const POOL_ACTIONS = [
  ['launch', 'Launch one more worker for a pool now.'],
  ['drain', 'End all workers of a pool, and launch none until the pool is resumed.'],
  ['pause', 'Keep the workers of a pool as they are: launch none and end none.'],
  ['resume', 'Let workers of a pool start and end by need again, also after too many failed starts.'],
] as const;

/** Adds the commands `launcher` and `fleet …`. */
export function addFleetCommands(program: Command): void {
  const { env } = process;
  const fleet = program
    .command('fleet')
    .description('Manage the workers that the scheduler starts and ends.');

  fleet
    .command('check <file>')
    .description('Report every fault of a fleet file, and what the fleet costs at most. It calls no queue.')
    .action(async (file) => finish((await import('./fleet/check.ts')).runFleetCheck(file, env)));

  withFleetTarget(fleet.command('status'), 'read')
    .description('Show, by pool, what the scheduler wants, has and spends, and why.')
    .option('--json', 'print it as JSON, with every launch')
    .option('--watch', 'redraw it as it changes')
    .action(async (options) => finish((await import('./fleet/status.ts')).runFleetStatus(options)));

  for (const [action, description] of POOL_ACTIONS) {
    withDryRun(withFleetTarget(fleet.command(`${action} <pool>`), 'admin'))
      .description(description)
      .action(async (pool, options) =>
        finish((await import('./fleet/control.ts')).runFleetControl(action, pool, options)),
      );
  }

  withDryRun(
    withFleetTarget(fleet.command('roll <pool>'), 'admin')
      .option('--to <version>', 'go to a version that is kept; "fleet status" lists them')
      .option('--back', 'go back to the version that served well before')
      .option('--pause', 'hold the rollout: replace no more workers')
      .option('--resume', 'go on with a rollout that is held'),
  )
    .description(
      'Replace the workers of a pool one by one, without a gap: without an option by new ones that are started with the same, for secrets that have changed.',
    )
    .action(async (pool, options) =>
      finish((await import('./fleet/control.ts')).runFleetRoll(pool, options)),
    );

  withDryRun(withFleetTarget(fleet.command('remove'), 'admin'))
    .description('Remove the fleet: the scheduler drains and ends everything that it launched.')
    .action(async (options) => finish((await import('./fleet/control.ts')).runFleetRemove(options)));

  withDryRun(
    withFleetTarget(program.command('launcher [file]'), 'launcher, with a file admin')
      .option('--worker-url <url>', 'address at which workers reach the queue, if it is another one')
      .option(
        '--id <id>',
        'id of this launcher, the same after a restart (default: the name of this machine)',
      )
      .option('--drivers <names>', 'the only drivers to use, comma-separated', list)
      .option(
        '--state <dir>',
        'folder for the logs of local processes (variable WORKER_VLLM_STATE)',
        DEFAULT_STATE,
      ),
  )
    .description(
      'Start and end machines as the scheduler of a queue orders, with the drivers of this machine. Given a fleet file, apply it first, and again whenever it changes.',
    )
    .addHelpText(
      'after',
      `
The launcher takes keys of providers and secrets of workers from the environment, by the names in the file.
"worker-vllm fleet check" reports what is wrong with a file, and what it costs. SIGHUP reads the file again.
A launcher stores nothing: another one, or the same one restarted, continues its work. When it ends, the fleet
stays in force and its machines keep running. Run one on each machine whose processes or containers are to be workers,
and one anywhere for clouds and Kubernetes.`,
    )
    .action(async (file, options) => finish((await import('./launcher.ts')).runLauncher(file, options, env)));
}

/** Adds the options that name the queue, and the token for it. @param scope the scope that the token needs */
export function withFleetTarget(command: Command, scope: string): Command {
  return command
    .option('--url <url>', 'address of the queue (variable QUEUE_URL)', DEFAULT_QUEUE_URL)
    .option('--token <token>', `token with the scope ${scope} (variable CASOLA_API_TOKEN)`)
    .option('--queue-id <id>', 'id of the queue at that address');
}

function withDryRun(command: Command): Command {
  return command.option('--dry-run', 'only report what the command would do');
}
