import type { Command } from 'commander';
import { finish } from './command-line.ts';
import { withFleetTarget } from './fleet-commands.ts';

/** Adds the commands `alerts …`. */
export function addAlertCommands(program: Command): void {
  const alerts = program
    .command('alerts')
    .description('Show who is told of problems, send a test, and mute alerts for a while.');

  withFleetTarget(alerts.command('status'), 'read')
    .description('List the receivers, how each took what it was sent, and the mutes in force.')
    .option('--json', 'print them as JSON')
    .action(async (options) => finish((await import('./alerts.ts')).runAlertsStatus(options)));

  withFleetTarget(alerts.command('test <receiver>'), 'admin')
    .description('Send a test to a receiver, at once. The exit code is 0 if it took it, else 1.')
    .action(async (receiver, options) =>
      finish((await import('./alerts.ts')).runAlertsTest(receiver, options)),
    );

  withFleetTarget(alerts.command('mute'), 'admin')
    .description('Post nothing of some problems for a while; without --pool and --kind, of any.')
    .requiredOption('--for <duration>', 'how long: 30m, 2h, 1d; at most 30d')
    .option('--pool <pool>', "only problems of this pool; * stands for any characters: 'llama-*'")
    .option('--kind <kind>', 'only problems of this kind; docs/alerts.md lists them')
    .option('--why <reason>', 'the reason, for others who look at the mutes')
    .action(async (options) => finish((await import('./alerts.ts')).runAlertsMute(options)));

  withFleetTarget(alerts.command('unmute <id>'), 'admin')
    .description('End a mute early. "alerts status" lists the ids.')
    .action(async (id, options) => finish((await import('./alerts.ts')).runAlertsUnmute(id, options)));
}
